#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/counters.h"
#include "transport/time.h"
#include "transport/wire/packet.h"

namespace uroce::transport::interop {

// A frame of a capture, and the result of our parser.
struct CapturedFrame {
  uint32_t number = 0;  // from 1, as Wireshark counts
  Time at;
  std::vector<uint8_t> bytes;
  DropReason verdict = DropReason::kNone;
  Packet packet;  // if the verdict is kNone; points into `bytes`

  // Whether it goes to one of the two management queue pairs of a port, which the connection
  // manager uses.
  bool IsManagement() const { return packet.opcode.HasDeth() && packet.destination_qpn <= Qpn{1}; }
};

using Capture = std::vector<CapturedFrame>;

// Reads a pcap file of Ethernet frames with times in microseconds, written by a little-endian
// machine. Throws std::runtime_error for anything else.
Capture ReadCapture(const std::string& path);

// The file names of the captures in the test's runfiles.
std::vector<std::string> CaptureNames();
std::string PathOf(const std::string& name);

}  // namespace uroce::transport::interop
