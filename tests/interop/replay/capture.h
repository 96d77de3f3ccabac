#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/counters.h"
#include "transport/time.h"
#include "transport/wire/packet.h"

namespace uroce::transport::interop {

// A frame of a capture, and what our parser makes of it.
struct CapturedFrame {
  uint32_t number = 0;  // from 1, as Wireshark counts
  Time at;
  std::vector<uint8_t> bytes;
  DropReason verdict = DropReason::kNone;
  Packet packet;  // if the verdict is kNone; points into `bytes`

  // To one of the two queue pairs that every port has for management: the connection
  // manager's business.
  bool IsManagement() const { return packet.opcode.HasDeth() && packet.destination_qpn <= Qpn{1}; }
};

using Capture = std::vector<CapturedFrame>;

// Reads a pcap file of Ethernet frames with times in microseconds, written by a little-endian
// machine. Throws std::runtime_error for anything else.
Capture ReadCapture(const std::string& path);

// The captures that lie in the test's runfiles, by file name.
std::vector<std::string> CaptureNames();
std::string PathOf(const std::string& name);

}  // namespace uroce::transport::interop
