#include "tests/interop/replay/capture.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "transport/wire/frame_parser.h"

namespace uroce::transport::interop {
namespace {

constexpr char kFolder[] = "tests/interop/captures/";

constexpr uint32_t kMagic = 0xa1b2c3d4;
constexpr uint32_t kLinkTypeEthernet = 1;
constexpr size_t kFileHeaderBytes = 24;
constexpr size_t kLinkTypeAt = 20;
constexpr size_t kRecordHeaderBytes = 16;

uint32_t Word(const std::vector<uint8_t>& bytes, size_t at) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

[[noreturn]] void Refuse(const std::string& path, const char* why) {
  throw std::runtime_error(path + ": " + why);
}

std::vector<uint8_t> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Refuse(path, "cannot be opened");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

Capture ReadCapture(const std::string& path) {
  const std::vector<uint8_t> bytes = ReadFile(path);
  if (bytes.size() < kFileHeaderBytes) Refuse(path, "is cut short");
  if (Word(bytes, 0) != kMagic || Word(bytes, kLinkTypeAt) != kLinkTypeEthernet) {
    Refuse(path, "is not a pcap file of Ethernet frames with microseconds");
  }
  Capture capture;
  for (size_t at = kFileHeaderBytes; at < bytes.size();) {
    if (bytes.size() - at < kRecordHeaderBytes) Refuse(path, "ends inside a record");
    const uint32_t seconds = Word(bytes, at);
    const uint32_t microseconds = Word(bytes, at + 4);
    const uint32_t captured = Word(bytes, at + 8);
    if (captured != Word(bytes, at + 12)) Refuse(path, "has a frame that is cut short");
    at += kRecordHeaderBytes;
    if (bytes.size() - at < captured) Refuse(path, "ends inside a frame");

    CapturedFrame& frame = capture.emplace_back();
    frame.number = static_cast<uint32_t>(capture.size());
    frame.at = Time{} + Microseconds(int64_t{seconds} * 1'000'000 + microseconds);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    frame.bytes.assign(begin, begin + captured);
    frame.verdict = ParseFrame(frame.bytes, frame.packet);
    at += captured;
  }
  return capture;
}

std::vector<std::string> CaptureNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".pcap") names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::string PathOf(const std::string& name) { return kFolder + name; }

}  // namespace uroce::transport::interop
