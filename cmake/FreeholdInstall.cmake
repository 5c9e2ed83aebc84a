# What `make install` puts where: libraries, headers, a CMake package and two pkg-config files.

install(
    TARGETS freehold freehold_static embed embed_static
    EXPORT FreeholdTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/freehold DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Freehold)
install(EXPORT FreeholdTargets NAMESPACE Freehold:: DESTINATION ${package_dir})
configure_package_config_file(cmake/FreeholdConfig.cmake.in ${PROJECT_BINARY_DIR}/FreeholdConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/FreeholdConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/FreeholdConfig.cmake ${PROJECT_BINARY_DIR}/FreeholdConfigVersion.cmake
        DESTINATION ${package_dir})

# One pkg-config file for each library; they differ in the name and in what they say about themselves.
# What is linked statically must be asked for by name, as in FreeholdLibraries.cmake.
function(freehold_pkgconfig name description)
    set(PC_NAME ${name})
    file(RELATIVE_PATH PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
    set(PC_DESCRIPTION "${description}")
    set(PC_LIBS_PRIVATE "${ARGN}")
    configure_file(cmake/freehold.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
freehold_pkgconfig(freehold "Memory allocator that takes over malloc and operator new" "-Wl,-u,malloc ")
freehold_pkgconfig(freehold-embed "Memory allocator with its own names, overriding nothing")

# The command is built by Cargo; it is installed when it is there. Without it there is no folder for it either: OPTIONAL would
# leave an empty one, which vcpkg refuses.
install(CODE "
    set(command \"${PROJECT_BINARY_DIR}/freehold\")
    set(folder \"${CMAKE_INSTALL_BINDIR}\")
    cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
    if(EXISTS \"\${command}\")
        file(INSTALL \"\${command}\" DESTINATION \"\${folder}\" USE_SOURCE_PERMISSIONS)
    endif()")

# Out of the way of those who link: it is only ever preloaded, by its path.
if(TARGET freehold_global AND NOT FREEHOLD_TESTS)
    install(TARGETS freehold_global LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/freehold)
endif()
