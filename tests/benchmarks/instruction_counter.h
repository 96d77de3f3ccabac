#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string>

namespace uroce::benchmarks {

// Ends the program, which runs under callgrind, when the measured code fails.
inline void Require(bool holds, std::source_location where = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: failed\n", where.file_name(), where.line());
  std::abort();
}

// Counts the instructions of one stage of the data path. The program runs under callgrind, so the
// machine's load does not change the figure. Reading the clock is not counted.
class InstructionCounter {
 public:
  // Counts instructions from here to End, per message. `stage` is one word. For a stage measured
  // several times the smallest count is taken: no other thread contributed to it.
  static void Begin(const std::string& stage, int messages);
  static void End();
};

// The body of a program's only test. Runs the program again under callgrind, where it calls
// `measure`. Compares the counts with the file `golden`, a line for each stage: its name and its
// instructions per message. Counts must be within 10 %.
void ExpectInstructions(const std::string& golden, void (*measure)());

}  // namespace uroce::benchmarks
