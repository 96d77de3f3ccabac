#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "dpdk_nic/capture/pcapng_writer.h"
#include "tests/dpdk_nic/engine/engine_host.h"
#include "transport/wire/frame_parser.h"

namespace uroce::nic {
namespace {

constexpr auto kCarried = transport::IcrcUse::kCarried;

std::string TemporaryFile(const std::string& name) {
  const char* directory = getenv("TEST_TMPDIR");
  return std::string(directory == nullptr ? "/tmp" : directory) + "/" + name + "-" +
         std::to_string(getpid()) + ".pcapng";
}

std::vector<uint8_t> Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

uint32_t Read32(const std::vector<uint8_t>& bytes, size_t at) {
  uint32_t value;
  memcpy(&value, &bytes.at(at + 3) - 3, sizeof value);
  return value;
}

struct Block {
  uint32_t type;
  std::vector<uint8_t> body;  // without type and the two lengths
};

// Walks the blocks; a block whose two lengths differ, or that does not end in the file, fails.
std::vector<Block> Blocks(const std::vector<uint8_t>& file) {
  std::vector<Block> blocks;
  for (size_t at = 0; at < file.size();) {
    const uint32_t type = Read32(file, at);
    const uint32_t length = Read32(file, at + 4);
    if (length < 12 || length % 4 != 0 || at + length > file.size() ||
        Read32(file, at + length - 4) != length) {
      ADD_FAILURE() << "no block at " << at;
      break;
    }
    const auto begin = file.begin() + static_cast<ptrdiff_t>(at);
    blocks.push_back({type, {begin + 8, begin + static_cast<ptrdiff_t>(length) - 4}});
    at += length;
  }
  return blocks;
}

// The output of a command, or nothing if it failed.
std::string OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, count);
  return pclose(pipe) == 0 ? output : "";
}

bool HasTshark() { return !OutputOf("command -v tshark").empty(); }

