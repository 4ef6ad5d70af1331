# Compiler settings, and tw_library(): one static library per folder of src/.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(TW_CCACHE ccache)
if(TW_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${TW_CCACHE})
  # What precompiled headers need, and dependencies from the compiler: nothing is preprocessed twice (ccache's manual).
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${TW_CCACHE})
endif()
find_program(TW_LLD NAMES ld.lld-19 ld.lld)
if(TW_LLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=lld)
endif()
# Tuning records are of one build of the compiler: support/build_id.h.
add_link_options("LINKER:--build-id")
add_compile_options(-Wall -Wextra -Wno-restrict -Werror=return-type)
# References must be exactly what their formulas say: no contraction into fma behind our back.
add_compile_options(-ffp-contract=off)
if(TW_SANITIZE)
  add_compile_options(-fsanitize=${TW_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # codegen/llvm has no run-time type information, and the linker may keep its copy of a template's virtual functions.
  add_compile_options(-fno-sanitize=vptr)
  add_link_options(-fsanitize=${TW_SANITIZE})
endif()

# tw_precompile(TARGET HEADERS...): headers of other projects that nearly every file includes, parsed once for TARGET and
# for those that take them from it (tw_precompiled_by). Every file includes what it uses all the same: without this it builds, too.
set(TW_STANDARD_HEADERS <algorithm> <array> <bit> <charconv> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream>
  <functional> <limits> <map> <memory> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <tuple>
  <unordered_map> <utility> <variant> <vector>)
function(tw_precompile target)
  if(TW_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${TW_STANDARD_HEADERS} ${ARGN})
  endif()
endfunction()

# tw_precompiled_by(OWNER TARGETS...): TARGETS are compiled as OWNER is and take its headers.
function(tw_precompiled_by owner)
  foreach(target IN LISTS ARGN)
    if(TW_PRECOMPILE AND TARGET ${target} AND NOT target STREQUAL owner)
      target_precompile_headers(${target} REUSE_FROM ${owner})
    endif()
  endforeach()
endfunction()

# What evaluates values and interprets loops: tests run it for minutes, so it is optimized in all presets of type Release.
set(TW_HOT expr te graph loop ops)
function(tw_optimize target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  tw_precompiled_by(tw_expr ${target})
endfunction()

# tw_library(NAME FOLDERS DEPS...): static library tw_NAME from every .cpp directly in FOLDERS, a list.
function(tw_library name folders)
  list(TRANSFORM folders APPEND "/*.cpp" OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    return()
  endif()
  add_library(tw_${name} STATIC ${sources})
  target_include_directories(tw_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  foreach(dep IN LISTS ARGN)
    if(TARGET ${dep})
      target_link_libraries(tw_${name} PUBLIC ${dep})
    endif()
  endforeach()
  if(name MATCHES "^(support|expr)$")
    tw_precompile(tw_${name} <fmt/format.h> <fmt/ranges.h>)
  endif()
  if(name IN_LIST TW_HOT)
    tw_optimize(tw_${name})
  elseif(NOT name MATCHES "^(support|codegen_llvm|frontend_onnx)$")  # which have their own
    tw_precompiled_by(tw_support tw_${name})
  endif()
endfunction()
