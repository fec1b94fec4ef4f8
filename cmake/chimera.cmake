# What every target of ours shares: warnings, sanitizers, and the shape of a folder's library.

find_program(CHIMERA_CCACHE ccache)
mark_as_advanced(CHIMERA_CCACHE)
if(CHIMERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What ccache's manual asks for with precompiled headers; and no preprocessing of its own, which
  # would take as long as the compilation does with torch's headers precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CHIMERA_CCACHE})
endif()

add_library(chimera_options INTERFACE)
target_include_directories(chimera_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(chimera_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in "text" + std::string(...) where there are none (bug 105651).
  target_compile_options(chimera_options INTERFACE -Wno-restrict)
endif()
if(CMAKE_UNITY_BUILD)
  # It asks for names in an anonymous namespace to stay in the main file, which is a generated one.
  target_compile_options(chimera_options INTERFACE -Wno-subobject-linkage)
endif()
if(CHIMERA_WERROR AND NOT CHIMERA_SANITIZE)
  target_compile_options(chimera_options INTERFACE -Werror)
endif()
if(CHIMERA_SANITIZE)
  # With sanitizers GCC warns of uninitialized members within <regex>: not ours, and not so.
  target_compile_options(chimera_options INTERFACE -Wno-maybe-uninitialized)
  target_compile_options(chimera_options INTERFACE -fsanitize=${CHIMERA_SANITIZE}
                                                   -fno-omit-frame-pointer)
  target_link_options(chimera_options INTERFACE -fsanitize=${CHIMERA_SANITIZE})
endif()

# Precompiled headers, one for libraries and one for tests, halve the time of a build from nothing.
# Off by default: they hide a missing include, which clang-tidy and a plain build find.
option(CHIMERA_PCH "Precompile headers of the standard library and GoogleTest" OFF)
function(chimera_shared_headers name library)
  file(WRITE ${PROJECT_BINARY_DIR}/pch/${name}.cc "// Carries a precompiled header.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/pch/${name}.cc)
  target_link_libraries(${name} PRIVATE chimera_options ${library})
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()
if(CHIMERA_PCH)
  set(headers <algorithm> <functional> <map> <memory> <set> <sstream> <string> <vector>)
  chimera_shared_headers(chimera_library_headers Threads::Threads ${headers})
  chimera_shared_headers(chimera_test_headers GTest::gtest ${headers} <gtest/gtest.h>)
endif()

# chimera_library(<folder> DEPS <targets> [TEST_DEPS <targets>] [TORCH])
# The library of chimera/<folder>/*.cc, and its unit tests from *_test.cc beside them.
function(chimera_library folder)
  cmake_parse_arguments(arg "TORCH" "" "DEPS;TEST_DEPS" ${ARGN})
  set(dir ${PROJECT_SOURCE_DIR}/chimera/${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${dir}/*_test.cc)
  if(tests)
    list(REMOVE_ITEM sources ${tests})
  endif()
  if(sources)
    add_library(${folder} STATIC ${sources})
    target_link_libraries(${folder} PUBLIC chimera_options ${arg_DEPS})
  else()
    add_library(${folder} INTERFACE)
    target_link_libraries(${folder} INTERFACE chimera_options ${arg_DEPS})
  endif()
  if(arg_TORCH)
    chimera_use_torch(${folder})
  elseif(CHIMERA_PCH AND sources)
    target_precompile_headers(${folder} REUSE_FROM chimera_library_headers)
  endif()
  if(tests)
    chimera_test(${folder}_test SOURCES ${tests} DEPS ${folder} ${arg_TEST_DEPS})
    if(arg_TORCH)
      chimera_use_torch(${folder}_test)
    endif()
  endif()
endfunction()

# chimera_test(<name> SOURCES <files> DEPS <targets>): one GoogleTest program, run by ctest.
function(chimera_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} chimera_options GTest::gtest_main)
  if(CHIMERA_PCH)
    set_target_properties(${name} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM chimera_test_headers)
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900)
endfunction()
