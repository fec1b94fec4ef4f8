# libtorch, for the folders beyond the torch line: chimera_use_torch(<target>).
#
# The torch is one in CMAKE_PREFIX_PATH, else the one tools/setup.sh chose and noted in
# .venv/torch-prefix. Its headers are system headers: their warnings are none of ours.
# Including <torch/torch.h> costs 22-25 s, so one precompiled header is shared by all.

set(chimera_torch_note ${PROJECT_SOURCE_DIR}/.venv/torch-prefix)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${chimera_torch_note})
set(chimera_torch_prefix "")
if(EXISTS ${chimera_torch_note})
  file(STRINGS ${chimera_torch_note} chimera_torch_prefix LIMIT_COUNT 1)
endif()
if(NOT chimera_torch_prefix STREQUAL "${CHIMERA_TORCH_NOTED}")
  # Set-up chose another torch since the last configuration.
  foreach(name Torch_DIR Caffe2_DIR TORCH_LIBRARY c10_LIBRARY kineto_LIBRARY)
    unset(${name} CACHE)
  endforeach()
  set(CHIMERA_TORCH_NOTED "${chimera_torch_prefix}" CACHE INTERNAL "Set-up's torch when configured")
endif()

find_path(CHIMERA_TORCH_CONFIG TorchConfig.cmake NO_CACHE
          HINTS ${chimera_torch_prefix} PATH_SUFFIXES share/cmake/Torch Torch)
if(NOT CHIMERA_TORCH_CONFIG)
  message(FATAL_ERROR "No libtorch found: run tools/setup.sh, or name one with "
                      "-DCMAKE_PREFIX_PATH=<folder>, or build without it (-DCHIMERA_TORCH=OFF)")
endif()
get_filename_component(chimera_torch_root ${CHIMERA_TORCH_CONFIG}/../../.. ABSOLUTE)

add_library(chimera_torch INTERFACE)
if(EXISTS ${chimera_torch_root}/lib/libtorch_cuda.so)
  # Torch's own CMake package wants the very CUDA toolkit it was built with, of which we use
  # nothing: name its parts here.
  set(torch_lib ${chimera_torch_root}/lib)
  target_include_directories(chimera_torch SYSTEM INTERFACE
                             ${chimera_torch_root}/include
                             ${chimera_torch_root}/include/torch/csrc/api/include)
  target_link_options(chimera_torch INTERFACE -Wl,-rpath,${torch_lib}
                      -Wl,--unresolved-symbols=ignore-in-shared-libs)  # CUDA's, found when loaded
  # Nothing refers to libtorch_cuda by name, and it must be loaded to register its kernels.
  target_link_libraries(
    chimera_torch
    INTERFACE -Wl,--no-as-needed ${torch_lib}/libtorch.so ${torch_lib}/libtorch_cpu.so
              ${torch_lib}/libtorch_cuda.so ${torch_lib}/libc10.so ${torch_lib}/libc10_cuda.so
              -Wl,--as-needed)
  message(STATUS "Torch: ${chimera_torch_root} (built for CUDA)")
else()
  set(chimera_log_level ${CMAKE_MESSAGE_LOG_LEVEL})
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # it warns of parts, such as kineto, that its wheels lack
  find_package(Torch 2.4 REQUIRED CONFIG PATHS ${CHIMERA_TORCH_CONFIG} NO_DEFAULT_PATH)
  set(CMAKE_MESSAGE_LOG_LEVEL ${chimera_log_level})
  if(TORCH_CXX_FLAGS MATCHES "CXX11_ABI=0")
    message(FATAL_ERROR "The torch in ${chimera_torch_root} is built with the old C++ ABI, which "
                        "cannot be linked with Debian's libraries; use another (tools/setup.sh)")
  endif()
  target_link_libraries(chimera_torch INTERFACE ${TORCH_LIBRARIES})
  target_include_directories(chimera_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  message(STATUS "Torch: ${chimera_torch_root} (${Torch_VERSION})")
endif()

file(WRITE ${PROJECT_BINARY_DIR}/torch_pch/torch_pch.cc "// Carries the precompiled header.\n")
add_library(chimera_torch_pch OBJECT ${PROJECT_BINARY_DIR}/torch_pch/torch_pch.cc)
target_link_libraries(chimera_torch_pch PRIVATE chimera_options chimera_torch)
target_precompile_headers(chimera_torch_pch PRIVATE <torch/torch.h>)

# Links libtorch to the target (and what links it), and compiles it with the shared header.
function(chimera_use_torch target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL INTERFACE_LIBRARY)
    target_link_libraries(${target} INTERFACE chimera_torch)
    return()
  endif()
  if(type STREQUAL EXECUTABLE)
    target_link_libraries(${target} PRIVATE chimera_torch)
  else()
    target_link_libraries(${target} PUBLIC chimera_torch)
  endif()
  target_precompile_headers(${target} REUSE_FROM chimera_torch_pch)
  # Reading it takes longer than a file needs that names no header of torch itself.
  get_target_property(sources ${target} SOURCES)
  get_target_property(dir ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${dir})
    file(STRINGS ${source} names REGEX "#include <(torch|ATen|c10)/" LIMIT_COUNT 1)
    if(NOT names)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target}
                                  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
