#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace uroce::transport::simulation {

inline std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The lines that differ, with the last line before them that names a round trip.
inline std::string TableDifference(const std::vector<std::string>& golden,
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

// Expects that `now` is the committed table tests/simulation/NAME.golden.txt, which the program
// tests/simulation:NAME prints.
inline void ExpectGoldenTable(const std::string& name, const std::string& now) {
  const std::string path = "tests/simulation/" + name + ".golden.txt";
  std::ifstream file(path);
  ASSERT_TRUE(file);
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(golden == now)
      << TableDifference(LinesOf(golden), LinesOf(now))
      << "\nIf this is meant to be, write down the new table and say why it changed:\n"
         "  bazel run //tests/simulation:"
      << name << " > " << path << "\n";
}

}  // namespace uroce::transport::simulation
