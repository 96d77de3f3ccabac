#pragma once

#include <cstdio>
#include <cstdlib>

// An invariant that no input may break, in every kind of build.
#define UROCE_REQUIRE(condition)                                                   \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)
