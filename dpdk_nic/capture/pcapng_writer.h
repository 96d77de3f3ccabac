#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/frame_tap.h"

namespace uroce::nic {

// Writes every frame to a pcapng file (draft-ietf-opsawg-pcapng), with direction and time in
// nanoseconds. Hands everything to the kernel at the end of each burst, so that the capture
// survives a crash of the application.
//
// When a write fails (full disk) the capture ends with a sentence; the file is whole up to that
// burst.
class PcapngWriter : public FrameTap {
 public:
  // Creates the file. "%p" in the path becomes the process id. If the file exists, it is that of
  // another program or engine: this one gets a file with the process id in its name, and says so.
  // A FIFO or a device is written to as it is.
  static ErrorOr<std::unique_ptr<PcapngWriter>> Open(const std::string& path);
  ~PcapngWriter() override;

  void OnFrame(transport::Time now, Direction direction, std::span<const uint8_t> frame,
               transport::IcrcUse icrc) override;
  void EndBurst() override;
  std::string TakeNotice() override { return std::exchange(notice_, {}); }

 private:
  PcapngWriter(UniqueFd fd, std::string file, int64_t epoch_offset_ns);
  void EndCapture(int error);
  void Append32(uint32_t value);
  void AppendOption(uint16_t code, std::span<const uint8_t> value);
  void AppendHeaderBlocks();

  UniqueFd fd_;
  const std::string file_;
  off_t whole_bytes_ = 0;  // of the file, at the end of the last burst
  std::string notice_;
  const int64_t epoch_offset_ns_;  // from the engine's time line to the Unix epoch
  std::vector<uint8_t> pending_;
};

}  // namespace uroce::nic
