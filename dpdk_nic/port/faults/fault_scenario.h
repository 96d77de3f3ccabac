#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/time.h"

namespace uroce::nic {

// As seen from the process whose port the scenario is for.
enum class FaultDirection : uint8_t { kSent, kReceived };

// The packets that a rule matches. A field that is not set matches every packet.
struct FaultMatch {
  FaultDirection direction = FaultDirection::kSent;
  std::optional<transport::Qpn> qpn;  // the destination QPN in the BTH
  std::optional<transport::Psn> psn;
  // Packets after the first one of the flow. A flow is all requests, or all responses, that go in
  // this direction to one QPN. Less than 2^24.
  std::optional<uint32_t> psn_offset;
  std::bitset<256> opcodes = std::bitset<256>().set();  // of the BTH
  // The n-th packet to a QPN that matches all of the above: with a PSN, 1 is its first transmission
  // and 2 its first retransmission. nullopt: every one.
  std::optional<uint32_t> nth = 1;
};

struct FaultAction {
  enum class Kind : uint8_t { kDrop, kDuplicate, kDelay, kReorder, kMarkCongestion, kCorrupt };
  // kCorrupt flips one bit: in the last byte of the BTH or the ICRC, in the first byte of the
  // payload, or in the byte at an offset from the beginning of the frame.
  enum class Part : uint8_t { kBth, kPayload, kIcrc, kOffset };

  Kind kind = Kind::kDrop;
  transport::Duration delay;  // kDelay
  uint32_t frames = 0;        // kReorder: so many later frames pass first
  Part part = Part::kBth;     // kCorrupt
  size_t offset = 0;          // kCorrupt, Part::kOffset
};

struct FaultRule {
  FaultMatch match;
  FaultAction action;
};

// Faults at exact places, as a scenario file lists them: see tools/docs/faults.md.
struct FaultScenario {
  std::vector<FaultRule> rules;

  bool empty() const { return rules.empty(); }
};

// Reads the JSON text of a scenario file. Errors call the file `name`.
ErrorOr<FaultScenario> ParseFaultScenario(std::string_view json, const std::string& name);
// Reads a scenario file, of at most a mebibyte.
ErrorOr<FaultScenario> ReadFaultScenario(const std::string& path);

}  // namespace uroce::nic
