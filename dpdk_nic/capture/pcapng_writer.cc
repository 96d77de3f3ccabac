#include "dpdk_nic/capture/pcapng_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/log.h"
#include "dpdk_nic/base/memory_file.h"
#include "transport/wire/encapsulation.h"

// Block layouts and numbers: draft-ietf-opsawg-pcapng, sections 3 and 4. All numbers are in the
// byte order of the machine, which the byte-order magic tells.

namespace uroce::nic {
namespace {

constexpr uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
constexpr uint32_t kInterfaceDescriptionBlock = 1;
constexpr uint32_t kEnhancedPacketBlock = 6;
constexpr uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr uint32_t kVersion1_0 = 1;  // major in the low half, minor in the high one
constexpr uint32_t kLinkTypeEthernet = 1;

constexpr uint16_t kEndOfOptions = 0;
constexpr uint16_t kInterfaceName = 2;
constexpr uint16_t kTimestampResolution = 9;
constexpr uint16_t kPacketFlags = 2;

constexpr uint32_t kFlagInbound = 1;
constexpr uint32_t kFlagOutbound = 2;

// More than a pass can collect, so that the buffer does not grow under the engine's lock.
constexpr size_t kBufferBytes = 1 << 20;

constexpr uint32_t PaddedTo4(size_t bytes) { return static_cast<uint32_t>((bytes + 3) & ~3ul); }

constexpr uint32_t OptionBytes(size_t value_bytes) { return 4 + PaddedTo4(value_bytes); }

// Far more than a process has engines.
constexpr int kMaxFilesOfAProcess = 1'000;

UniqueFd Create(const std::string& file) {
  constexpr int kFlags = O_WRONLY | O_CLOEXEC;
  struct stat status;
  if (stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return UniqueFd(open(file.c_str(), kFlags));
  }
  UniqueFd fd(open(file.c_str(), kFlags | O_CREAT | O_EXCL, 0644));
  if (fd) flock(fd.get(), LOCK_EX | LOCK_NB);  // another `uroce run` must not remove it
  return fd;
}

// "frames.pcapng" becomes "frames-PID.pcapng", "frames-PID-2.pcapng" and so on.
std::string WithSuffix(const std::string& file, int number) {
  std::filesystem::path path = file;
  std::string name = path.stem().string() + '-' + std::to_string(getpid());
  if (number > 1) name += '-' + std::to_string(number);
  return path.replace_filename(name + path.extension().string());
}

std::string WithProcessId(std::string path) {
  const std::string pid = std::to_string(getpid());
  for (size_t at = 0; (at = path.find("%p", at)) != std::string::npos; at += pid.size()) {
    path.replace(at, 2, pid);
  }
  return path;
}

int64_t EpochOffsetNs() {
  timespec epoch;
  clock_gettime(CLOCK_REALTIME, &epoch);
  return epoch.tv_sec * 1'000'000'000 + epoch.tv_nsec - Now().ns;
}

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

ErrorOr<std::unique_ptr<PcapngWriter>> PcapngWriter::Open(const std::string& path) {
  const std::string wanted = WithProcessId(path);
  std::string file = wanted;
  UniqueFd fd = Create(file);
  for (int number = 1; !fd && errno == EEXIST && number <= kMaxFilesOfAProcess; ++number) {
    file = WithSuffix(wanted, number);
    fd = Create(file);
  }
  if (!fd) {
    return Error{"the capture file '" + file + "' cannot be written (" + strerror(errno) +
                 "): name a file that can be created"};
  }
  if (file != wanted) {
    Log(LogLevel::kWarning, "the capture file '" + wanted +
                                "' exists: the frames of this process go to '" + file + "'");
  }
  return std::unique_ptr<PcapngWriter>(
      new PcapngWriter(std::move(fd), std::move(file), EpochOffsetNs()));
}

PcapngWriter::PcapngWriter(UniqueFd fd, std::string file, int64_t epoch_offset_ns)
    : fd_(std::move(fd)), file_(std::move(file)), epoch_offset_ns_(epoch_offset_ns) {
  pending_.reserve(kBufferBytes);
  AppendHeaderBlocks();
  EndBurst();
}

PcapngWriter::~PcapngWriter() {
  EndBurst();
  if (!notice_.empty()) Log(LogLevel::kWarning, notice_);
}

void PcapngWriter::Append32(uint32_t value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  pending_.insert(pending_.end(), bytes, bytes + sizeof value);
}

void PcapngWriter::AppendOption(uint16_t code, std::span<const uint8_t> value) {
  Append32(code | static_cast<uint32_t>(value.size()) << 16);
  pending_.insert(pending_.end(), value.begin(), value.end());
  pending_.resize(pending_.size() + PaddedTo4(value.size()) - value.size());
}

void PcapngWriter::AppendHeaderBlocks() {
  constexpr uint32_t kSectionBytes = 28;
  Append32(kSectionHeaderBlock);
  Append32(kSectionBytes);
  Append32(kByteOrderMagic);
  Append32(kVersion1_0);
  Append32(0xffff'ffff);  // section length, 64 bits: not known
  Append32(0xffff'ffff);
  Append32(kSectionBytes);

  const std::string_view name = "uroce0";
  const std::array<uint8_t, 1> nanoseconds = {9};
  const uint32_t interface_bytes = 20 + OptionBytes(name.size()) + OptionBytes(1) + OptionBytes(0);
  Append32(kInterfaceDescriptionBlock);
  Append32(interface_bytes);
  Append32(kLinkTypeEthernet);
  Append32(0);  // no limit to the captured length
  AppendOption(kInterfaceName, BytesOf(name));
  AppendOption(kTimestampResolution, nanoseconds);
  AppendOption(kEndOfOptions, {});
  Append32(interface_bytes);
}

void PcapngWriter::OnFrame(transport::Time now, Direction direction, std::span<const uint8_t> frame,
                           transport::IcrcUse icrc) {
  if (!fd_) return;
  const auto frame_bytes = static_cast<uint32_t>(frame.size());
  const uint32_t padded = PaddedTo4(frame.size());
  const uint32_t block_bytes = 32 + padded + OptionBytes(4) + OptionBytes(0);
  const auto time = static_cast<uint64_t>(now.ns + epoch_offset_ns_);
  const uint32_t flags = direction == Direction::kReceived ? kFlagInbound : kFlagOutbound;
  Append32(kEnhancedPacketBlock);
  Append32(block_bytes);
  Append32(0);  // interface
  Append32(static_cast<uint32_t>(time >> 32));
  Append32(static_cast<uint32_t>(time));
  Append32(frame_bytes);  // captured
  Append32(frame_bytes);  // on the wire
  pending_.insert(pending_.end(), frame.begin(), frame.end());
  if (icrc == transport::IcrcUse::kWaived) {
    transport::FillInIcrc(std::span(pending_).last(frame.size()));
  }
  pending_.resize(pending_.size() + padded - frame_bytes);
  AppendOption(kPacketFlags, {reinterpret_cast<const uint8_t*>(&flags), sizeof flags});
  AppendOption(kEndOfOptions, {});
  Append32(block_bytes);
}

void PcapngWriter::EndBurst() {
  const FileSizeSignalHold hold;
  size_t written = 0;
  while (fd_ && written < pending_.size()) {
    const ssize_t count = write(fd_.get(), pending_.data() + written, pending_.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      EndCapture(errno);
    }
  }
  whole_bytes_ += static_cast<off_t>(pending_.size());
  pending_.clear();
}

// Takes back what was written of the last burst, which ends in the middle of a packet.
void PcapngWriter::EndCapture(int error) {
  [[maybe_unused]] const int result = ftruncate(fd_.get(), whole_bytes_);
  fd_.reset();
  notice_ = "the capture '" + file_ + "' ends here, as it cannot be written (" + strerror(error) +
            "): make room for it, and start the program again";
}

}  // namespace uroce::nic
