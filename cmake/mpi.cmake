# The MPI transport: chimera_use_mpi(<library>) gives a library transport/mpi, or, without MPI, the
# twin whose functions say so. chimera_mpi_test(<name> RANKS <n> SOURCES <files> DEPS <targets>) is a
# GoogleTest program that ctest starts with mpiexec: all ranks run all its tests
# (chimera/transport/mpi/testing.h).
#
# CHIMERA_MPI=ON means: if there is one. Only MPI's C interface is used.

option(CHIMERA_MPI "Build the MPI transport, if MPI is there" ON)
set(CHIMERA_HAS_MPI OFF)
if(CHIMERA_MPI)
  enable_language(C)  # FindMPI asks the C compiler for the C interface
  find_package(MPI 3.1 QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(CHIMERA_HAS_MPI ON)
    message(STATUS "MPI: ${MPI_C_LIBRARIES} (MPI ${MPI_C_VERSION})")
  else()
    message(STATUS "No MPI found: ranks can be threads only. For processes, install one (on Debian "
                   "libopenmpi-dev and openmpi-bin, which tools/setup.sh does), configure again")
  endif()
endif()

function(chimera_use_mpi library)
  set(dir ${PROJECT_SOURCE_DIR}/chimera/transport/mpi)
  if(NOT CHIMERA_HAS_MPI)
    target_sources(${library} PRIVATE ${dir}/no_mpi.cc)
    target_sources(${library}_test PRIVATE ${dir}/no_mpi_test.cc)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc)
  file(GLOB others CONFIGURE_DEPENDS ${dir}/*_test.cc ${dir}/no_mpi.cc)
  list(REMOVE_ITEM sources ${others})
  target_sources(${library} PRIVATE ${sources})
  target_sources(${library}_test PRIVATE ${dir}/exit_guard_test.cc ${dir}/memory_pool_test.cc)
  target_link_libraries(${library} PRIVATE MPI::MPI_C)
  # Not the C++ interface that older headers bring along.
  target_compile_definitions(${library} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
endfunction()

# Open MPI wants to be told that root may start it, and that ranks may outnumber cores; others do
# not look at this. The sanitizers see through no MPI: what it keeps is named in the lists.
set(chimera_mpi_lists ${PROJECT_SOURCE_DIR}/cmake)
set(chimera_mpi_environment
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1)
if(CHIMERA_SANITIZE MATCHES "address")
  list(APPEND chimera_mpi_environment
       LSAN_OPTIONS=suppressions=${chimera_mpi_lists}/mpi_leaks.txt:print_suppressions=0)
elseif(CHIMERA_SANITIZE MATCHES "thread")
  # MPI's libraries are not compiled with the sanitizer, which cannot see how they synchronize.
  list(APPEND chimera_mpi_environment
       TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:second_deadlock_stack=1)
endif()

function(chimera_mpi_test name)
  cmake_parse_arguments(arg "" "RANKS" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES}
                         ${PROJECT_SOURCE_DIR}/chimera/transport/mpi/testing_main_test.cc)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} chimera_options GTest::gtest)
  add_test(NAME ${name}
           COMMAND ${PROJECT_SOURCE_DIR}/cmake/mpi_test.sh ${MPIEXEC_EXECUTABLE}
                   ${MPIEXEC_NUMPROC_FLAG} ${arg_RANKS} $<TARGET_FILE:${name}> --gtest_brief=1
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(
    ${name} PROPERTIES ENVIRONMENT "${chimera_mpi_environment}" TIMEOUT 900 SKIP_RETURN_CODE 77
                       RUN_SERIAL ON)
endfunction()
