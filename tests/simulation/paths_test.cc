// Behaviour on network paths changes only on purpose: the table must equal the committed one.

#include "tests/simulation/paths.h"

#include <gtest/gtest.h>

#include "tests/simulation/golden_table.h"
#include "tests/simulation/path_run.h"

namespace uroce::transport::simulation {
namespace {

TEST(PathsTest, TheTableIsTheCommittedOne) { ExpectGoldenTable("paths", PathTable(false)); }

// The competitor of the table is no straw man: it fills a path whose queue is long enough.
TEST(PathsTest, TcpFillsThePath) {
  PathScenario scenario{
      .path = {.kbps = 100'000}, .flows = 0, .tcp_flows = 2, .length = Milliseconds(2'000)};
  const PathResult result = PathRun(scenario).Run();
  EXPECT_GT(result.tcp_percents[0] + result.tcp_percents[1], 93);
  EXPECT_LT(result.tcp_percents[0] + result.tcp_percents[1], 96);
  EXPECT_GT(result.tcp_percents[0], 20);
  EXPECT_GT(result.tcp_percents[1], 20);
}

}  // namespace
}  // namespace uroce::transport::simulation
