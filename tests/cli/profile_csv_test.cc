// chimera profile of a published table, which needs no libtorch.
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/program.h"

namespace chimera::cli {
namespace {

constexpr const char* kTable =
    "bs,time_f,time_b,mem_param,mem_act,mem_peak_err\n"
    "4,2.5,4.2,48,44,9\n"
    "8,4.5,7.6,48,88,18\n";

TEST(ProfileCsv, BecomesAProfileOfAsManyBlocks) {
  const Folder folder;
  write(folder.file("bert.csv"), kTable);
  const Result result = run({"profile", "--from-csv", folder.file("bert.csv"), "--message-bytes",
                             "524288", "--blocks", "48", "-o", folder.file("p.toml")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "profile written to ")) << result.out;
  const std::string profile = read(folder.file("p.toml"));
  for (const char* part :
       {"format = 'chimera-profile-1'", "blocks = ['48 block']", "device = 'bert'", "sequences = 8",
        "forward_s = 0.0045", "output_bytes = 4194304"}) {
    EXPECT_TRUE(has(profile, part)) << part << "\n" << profile;
  }
}

TEST(ProfileCsv, RefusesWhatDoesNotFit) {
  const Folder folder;
  const std::string csv = folder.file("bert.csv"), out = folder.file("p.toml");
  write(csv, kTable);
  expect_error(run({"profile", "--from-csv", csv, "-o", out}), 2, "--message-bytes");
  expect_error(run({"profile", "--from-csv", csv, "--message-bytes", "0", "-o", out}), 2,
               "--message-bytes above 0");
  expect_error(
      run({"profile", "--from-csv", csv, "--message-bytes", "1", "--blocks", "0", "-o", out}), 2,
      "--blocks is 0");
  expect_error(run({"profile", "a.toml", "--from-csv", csv, "--message-bytes", "1", "-o", out}), 2,
               "leave one out");
  expect_error(run({"profile", "--from-csv", csv, "--message-bytes", "1", "-o", csv}), 2,
               "which the run reads");
  EXPECT_EQ(read(csv), kTable);
  write(csv, "bs,time_f\n4,1\n");
  expect_error(run({"profile", "--from-csv", csv, "--message-bytes", "1", "-o", out}), 3,
               "mem_param");
  expect_error(run({"profile", "--from-csv", csv + "x", "--message-bytes", "1", "-o", out}), 3,
               "bert.csvx");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"bert.csv"});
}

}  // namespace
}  // namespace chimera::cli
