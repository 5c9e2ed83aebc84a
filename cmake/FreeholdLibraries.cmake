# The sources and the four libraries.

include(CheckLinkerFlag)

# Everything but the kernel's layer is the same on each system. A folder's new file is picked up by the
# next build without an edit here.
file(
    GLOB core_sources CONFIGURE_DEPENDS
    src/base/*.c
    src/store/*.c
    src/cache/*.c
    src/reclaim/*.c
    src/check/*.c
    src/heap/*.c
    src/observe/*.c
    src/observe/*/*.c
    src/misuse/*.c
    src/api/*.c)

string(TOLOWER "${CMAKE_SYSTEM_NAME}" system_name)

# The files that take over names of the C and C++ libraries are the only difference between the drop-in and
# the embedding library, and are known by their names.
file(GLOB override_sources CONFIGURE_DEPENDS src/api/override*.c src/system/${system_name}_override*.c)
file(GLOB new_sources CONFIGURE_DEPENDS src/api/new*.c src/api/new*.cc)
if(FREEHOLD_CXX)
    list(APPEND override_sources ${new_sources})
endif()
list(FILTER core_sources EXCLUDE REGEX "/src/api/(override|new|global)[^/]*\\.c$")

# The platform is chosen by file: whatever has the name of a system is only built on it.
file(GLOB system_sources CONFIGURE_DEPENDS src/system/*.c)
foreach(other IN ITEMS linux windows darwin)
    if(NOT other STREQUAL system_name)
        list(FILTER system_sources EXCLUDE REGEX "/${other}[^/]*\\.c$")
    endif()
endforeach()
list(FILTER system_sources EXCLUDE REGEX "/[a-z]+_(override|loaded|global)[^/]*\\.c$")
# And what only makes sense in a library that is loaded.
file(GLOB loaded_sources CONFIGURE_DEPENDS src/system/${system_name}_loaded*.c)

# The linker keeps the order of the sources. The kernel maps 64 KiB of a file around each page that is touched, so what the first
# allocations of any program need comes first, and the rest stays out (tests/memory/mapped.sh).
list(APPEND core_sources ${system_sources})
set(first_sources
    cache/alloc cache/free cache/magazine cache/thread cache/twice
    store/chunk store/depot store/events store/hints store/limit store/run store/slab store/slab_life store/thp store/window
    reclaim/background reclaim/huge_pages reclaim/idle reclaim/reclaim
    base/classes base/text api/options
    system/linux system/linux_limits system/linux_program system/linux_read system/linux_thread system/linux_tools system/linux_traits)
list(TRANSFORM first_sources PREPEND ${PROJECT_SOURCE_DIR}/src/)
list(TRANSFORM first_sources APPEND .c)
foreach(source IN LISTS first_sources)
    if(source MATCHES "/src/system/" AND NOT source IN_LIST core_sources)
        list(REMOVE_ITEM first_sources ${source}) # of another system
    endif()
endforeach()
list(REMOVE_ITEM core_sources ${first_sources})

# A linker that takes a list of functions, constants and variables does better (docs/memory.md, A small process).
set(FREEHOLD_ORDER ${PROJECT_SOURCE_DIR}/cmake/order.ld)
set(order_options "")
if(system_name STREQUAL linux AND NOT FREEHOLD_SANITIZE)
    check_linker_flag(C -Wl,-T,${FREEHOLD_ORDER} FREEHOLD_LINKS_IN_ORDER)
    if(FREEHOLD_LINKS_IN_ORDER)
        # Segments begin at multiples of what the kernel maps around a page, so what is together is in as few as can be.
        set(order_options -Wl,-T,${FREEHOLD_ORDER} -Wl,-z,max-page-size=65536)
        target_compile_options(freehold_flags INTERFACE -ffunction-sections -fdata-sections)
    endif()
endif()

add_library(freehold_core OBJECT ${first_sources} ${core_sources})
target_link_libraries(freehold_core PRIVATE freehold_flags freehold_sanitizer Threads::Threads)
set_target_properties(freehold_core PROPERTIES POSITION_INDEPENDENT_CODE ON)

add_library(freehold_override OBJECT ${override_sources})
target_link_libraries(freehold_override PRIVATE freehold_flags freehold_sanitizer Threads::Threads)
# An exception finds its way through the frames of operator new, also those that are written in C. Type
# information stays on: without it the compiler makes its own of std::bad_alloc, which needs the C++ library.
target_compile_options(freehold_override PRIVATE -fexceptions)
set_target_properties(freehold_override PROPERTIES POSITION_INDEPENDENT_CODE ON)

# A port begins without them.
set(loaded "")
if(loaded_sources)
    add_library(freehold_loaded OBJECT ${loaded_sources})
    target_link_libraries(freehold_loaded PRIVATE freehold_flags freehold_sanitizer Threads::Threads)
    set_target_properties(freehold_loaded PROPERTIES POSITION_INDEPENDENT_CODE ON)
    set(loaded $<TARGET_OBJECTS:freehold_loaded>)
endif()

# The C compiler links, and CMake must not add the C++ library because one of the objects came from C++.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")

# A library `target` of the given kind and file name, made of the objects that follow.
function(freehold_library target kind output)
    add_library(${target} ${kind} ${ARGN})
    add_library(Freehold::${target} ALIAS ${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output} LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
                                               SOVERSION ${PROJECT_VERSION_MAJOR})
    target_include_directories(
        ${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    if(kind STREQUAL SHARED)
        target_link_options(${target} PRIVATE ${FREEHOLD_LINK_OPTIONS} ${order_options})
        set_property(TARGET ${target} PROPERTY LINK_DEPENDS ${FREEHOLD_EXPORTS} ${FREEHOLD_ORDER})
        target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:freehold_sanitizer>)
    else()
        # A static library leaves the link of threads to the program. On today's glibc that is nothing.
        target_link_libraries(${target} INTERFACE Threads::Threads $<BUILD_INTERFACE:freehold_sanitizer>)
    endif()
endfunction()

set(core $<TARGET_OBJECTS:freehold_core>)
set(override $<TARGET_OBJECTS:freehold_override>)
freehold_library(freehold SHARED freehold ${override} ${core} ${loaded})
freehold_library(freehold_static STATIC freehold ${override} ${core})
# A member of an archive is only linked when something names what is in it, and a program that allocates only through
# strdup or fopen never names malloc: it would get the C library's.
target_link_options(freehold_static INTERFACE LINKER:-u,malloc)
freehold_library(embed SHARED freehold-embed ${core})
freehold_library(embed_static STATIC freehold-embed ${core})

# The library for every program of a system, which has a list of those that keep the C library's malloc. It is part of a
# package, not of an installation.
option(FREEHOLD_GLOBAL "Build libfreehold-global.so" ${FREEHOLD_TESTS})
file(GLOB global_sources CONFIGURE_DEPENDS src/system/${system_name}_global.c src/system/${system_name}_override_prctl.c)
if(FREEHOLD_GLOBAL
   AND global_sources
   AND NOT FREEHOLD_SANITIZE)
    add_library(freehold_global SHARED ${core} ${loaded} src/api/global.c ${global_sources})
    target_link_libraries(freehold_global PRIVATE freehold_flags Threads::Threads ${CMAKE_DL_LIBS})
    target_link_options(freehold_global PRIVATE ${FREEHOLD_LINK_OPTIONS} ${order_options})
    set_target_properties(freehold_global PROPERTIES OUTPUT_NAME freehold-global LINKER_LANGUAGE C)
    set_property(TARGET freehold_global PROPERTY LINK_DEPENDS ${FREEHOLD_EXPORTS} ${FREEHOLD_ORDER})
endif()

# Who only uses one of them builds no other.
if(NOT FREEHOLD_INSTALL)
    set_target_properties(freehold freehold_static embed embed_static PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
