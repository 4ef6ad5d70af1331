# The compiler and the command as a shared library, and what `cmake --install` puts where: the command, both libraries,
# public headers and the CMake package Tilewright with the components runtime and compiler.
include(CMakePackageConfigHelpers)

# Version of the public interface (headers, exported symbols, package); the project's own is PROJECT_VERSION.
set(TW_INTERFACE_VERSION 1.0.0)
set(TW_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Tilewright")

set_source_files_properties(src/driver/api/table.cpp TARGET_DIRECTORY tw_driver PROPERTIES COMPILE_DEFINITIONS TW_VERSION="${PROJECT_VERSION}")
add_library(tilewright_compiler SHARED $<TARGET_OBJECTS:tw_driver> $<TARGET_OBJECTS:tw_command>)
target_include_directories(tilewright_compiler INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tilewright_compiler PRIVATE tw_command PUBLIC $<BUILD_INTERFACE:tw_dlpack>)
target_compile_features(tilewright_compiler INTERFACE cxx_std_17)
# Exported are the symbol of compiler.h and the command's entry: the runtime's, which is in here, too, must not stand in
# for libtilewright_rt's.
target_link_options(tilewright_compiler PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/tilewright.map"
                    "LINKER:--gc-sections" "LINKER:--as-needed")
if(TW_LLD)  # equal functions once: 0.6 MB less in a package
  target_link_options(tilewright_compiler PRIVATE "LINKER:--icf=all")
endif()
if(NOT TW_SANITIZE)  # the sanitizers' own symbols come from the program
  target_link_options(tilewright_compiler PRIVATE "LINKER:-z,defs")
endif()
set_target_properties(tilewright_compiler PROPERTIES OUTPUT_NAME tilewright EXPORT_NAME compiler
                      LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/tilewright.map"
                      VERSION ${TW_INTERFACE_VERSION} SOVERSION 1)
set_target_properties(tilewright_rt PROPERTIES EXPORT_NAME runtime VERSION ${TW_INTERFACE_VERSION} SOVERSION 1)

install(TARGETS tilewright RUNTIME COMPONENT command)
install(TARGETS tilewright_compiler EXPORT TilewrightCompiler LIBRARY COMPONENT compiler NAMELINK_COMPONENT development)
install(TARGETS tilewright_rt EXPORT TilewrightRuntime LIBRARY COMPONENT runtime NAMELINK_COMPONENT development)
install(FILES include/tilewright/compiler.h include/tilewright/compiler.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tilewright" COMPONENT development)
install(FILES include/tilewright/runtime.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tilewright" COMPONENT development)
install(FILES "${TW_THIRD_PARTY}/include/dlpack/dlpack.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/dlpack" COMPONENT development)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)
foreach(part Compiler Runtime)
  install(EXPORT Tilewright${part} NAMESPACE Tilewright:: DESTINATION "${TW_PACKAGE_DIR}" COMPONENT development)
endforeach()
configure_package_config_file(cmake/TilewrightConfig.cmake.in "${PROJECT_BINARY_DIR}/TilewrightConfig.cmake"
                              INSTALL_DESTINATION "${TW_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TilewrightConfigVersion.cmake" VERSION ${TW_INTERFACE_VERSION}
                                 COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TilewrightConfig.cmake" "${PROJECT_BINARY_DIR}/TilewrightConfigVersion.cmake"
        DESTINATION "${TW_PACKAGE_DIR}" COMPONENT development)
