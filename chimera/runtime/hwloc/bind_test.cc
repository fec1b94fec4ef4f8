// Binding on this machine, each time in a process of its own, for a binding stays.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <future>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "chimera/base/text.h"
#include "chimera/runtime/cores.h"
#include "chimera/runtime/hwloc/topology.h"

namespace chimera {
namespace {

// ---- what the system does, without hwloc

bool set_affinity(const std::vector<int>& units) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int unit : units) CPU_SET(static_cast<std::size_t>(unit), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

// Of the calling thread.
std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::vector<int> units;
  for (int unit = 0; unit < CPU_SETSIZE; ++unit) {
    if (CPU_ISSET(static_cast<std::size_t>(unit), &set)) units.push_back(unit);
  }
  return units;
}

// From now on the system answers EPERM to who wants to bind, as some containers do.
bool forbid_binding() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

std::vector<int> all_units() {
  std::vector<int> all(CPU_SETSIZE);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// What `body` returns, in a child process that is started on these units, as a launcher does it:
// bound before it has threads.
std::string in_child_on(const std::vector<int>& units, const std::function<std::string()>& body) {
  int ends[2];
  const std::vector<int> own = affinity();
  if (!set_affinity(units) || pipe(ends) != 0) return "no binding, or no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = body();
    const bool is_told = write(ends[1], text.data(), text.size()) == std::ssize(text);
    _exit(is_told ? 0 : 1);
  }
  EXPECT_TRUE(set_affinity(own));
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t bytes = 0; (bytes = read(ends[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(bytes));
  }
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) text += " and failed";
  return text;
}

// On every unit that there is for it, wherever the test was started.
std::string in_child(const std::function<std::string()>& body) {
  return in_child_on(all_units(), body);
}

std::vector<Core> cores_here() {
  const Topology topology = make_topology();
  EXPECT_EQ(hwloc_topology_load(topology.get()), 0);
  return cores_of(topology.get());
}

std::vector<Core> cores_of_synthetic(const char* description) {
  const Topology topology = make_topology();
  EXPECT_EQ(hwloc_topology_set_synthetic(topology.get(), description), 0);
  EXPECT_EQ(hwloc_topology_load(topology.get()), 0);
  return cores_of(topology.get());
}

std::string units_text(std::vector<int> units) {
  std::sort(units.begin(), units.end());
  return join(units, ",");
}

// ---- tests

TEST(Hwloc, TellsCoresFromHyperthreads) {
  EXPECT_EQ(cores_of_synthetic("pack:2 core:2 pu:2"),
            (std::vector<Core>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(cores_of_synthetic("core:2 pu:2(indexes=0,2,1,3)"),
            (std::vector<Core>{{0, 2}, {1, 3}}));
}

TEST(Hwloc, CountsUnitsWhereItSeesNoCores) {
  EXPECT_EQ(cores_of_synthetic("pu:3"), (std::vector<Core>{{0}, {1}, {2}}));
}

TEST(BindToShare, BindsEachRankToItsCore) {
  const std::vector<Core> cores = cores_here();
  const int count = static_cast<int>(cores.size());
  for (const int rank : {0, count - 1}) {
    const std::string told = in_child([&] {
      const std::string text = bind_to_share(rank, count);
      return text + ": " + units_text(affinity());
    });
    EXPECT_EQ(told, cat("core ", rank, " of ", count, ": ",
                        units_text(cores[static_cast<std::size_t>(rank)])));
  }
}

TEST(BindToShare, BindsThreadsThatRanBeforeAndThatStartAfter) {
  const std::vector<Core> cores = cores_here();
  const int count = static_cast<int>(cores.size());
  const std::string told = in_child([&] {
    std::promise<void> is_bound;
    std::string before, after;
    std::thread early([&] {
      is_bound.get_future().wait();
      before = units_text(affinity());
    });
    const std::string text = bind_to_share(0, count);
    is_bound.set_value();
    early.join();
    std::thread([&] { after = units_text(affinity()); }).join();
    return before + " and " + after;
  });
  const std::string own = units_text(cores[0]);
  EXPECT_EQ(told, own + " and " + own);
}

TEST(BindToShare, LeavesABindingOfTheLauncherAsItIs) {
  const std::vector<Core> cores = cores_here();
  const int count = static_cast<int>(cores.size());
  if (count == 1) GTEST_SKIP() << "needs two cores";
  const Core& last = cores.back();
  const std::string told = in_child_on(last, [&] {
    const std::string text = bind_to_share(0, count);
    return text + ": " + units_text(affinity());
  });
  EXPECT_EQ(told,
            cat("bound at its start, to core ", count - 1, " of ", count, ": ", units_text(last)));
}

TEST(BindToShare, BindsNoneWhereRanksOutnumberCores) {
  const auto count = cores_here().size();
  const std::string told = in_child([&] {
    const std::vector<int> before = affinity();
    const std::string text = bind_to_share(1, static_cast<int>(count) + 1);
    return text + (affinity() == before ? "" : ", but bound");
  });
  EXPECT_EQ(told,
            cat("not bound: ", count + 1, " ranks on ", count, count == 1 ? " core" : " cores"));
}

TEST(BindToShare, SaysThatTheSystemRefuses) {
  const auto count = cores_here().size();
  const std::string told = in_child([&]() -> std::string {
    if (!forbid_binding()) return "no filter";
    return bind_to_share(0, static_cast<int>(count));
  });
  if (told == "no filter") GTEST_SKIP() << "the system has no filters of calls (seccomp)";
  EXPECT_EQ(told,
            cat("not bound: the system refuses core 0 of ", count, " (Operation not permitted)"));
}

TEST(BindToShare, DoesNotBindByTheDescriptionOfAnotherMachine) {
  const std::string told = in_child([] {
    setenv("HWLOC_SYNTHETIC", "core:4 pu:2", 1);
    return bind_to_share(0, 4);
  });
  EXPECT_EQ(told, "not bound: hwloc was told to look at another machine");
}

}  // namespace
}  // namespace chimera