TEST(PcapngWriterTest, FramesComeBackWithTimeAndDirection) {
  const std::string path = TemporaryFile("frames");
  std::vector<uint8_t> frame(61);
  for (size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<uint8_t>(i);
  {
    auto writer = PcapngWriter::Open(path);
    ASSERT_TRUE(writer.ok());
    writer.value()->OnFrame({1'000}, FrameTap::Direction::kSent, frame, kCarried);
    writer.value()->OnFrame({1'007}, FrameTap::Direction::kReceived, frame, kCarried);
  }
  const auto blocks = Blocks(Contents(path));
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[0].type, 0x0a0d0d0au);
  EXPECT_EQ(blocks[1].type, 1u);
  uint64_t times[2];
  for (int i = 0; i < 2; ++i) {
    const Block& block = blocks[2 + static_cast<size_t>(i)];
    EXPECT_EQ(block.type, 6u);
    times[i] = static_cast<uint64_t>(Read32(block.body, 4)) << 32 | Read32(block.body, 8);
    EXPECT_EQ(Read32(block.body, 12), frame.size());
    EXPECT_EQ(memcmp(&block.body[20], frame.data(), frame.size()), 0);
    EXPECT_EQ(Read32(block.body, 20 + 64 + 4) & 3, i == 0 ? 2u : 1u);  // out, then in
  }
  EXPECT_EQ(times[1] - times[0], 7u);
  EXPECT_GT(times[0], 1'700'000'000'000'000'000u) << "since 1970, in nanoseconds";
  std::filesystem::remove(path);
}

TEST(PcapngWriterTest, ProcessIdTakesItsPlaceInTheName) {
  const std::string path = TemporaryFile("pid-%p");
  ASSERT_TRUE(PcapngWriter::Open(path).ok());
  const std::string expected = TemporaryFile("pid-" + std::to_string(getpid()));
  EXPECT_TRUE(std::filesystem::remove(expected));
}

TEST(PcapngWriterTest, SecondWriterGetsAFileOfItsOwn) {
  const std::string path = TemporaryFile("same");
  const std::string stem = path.substr(0, path.size() - strlen(".pcapng"));
  const std::string second = stem + "-" + std::to_string(getpid()) + ".pcapng";
  const std::string third = stem + "-" + std::to_string(getpid()) + "-2.pcapng";
  const std::vector<uint8_t> frame(60);
  {
    auto writer = PcapngWriter::Open(path);
    ASSERT_TRUE(writer.ok());
    writer.value()->OnFrame({1'000}, FrameTap::Direction::kSent, frame, kCarried);
    ASSERT_TRUE(PcapngWriter::Open(path).ok());
  }
  ASSERT_TRUE(PcapngWriter::Open(path).ok());
  EXPECT_EQ(Blocks(Contents(path)).size(), 3u);
  EXPECT_EQ(Blocks(Contents(second)).size(), 2u);
  EXPECT_EQ(Blocks(Contents(third)).size(), 2u);
  for (const std::string& file : {path, second, third}) std::filesystem::remove(file);
}

TEST(PcapngWriterTest, CaptureThatFindsNoRoomEndsWithAWholePacketAndASentence) {
  const std::string path = TemporaryFile("full");
  constexpr rlim_t kRoom = 100'000;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {.rlim_cur = kRoom, .rlim_max = kRoom};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    auto writer = std::move(PcapngWriter::Open(path)).value();
    const std::vector<uint8_t> frame(4'000);
    for (int i = 0; i < 100; ++i) {
      writer->OnFrame({1'000}, FrameTap::Direction::kSent, frame, kCarried);
      if (i % 2 == 1) writer->EndBurst();
    }
    const std::string notice = writer->TakeNotice();
    const bool is_told = notice.find(path) != std::string::npos && writer->TakeNotice().empty();
    _exit(is_told ? 0 : 2);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto contents = Contents(path);
  EXPECT_EQ(Blocks(contents).size(), 2u + 24u);
  EXPECT_LT(contents.size(), kRoom);
  std::filesystem::remove(path);
}

TEST(PcapngWriterTest, DeviceIsWrittenTo) {
  auto writer = PcapngWriter::Open("/dev/full");
  ASSERT_TRUE(writer.ok());
  EXPECT_NE(writer.value()->TakeNotice().find("/dev/full"), std::string::npos);
}

TEST(PcapngWriterTest, FileThatCannotBeWrittenIsASentence) {
  const auto writer = PcapngWriter::Open("/nonexistent/folder/x.pcapng");
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.error().find("/nonexistent/folder/x.pcapng"), std::string::npos);
}

TEST(CaptureTest, NothingIsLostWhenTheProgramEndsWithoutAWord) {
  const std::string path = TemporaryFile("exit");
  const pid_t child = fork();
  if (child == 0) {
    Engine::Options options;
    options.tap = std::move(PcapngWriter::Open(path)).value();
    EngineHost host(std::move(options));
    host.Connect(host.info());
    const bool posted =
        host.PostReceive(0, 10'000) == transport::Status::kOk &&
        host.Post(transport::SendOpcode::kSend, 20'000, 10'000) == transport::Status::kOk;
    _exit(posted && host.Poll(2).size() == 2 ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  // Three packets of data and at least one acknowledgement.
  EXPECT_GE(Blocks(Contents(path)).size(), 2u + 4u);
  std::filesystem::remove(path);
}

// Neither loopback nor a link carries an ICRC.
TEST(CaptureTest, FramesAreShownWithTheirIcrc) {
  const std::string path = TemporaryFile("icrc");
  {
    Engine::Options options;
    options.tap = std::move(PcapngWriter::Open(path)).value();
    EngineHost a(std::move(options));
    EngineHost b, loopback(a.engine());
    ConnectBoth(a, b);
    loopback.Connect(loopback.info());
    for (EngineHost* host : {&a, &loopback}) {
      ASSERT_EQ(host->Post(transport::SendOpcode::kRdmaWrite, 0, 5'001), transport::Status::kOk);
      ASSERT_EQ(host->Poll(1)[0].status, transport::CompletionStatus::kSuccess);
    }
  }
  const auto blocks = Blocks(Contents(path));
  ASSERT_GE(blocks.size(), 2u + 2 * 3u);
  for (size_t i = 2; i < blocks.size(); ++i) {
    const std::span frame(&blocks[i].body.at(20), Read32(blocks[i].body, 12));
    transport::Packet packet;
    EXPECT_EQ(transport::ParseFrame(frame, packet), transport::DropReason::kNone);
  }
  std::filesystem::remove(path);
}

TEST(CaptureTest, TsharkUnderstandsEveryFrame) {
  if (!HasTshark()) GTEST_SKIP() << "tshark is not installed";
  const std::string path = TemporaryFile("tshark");
  {
    Engine::Options options;
    options.tap = std::move(PcapngWriter::Open(path)).value();
    EngineHost a(std::move(options));
    EngineHost b;
    ConnectBoth(a, b);
    for (const auto opcode :
         {transport::SendOpcode::kRdmaWrite, transport::SendOpcode::kRdmaRead}) {
      ASSERT_EQ(a.Post(opcode, 0, 50'001), transport::Status::kOk);
      ASSERT_EQ(a.Poll(1)[0].status, transport::CompletionStatus::kSuccess);
    }
  }
  std::istringstream lines(
      OutputOf("tshark -r " + path + " -T fields -e frame.protocols -e _ws.malformed 2>/dev/null"));
  size_t frames = 0;
  for (std::string line; std::getline(lines, line); ++frames) {
    EXPECT_NE(line.find(":infiniband"), std::string::npos) << line;
    EXPECT_EQ(line.find("alformed"), std::string::npos) << line;
  }
  EXPECT_EQ(frames, Blocks(Contents(path)).size() - 2);
  EXPECT_GT(frames, 26u);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace uroce::nic
