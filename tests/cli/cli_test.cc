// What the program prints, where, and its exit codes.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace chimera::cli {
namespace {

namespace fs = std::filesystem;

const std::string kChimera = "chimera --stages 4 --micros 4";

// ---- the program -------------------------------------------------------------------------------

TEST(Program, SaysItsVersion) {
  const Result result = run("--version");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.rfind("chimera ", 0), 0U);
}

TEST(Program, HelpNamesEveryModeAndExamplesThatRun) {
  const Result help = run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* mode : {"show", "verify", "simulate", "compare"})
    EXPECT_TRUE(has(help.out, mode));
  const Result show = run("show --help");
  for (const char* part : {"chimera", "1f1b", "gpipe", "--stages", "Examples:", "default"}) {
    EXPECT_TRUE(has(show.out, part)) << part;
  }
  EXPECT_EQ(run("show chimera --stages 4 --micros 8 --backward 1").code, 0);
}

TEST(Program, WithoutAModePrintsHelpAsAnError) {
  const Result result = run("");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(has(result.err, "Usage:"));
}

TEST(Program, RefusesBadWordsInOneLine) {
  expect_error(run("shwo"), 2, "unknown mode 'shwo'; known: show, verify, simulate, compare");
  expect_error(run("shwo"), 2, "did you mean 'show'?");
  expect_error(run("--verbose"), 2, "unexpected '--verbose'");
  expect_error(run("show"), 2, "schedule is required; try 'chimera show --help'");
  expect_error(run("show chimera --stagse 4"), 2, "'--stagse' (did you mean '--stages'?)");
  expect_error(run("show chimera extra"), 2, "unexpected 'extra'");
  expect_error(run("show chimera --stages x"), 2, "'--stages = x' is not a number");
  expect_error(run("show chimera --stages 99999999999"), 2, "99999999999");
  expect_error(run("show chimera --format"), 2, "--format");
}

// Reported cases (docs/cases.md): H23, P5.
TEST(Program, RefusesSchedulesThatCannotBe) {
  expect_error(run("show chimra --stages 4 --micros 4"), 2, "did you mean 'chimera'?");
  expect_error(run("show chimera --stages 5 --micros 4"), 2, "4 or 6");
  expect_error(run("show chimera --stages 8 --micros 8 --pairs 3"), 2, "1, 2, 4");
  expect_error(run("show gpipe --stages 0 --micros 4"), 2, "stages is 0");
  expect_error(run("show gpipe --stages -3 --micros 4"), 2, "stages is -3");
  expect_error(run("show gpipe --stages 4 --micros 0"), 2, "micro-batches is 0");
  expect_error(run("show gpipe --stages 4 --micros 4 --pairs 2"), 2, "pairs");
  expect_error(run("show chimera --stages 4"), 2, "needs --micros;");
  expect_error(run("show chimera --micros 4"), 2, "needs --stages;");
  expect_error(run("verify chimera"), 2, "needs --stages and --micros;");
}

TEST(Program, RefusesDurationsThatAreNone) {
  for (const std::string mode : {"show ", "simulate "}) {
    for (const std::string option : {"--forward", "--backward"}) {
      for (const std::string value : {"0", "-1", "nan", "inf", "-inf", "1,0,1,1"}) {
        expect_error(run(mode + kChimera + " " + option + " " + value), 2,
                     option + " is " + (value == "1,0,1,1" ? "0" : value) +
                         "; expected a finite number greater than 0");
      }
      expect_error(run(mode + kChimera + " " + option + " 1,2"), 2, "has 2 numbers");
      expect_error(run(mode + kChimera + " " + option + " 1,x"), 2, "'x' is no number");
      expect_error(run(mode + kChimera + " " + option + " 1s"), 2, "'1s' is no number");
    }
  }
  const std::string simulate = "simulate " + kChimera;
  expect_error(run(simulate + " --latency -1"), 2, "--latency is -1; expected");
  expect_error(run(simulate + " --latency nan"), 2, "--latency is nan");
  expect_error(run(simulate + " --reduce-time -2"), 2, "--reduce-time is -2");
  expect_error(run(simulate + " --step-time inf"), 2, "--step-time is inf");
  expect_error(run(simulate + " --bandwidth 0 --message-bytes 1"), 2, "--bandwidth is 0");
  expect_error(run(simulate + " --bandwidth 10"), 2, "give both");
  expect_error(run(simulate + " --reduce sometimes"), 2, "eager-opt");
}

