# hwloc, which knows what a core is: chimera_use_hwloc(<library>) gives a library runtime/hwloc, or,
# without hwloc, the twin whose function says so.
#
# CHIMERA_HWLOC=ON means: if it is there.

option(CHIMERA_HWLOC "Bind processes to cores, if hwloc is there" ON)
set(CHIMERA_HAS_HWLOC OFF)
if(CHIMERA_HWLOC)
  find_path(CHIMERA_HWLOC_INCLUDE hwloc.h)
  find_library(CHIMERA_HWLOC_LIBRARY hwloc)
  mark_as_advanced(CHIMERA_HWLOC_INCLUDE CHIMERA_HWLOC_LIBRARY)
  if(CHIMERA_HWLOC_INCLUDE AND CHIMERA_HWLOC_LIBRARY)
    set(CHIMERA_HAS_HWLOC ON)
    message(STATUS "hwloc: ${CHIMERA_HWLOC_LIBRARY}")
  else()
    message(STATUS "No hwloc found: processes are not bound to cores. Where that matters, install "
                   "it (on Debian libhwloc-dev, which tools/setup.sh does), configure again")
  endif()
endif()

function(chimera_use_hwloc library)
  set(dir ${PROJECT_SOURCE_DIR}/chimera/runtime/hwloc)
  if(NOT CHIMERA_HAS_HWLOC)
    target_sources(${library} PRIVATE ${dir}/no_hwloc.cc)
    target_sources(${library}_test PRIVATE ${dir}/no_hwloc_test.cc)
    return()
  endif()
  target_sources(${library} PRIVATE ${dir}/bind.cc)
  target_sources(${library}_test PRIVATE ${dir}/bind_test.cc)
  foreach(target ${library} ${library}_test)
    target_include_directories(${target} SYSTEM PRIVATE ${CHIMERA_HWLOC_INCLUDE})
    target_link_libraries(${target} PRIVATE ${CHIMERA_HWLOC_LIBRARY})
  endforeach()
endfunction()
