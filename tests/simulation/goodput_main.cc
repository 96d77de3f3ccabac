// Prints the goodput table, as it is in goodput.golden.txt.

#include <cstdio>

#include "tests/simulation/goodput.h"

int main() {
  std::fputs(uroce::transport::simulation::GoodputTable().c_str(), stdout);
  return 0;
}
