// Prints the table of paths in the form of paths.golden.txt; with --long the longer one.

#include <cstdio>
#include <cstring>

#include "tests/simulation/paths.h"

int main(int argc, char** argv) {
  const bool is_long = argc > 1 && std::strcmp(argv[1], "--long") == 0;
  std::fputs(uroce::transport::simulation::PathTable(is_long).c_str(), stdout);
  return 0;
}
