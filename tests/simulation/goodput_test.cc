// Behaviour under loss changes only on purpose: the goodput table must equal the committed one.

#include "tests/simulation/goodput.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace uroce::transport::simulation {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The lines that differ, with the headings above them.
std::string Difference(const std::vector<std::string>& golden,
                       const std::vector<std::string>& now) {
  std::string difference;
  std::string heading;
  for (size_t i = 0; i < std::max(golden.size(), now.size()); ++i) {
    const std::string before = i < golden.size() ? golden[i] : "";
    const std::string after = i < now.size() ? now[i] : "";
    if (after.find("round trip") != std::string::npos) heading = "\n  " + after + "\n";
    if (before == after) continue;
    difference += heading + "- " + before + "\n+ " + after + "\n";
    heading.clear();
  }
  return difference;
}

TEST(GoodputTest, TheTableIsTheCommittedOne) {
  std::ifstream file("tests/simulation/goodput.golden.txt");
  ASSERT_TRUE(file);
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  const std::string now = GoodputTable();
  EXPECT_TRUE(golden == now)
      << Difference(Lines(golden), Lines(now))
      << "\nIf this is meant to be, write down the new table and say why it changed:\n"
         "  bazel run //tests/simulation:goodput > tests/simulation/goodput.golden.txt\n";
}

}  // namespace
}  // namespace uroce::transport::simulation
