#include <gtest/gtest.h>

#include "dpdk_nic/port/dpdk/eal/log_buffer.h"

namespace uroce::nic {
namespace {

TEST(LogBufferTest, LastLinesAreJoinedOldestFirst) {
  LogBuffer log;
  log.Append("one\ntwo\nth");
  log.Append("ree\nunfinished");
  EXPECT_EQ(log.LastLines(2), "two; three");
  EXPECT_EQ(log.LastLines(9), "one; two; three");
}

TEST(LogBufferTest, NamesOfFunctionsAreLeftOut) {
  LogBuffer log;
  log.Append("memif_connect_client(): Failed to connect socket: /x.\n");
  log.Append("EAL: f(): stays\n");
  EXPECT_EQ(log.LastLines(2), "Failed to connect socket: /x.; EAL: f(): stays");
}

TEST(LogBufferTest, LinesAndTheirLengthAreBounded) {
  LogBuffer log;
  for (size_t i = 0; i < 3 * LogBuffer::kMaxLines; ++i) log.Append(std::to_string(i) + "\n");
  EXPECT_EQ(log.LastLines(2), "190; 191");
  EXPECT_TRUE(log.LastLines(1'000).starts_with("128; "));
  log.Append(std::string(10'000, 'x') + "\n");
  EXPECT_EQ(log.LastLines(1).size(), LogBuffer::kMaxLineBytes);
}

TEST(LogBufferTest, ClearForgetsEverything) {
  LogBuffer log;
  log.Append("old\nhalf");
  log.Clear();
  EXPECT_EQ(log.LastLines(5), "");
  log.Append("new\n");
  EXPECT_EQ(log.LastLines(5), "new");
}

}  // namespace
}  // namespace uroce::nic
