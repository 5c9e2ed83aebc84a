# The compiler flags of the library, each with its reason. Nothing here is exported to a consumer.

include(CheckCCompilerFlag)

# Warnings are errors for those who work on Freehold, never for those who only build it as a part of
# something else, perhaps with a compiler that did not exist when this was written.
option(FREEHOLD_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})

add_library(freehold_flags INTERFACE)
target_compile_definitions(freehold_flags INTERFACE _GNU_SOURCE)
target_include_directories(freehold_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(
    freehold_flags
    INTERFACE "$<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Wall;-Wextra;-Wpedantic>"
              $<$<BOOL:${FREEHOLD_WERROR}>:-Werror>
              # Line tables cost nothing at run time and make a stack trace readable.
              -g
              # Only what is marked public leaves the library; calls inside it are direct.
              -fvisibility=hidden
              # No function of ours may become a call of malloc because a compiler knows what it means.
              -fno-builtin-malloc
              -fno-builtin-calloc
              -fno-builtin-realloc
              -fno-builtin-free
              # The allocator views the same bytes as words, marks and blocks of its caller.
              -fno-strict-aliasing
              -fno-math-errno)

# As a part of something else it is built with that project's optimisation, which may be none, or -O3.
if(NOT PROJECT_IS_TOP_LEVEL)
    target_compile_options(freehold_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:-O2>)
endif()

# One thread-local address is computed by one instruction relative to the thread pointer; the general
# model would call a function that may itself allocate.
if(FREEHOLD_TLS_MODEL)
    target_compile_options(freehold_flags INTERFACE -ftls-model=${FREEHOLD_TLS_MODEL})
endif()

# These exist only for some compilers or processors.
foreach(flag IN ITEMS -fno-plt -fno-semantic-interposition -fcf-protection=none)
    string(MAKE_C_IDENTIFIER "FREEHOLD_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
        target_compile_options(freehold_flags INTERFACE ${flag})
    endif()
endforeach()

if(FREEHOLD_CHECKED)
    target_compile_definitions(freehold_flags INTERFACE FH_CHECKED=1)
endif()
if(FREEHOLD_STRESS)
    target_compile_definitions(freehold_flags INTERFACE FH_STRESS=1)
endif()

# A sanitizer must be in the library, in the programs that test it and in the link of both.
add_library(freehold_sanitizer INTERFACE)
if(FREEHOLD_SANITIZE)
    target_compile_options(freehold_sanitizer INTERFACE -fsanitize=${FREEHOLD_SANITIZE}
                                                        -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(freehold_sanitizer INTERFACE -fsanitize=${FREEHOLD_SANITIZE})
    if(FREEHOLD_SANITIZE STREQUAL "thread")
        # Its shadow leaves no terabyte of address space in one piece; 128 GiB there are. Tests that look inside have to know it too.
        target_compile_definitions(freehold_sanitizer INTERFACE FH_WINDOW_UNITS=8u)
    endif()
endif()

# Our own names have versions; those that override the C library's have none, or they would override nothing.
set(FREEHOLD_EXPORTS ${PROJECT_SOURCE_DIR}/src/api/exports.map)

# What a shared object of ours is linked with. `nodelete` makes dlclose leave the code in place: blocks are
# still in use, and the exit of any thread will call back into it. A sanitizer's run-time is found only in
# the program, so its names must be allowed to stay open there.
set(FREEHOLD_LINK_OPTIONS
    -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,noexecstack -Wl,--build-id
    -Wl,--version-script=${FREEHOLD_EXPORTS})
if(NOT FREEHOLD_SANITIZE)
    list(APPEND FREEHOLD_LINK_OPTIONS -Wl,--no-undefined)
endif()
