// Prints the goodput table in the form of goodput.golden.txt.

#include <cstdio>

#include "tests/simulation/goodput.h"

int main() {
  std::fputs(uroce::transport::simulation::GoodputTable().c_str(), stdout);
  return 0;
}