TEST(Program, ReportsAFullDisk) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const Result result = run({"show", "gpipe", "--stages", "2", "--micros", "2"}, "", "/dev/full");
  expect_error(result, 3, "cannot write to standard output");
}

// ---- show --------------------------------------------------------------------------------------

TEST(Show, DrawsATimelineUnlessToldOtherwise) {
  const Result result = run("show " + kChimera);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(has(result.out, "P0 F0 F1 .. f2 b2=== f3 b3=== .. B0=== ..... B1===\n"));
  EXPECT_FALSE(has(result.out, "\x1b"));
  EXPECT_EQ(run("show " + kChimera + " --forward 1e-3 --format timeline").code, 0);
  EXPECT_TRUE(has(run("show " + kChimera + " --backward 1").out, "P0 F0 F1 .. f2 b2 f3 b3 B0 .."));
}

TEST(Show, PrintsTheExchangeFormWhichItReadsAgain) {
  const Result text = run("show " + kChimera + " --format text");
  EXPECT_TRUE(has(text.out, "placement: 0,1,2,3;3,2,1,0\n0F0,0F1,3F2@1,3B2@1,3F3@1,"));
  EXPECT_EQ(run({"show", "-", "--format", "text"}, text.out).out, text.out);
  const Folder folder;
  write(folder.file("schedule"), text.out);
  EXPECT_EQ(run({"show", folder.file("schedule")}).out, run("show " + kChimera).out);
}

