// Runs simulations for a while, or a certain one.
//
//   soak [--seconds N] [--seeds N] [--seed S] [--xrc] [--trace]
//
// With --seed alone only that seed is run; with --seconds or --seeds it is the first of many.
// --xrc takes the scenarios with XRC. --trace prints every frame and completion of the first. Exit
// status 0 if nothing failed.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/simulation/run.h"

namespace {

struct Options {
  uint64_t seed = 1;
  uint64_t seconds = 0;
  uint64_t seeds = 0;
  bool trace = false;
  bool xrc = false;
};

[[noreturn]] void Usage(const char* argument) {
  std::fprintf(stderr,
               "soak: cannot use '%s'\n"
               "usage: soak [--seconds N] [--seeds N] [--seed S] [--xrc] [--trace]\n",
               argument);
  std::exit(2);
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--trace") {
      options.trace = true;
      continue;
    }
    if (name == "--xrc") {
      options.xrc = true;
      continue;
    }
    uint64_t* value = name == "--seed"      ? &options.seed
                      : name == "--seconds" ? &options.seconds
                      : name == "--seeds"   ? &options.seeds
                                            : nullptr;
    char* end = nullptr;
    if (value == nullptr || ++i == argc) Usage(name.c_str());
    *value = std::strtoull(argv[i], &end, 10);
    if (end == argv[i] || *end != '\0') Usage(argv[i]);
  }
  if (options.seconds == 0 && options.seeds == 0) options.seeds = 1;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  namespace simulation = uroce::transport::simulation;
  const Options options = ParseOptions(argc, argv);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start)
            .count());
  };
  uint64_t runs = 0;
  uint64_t failures = 0;
  while ((options.seeds == 0 || runs < options.seeds) &&
         (options.seconds == 0 || elapsed_s() < options.seconds)) {
    simulation::RunOptions run_options;
    run_options.uses_xrc = options.xrc;
    if (options.trace && runs == 0) run_options.trace = stdout;
    const simulation::RunResult result = simulation::RunSeed(options.seed + runs, run_options);
    ++runs;
    if (result.ok) continue;
    ++failures;
    std::printf("%s\n", result.failure.c_str());
    std::fflush(stdout);
  }
  std::printf("%llu seeds, %llu failures\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}
