#include "tests/benchmarks/instruction_counter.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/callgrind.h>
#include <valgrind/valgrind.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

namespace uroce::benchmarks {
namespace {

constexpr double kTolerance = 0.10;

std::string present_stage;  // with its messages, as the dump's trigger text

using Counts = std::map<std::string, double>;  // instructions per message, by stage

// A folder for the files of one run alone.
std::filesystem::path OutputFolder() {
  const char* folder = std::getenv("TEST_TMPDIR");
  return std::filesystem::path(folder == nullptr ? "/tmp" : folder) / "callgrind";
}

// False if valgrind could not be run, or the program failed in it.
bool RunUnderCallgrind() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string out = "--callgrind-out-file=" + (OutputFolder() / "out").string();
  // Bazel's files must come from the test's own process, not from the child.
  const char* const arguments[] = {"env",
                                   "-u",
                                   "TEST_PREMATURE_EXIT_FILE",
                                   "-u",
                                   "XML_OUTPUT_FILE",
                                   "valgrind",
                                   "--tool=callgrind",
                                   "--instr-atstart=no",
                                   out.c_str(),
                                   "--quiet",
                                   program.c_str(),
                                   nullptr};
  pid_t child;
  const int error =
      posix_spawnp(&child, arguments[0], nullptr, nullptr, const_cast<char**>(arguments), environ);
  if (error != 0) {
    std::fprintf(stderr, "env: %s\n", strerror(error));
    return false;
  }
  int status;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Whether a function only reads the clock. How often it is called depends on elapsed time, which
// callgrind changes.
bool ReadsClock(const std::string& function) {
  return function.starts_with("uroce::nic::EngineClock::") ||
         function.starts_with("clock_gettime") || function == "__udivti3";
}

// Takes "(ID) NAME", or "(ID)" of a function that was named before, and returns ID.
std::string ReadFunction(const std::string& reference, std::map<std::string, std::string>& names) {
  const size_t end = reference.find(')') + 1;
  const std::string id = reference.substr(0, end);
  if (end < reference.size()) names[id] = reference.substr(end + 1);
  return id;
}

// Reads one dump: "desc: Trigger: Client Request: STAGE MESSAGES", and for each function
// "fn=FUNCTION" and its own instructions in lines of "POSITION INSTRUCTIONS". Skips the line after
// "calls=": its instructions appear under the called function, too.
void ReadDump(const std::filesystem::path& path, Counts& counts) {
  constexpr char kTrigger[] = "desc: Trigger: Client Request: ";
  std::string stage;
  double messages = 0;
  double instructions = 0;
  std::map<std::string, std::string> names;
  bool counts_here = false;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kTrigger)) {
      std::istringstream(line.substr(std::strlen(kTrigger))) >> stage >> messages;
    } else if (line.starts_with("fn=")) {
      counts_here = !ReadsClock(names[ReadFunction(line.substr(3), names)]);
    } else if (line.starts_with("cfn=")) {
      ReadFunction(line.substr(4), names);
    } else if (line.starts_with("calls=")) {
      std::getline(file, line);
    } else if (line.find('=') == std::string::npos && line.find(':') == std::string::npos) {
      std::string position;
      double own = 0;
      if (std::istringstream(line) >> position >> own && counts_here) instructions += own;
    }
  }
  if (messages == 0) return;  // the dump at the end of the program
  const auto [known, is_new] = counts.try_emplace(stage, std::numeric_limits<double>::max());
  known->second = std::min(known->second, instructions / messages);
}

Counts ReadGolden(const std::string& path) {
  Counts golden;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string stage;
    double instructions;
    if (!line.starts_with('#') && words >> stage >> instructions) golden[stage] = instructions;
  }
  return golden;
}

void Compare(const Counts& counts, const Counts& golden) {
  for (const auto& [stage, instructions] : counts) {
    std::printf("%-28s %6.0f\n", stage.c_str(), instructions);
    const auto expected = golden.find(stage);
    if (expected == golden.end()) {
      ADD_FAILURE() << stage << " is not in the file";
    } else {
      EXPECT_NEAR(instructions, expected->second, kTolerance * expected->second) << stage;
    }
  }
  for (const auto& [stage, instructions] : golden) {
    EXPECT_TRUE(counts.contains(stage)) << stage << " was not measured";
  }
}

}  // namespace

void InstructionCounter::Begin(const std::string& stage, int messages) {
  present_stage = stage + " " + std::to_string(messages);
  CALLGRIND_ZERO_STATS;
}

void InstructionCounter::End() { CALLGRIND_DUMP_STATS_AT(present_stage.c_str()); }

void ExpectInstructions(const std::string& golden, void (*measure)()) {
  if (RUNNING_ON_VALGRIND) {
    CALLGRIND_START_INSTRUMENTATION;
    measure();
    return;
  }
  std::filesystem::remove_all(OutputFolder());
  std::filesystem::create_directories(OutputFolder());
  ASSERT_TRUE(RunUnderCallgrind()) << "see above; 'tools/setup --packages' installs valgrind";
  Counts counts;
  for (const auto& entry : std::filesystem::directory_iterator(OutputFolder())) {
    ReadDump(entry.path(), counts);
  }
  ASSERT_FALSE(counts.empty());
  Compare(counts, ReadGolden(golden));
  if (::testing::Test::HasFailure()) {
    std::printf(
        "The data path became longer, or shorter. If that is meant, put the lines above "
        "into %s.\n",
        golden.c_str());
  }
}

}  // namespace uroce::benchmarks