TEST(Show, PrintsCsvWhichEveryModeReadsFromAFileOfThatName) {
  const Result csv = run("show 1f1b --stages 2 --micros 2 --format csv");
  EXPECT_EQ(csv.out, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const Folder folder;
  const std::string path = folder.file("mine.csv");
  write(path, csv.out);
  EXPECT_EQ(run({"show", path}).out, run("show 1f1b --stages 2 --micros 2").out);
  EXPECT_TRUE(has(run({"show", path, "--format", "text"}).out, "name: mine\nstages: 2\n"));
  EXPECT_TRUE(has(run({"verify", path}).out, "mine: 2 stages on 2 workers, 1 pipe, 2 micro"));
  EXPECT_EQ(run({"simulate", path}).code, 0);
  expect_error(run({"show", "-"}, csv.out), 2, "standard input");  // text form, whatever it is
  expect_error(run("show " + kChimera + " --format csv"), 2, "3F2@1 of worker 0 is of pipe 1");
  write(path, "0F0,0SEND_F0\n");
  expect_error(run({"verify", path}), 2, "mine.csv:1: '0SEND_F0'");
}

TEST(Show, WritesAFileWholeWithUsualPermissionsAndNothingElse) {
  const Folder folder;
  const std::string path = folder.file("a.svg");
  const Result result = run("show " + kChimera + " --format svg -o " + path);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.svg"});
  EXPECT_EQ(read(path), run("show " + kChimera + " --format svg").out);
  EXPECT_TRUE(has(read(path), "</svg>"));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
}

TEST(Show, ReplacesAFileThroughALinkAndWritesToDevices) {
  const Folder folder;
  write(folder.file("target"), "old");
  fs::create_symlink("target", folder.file("link"));
  EXPECT_EQ(run("show " + kChimera + " -o " + folder.file("link")).code, 0);
  EXPECT_TRUE(fs::is_symlink(folder.file("link")));
  EXPECT_EQ(read(folder.file("target")), run("show " + kChimera).out);
  EXPECT_EQ(run("show " + kChimera + " -o /dev/null").code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(Show, LeavesNothingWhereItCannotWrite) {
  const Folder folder;
  expect_error(run("show " + kChimera + " -o " + folder.file("none/a.svg")), 3,
               "none/a.svg': No such file or directory");
  expect_error(run("show " + kChimera + " -o " + folder.file("")), 3, "Is a directory");
  write(folder.file("file"), "kept");
  expect_error(run("show " + kChimera + " -o " + folder.file("file/a.svg")), 3, "Not a directory");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
  EXPECT_EQ(read(folder.file("file")), "kept");
}

TEST(Show, RefusesAnUnwritableFolder) {
  if (::geteuid() == 0) {
    // The one kind of folder in which root cannot write.
    expect_error(run("show " + kChimera + " -o /proc/chimera.svg"), 3, "cannot write '/proc/");
    return;
  }
  const Folder folder;
  ASSERT_EQ(::chmod(folder.file("").c_str(), 0500), 0);
  expect_error(run("show " + kChimera + " -o " + folder.file("a.svg")), 3, "Permission denied");
  EXPECT_TRUE(folder.names().empty());
}

TEST(Show, DrawsAPageAndATrace) {
  const Result page = run("show " + kChimera + " --format html");
  EXPECT_EQ(page.code, 0);
  EXPECT_TRUE(has(page.out, "\"title\":\"chimera: 4 stages on 4 workers, 2 pipes"));
  EXPECT_TRUE(has(page.out, "</html>\n"));
  const Folder folder;
  EXPECT_EQ(run("show " + kChimera + " --format trace -o " + folder.file("a.json")).out, "");
  const auto trace = nlohmann::json::parse(read(folder.file("a.json")));
  EXPECT_GT(trace["traceEvents"].size(), 32U);
}

TEST(Show, RefusesUnknownFormatsAndWidths) {
  expect_error(run("show " + kChimera + " --format svgg"), 2, "did you mean 'svg'?");
  expect_error(run("show " + kChimera + " --columns 3"), 2, "--columns is 3; expected");
}

TEST(Show, ColoursAndFitsATerminal) {
  const std::vector<std::string> words = {"show", "chimera", "--stages", "8", "--micros", "32"};
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(has(run_on_terminal(words, 60), "\x1b["));
  ::setenv("NO_COLOR", "1", 1);
  const std::string plain = run_on_terminal(words, 60);
  ::unsetenv("NO_COLOR");
  EXPECT_FALSE(has(plain, "\x1b["));
  std::istringstream in(plain);
  for (std::string line; std::getline(in, line);) EXPECT_LE(line.size(), 60U) << line;
  EXPECT_EQ(plain, run("show chimera --stages 8 --micros 32 --columns 60").out);
}

// ---- verify ------------------------------------------------------------------------------------

TEST(Verify, FindsNoViolationInWhatWeGenerate) {
  for (const std::string policy : {"at-end", "eager", "eager-opt"}) {
    const Result result = run("verify " + kChimera + " --reduce " + policy);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_TRUE(has(result.out, "3 to 4 micro-batches a worker")) << result.out;
    EXPECT_TRUE(has(result.out, "weights   2 stages a worker")) << result.out;
    EXPECT_TRUE(has(result.out, "\nno violation\n")) << result.out;
  }
}

std::string broken() {
  std::string text = run("show " + kChimera + " --format text").out;
  const std::string last = ",0B0,0B1\n";
  return text.replace(text.find(last), last.size(), ",0B1\n");
}

TEST(Verify, DrawsEachViolationAndMarksItsPlace) {
  const Result result = run({"verify", "-"}, broken());
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(has(result.out, "missing: worker 0")) << result.out;
  EXPECT_TRUE(has(result.out, "^")) << result.out;
  EXPECT_FALSE(has(result.out, "no violation"));
}

TEST(Verify, RefusesFilesWithErrorsNamingLineAndWord) {
  const Folder folder;
  std::string text = run("show " + kChimera + " --format text").out;
  text.replace(text.find("3F2@1"), 5, "3X2@1");
  write(folder.file("bad.txt"), text);
  const Result result = run({"verify", folder.file("bad.txt")});
  expect_error(result, 2, "bad.txt:7: ");
  expect_error(result, 2, "3X2@1");
  expect_error(run({"verify", "-"}, ""), 2, "standard input");
  expect_error(run({"verify", folder.file("none.txt")}), 3, "No such file");
  expect_error(run({"verify", folder.file("")}), 3, "Is a directory");
  expect_error(run({"verify", folder.file("bad.txt"), "--stages", "4"}), 2, "its own numbers");
}

// ---- simulate ----------------------------------------------------------------------------------

nlohmann::json simulated(const std::string& options) {
  const Result result = run("simulate " + options + " --json");
  EXPECT_EQ(result.code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

TEST(Simulate, PrintsJson) {
  const auto all = simulated(kChimera + " --forward 1 --backward 2");
  EXPECT_DOUBLE_EQ(all.at("makespan"), 16);
  EXPECT_DOUBLE_EQ(all.at("bubble_ratio"), 0.25);
  const std::vector<int> stash = {3, 4, 4, 3};
  ASSERT_EQ(all.at("workers").size(), 4U);
  for (std::size_t worker = 0; worker < 4; ++worker) {
    EXPECT_EQ(all["workers"][worker].at("peak_stash"), stash[worker]);
    EXPECT_EQ(all["workers"][worker].at("peak_versions"), 2);
    EXPECT_DOUBLE_EQ(all["workers"][worker].at("busy"), 12);
  }
}

TEST(Simulate, TakesCostsByStageAndOfMessages) {
  EXPECT_DOUBLE_EQ(
      simulated("gpipe --stages 2 --micros 1 --forward 1,2 --backward 3,5")["makespan"], 11);
  EXPECT_DOUBLE_EQ(simulated("gpipe --stages 2 --micros 1 --latency 0.5")["makespan"], 7);
  EXPECT_DOUBLE_EQ(
      simulated("gpipe --stages 2 --micros 1 --bandwidth 10 --message-bytes 20")["makespan"], 10);
  EXPECT_DOUBLE_EQ(simulated("gpipe --stages 2 --micros 1 --step-time 4")["makespan"], 10);
}

TEST(Simulate, PrintsATableAndADrawing) {
  const Result result = run("simulate " + kChimera);
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(has(result.out, "makespan      16\n"));
  EXPECT_TRUE(has(result.out, "bubble ratio  0.25\n"));
  EXPECT_TRUE(has(result.out, "P1             12          4           4        2\n"));
  EXPECT_TRUE(has(result.out, "P3 f2 f3 .. F0 B0==="));
}

TEST(Simulate, PrintsInTheFormatAsked) {
  const std::string simulate = "simulate " + kChimera;
  EXPECT_EQ(run(simulate + " --format table").out, run(simulate).out);
  EXPECT_EQ(run(simulate + " --format json").out, run(simulate + " --json").out);
  EXPECT_EQ(run(simulate + " --json --format json").out, run(simulate + " --json").out);
  EXPECT_TRUE(has(run(simulate + " --format html").out, "</html>\n"));
  EXPECT_TRUE(has(run(simulate + " --format trace --step-time 2").out, "\"name\":\"STEP\""));
  expect_error(run(simulate + " --format tabel"), 2, "did you mean 'table'?");
  expect_error(run(simulate + " --json --format html"), 2, "leave one out");
}

TEST(Simulate, WritesToAFile) {
  const Folder folder;
  const Result result = run("simulate " + kChimera + " --format html -o " + folder.file("a.html"));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(read(folder.file("a.html")), run("simulate " + kChimera + " --format html").out);
  expect_error(run("simulate " + kChimera + " -o " + folder.file("none/a")), 3, "No such file");
}

TEST(Simulate, RefusesWhatDoesNotVerify) {
  expect_error(run({"simulate", "-"}, broken()), 1, "has no backward of stage 0");
  expect_error(run({"show", "-"}, broken()), 1, "'chimera verify' shows where");
  EXPECT_EQ(run({"show", "-", "--format", "text"}, broken()).code, 0);
}

}  // namespace
}  // namespace chimera::cli
