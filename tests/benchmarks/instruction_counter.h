#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string>

namespace uroce::benchmarks {

// Ends the program, under callgrind, where what is measured does not work.
inline void Require(bool holds, std::source_location where = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: failed\n", where.file_name(), where.line());
  std::abort();
}

// Counts the instructions of one stage of the data path. The program runs under callgrind, so that
// the figure does not depend on the machine's load. Reading the clock does not count.
class InstructionCounter {
 public:
  // What is counted from here to End, a message. `stage` is one word. Of a stage that is measured
  // several times the smallest count is taken, which no other thread is part of.
  static void Begin(const std::string& stage, int messages);
  static void End();
};

// The body of a program's only test. Runs the program again under callgrind, where it calls
// `measure`, and expects of what InstructionCounter saw that it fits the file `golden`: a line for
// each stage, with its name and the instructions a message, to be met within 10 %.
void ExpectInstructions(const std::string& golden, void (*measure)());

}  // namespace uroce::benchmarks
