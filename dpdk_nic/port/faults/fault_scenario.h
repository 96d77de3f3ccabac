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

// Which packets a rule means. What is not set, every packet has.
struct FaultMatch {
  FaultDirection direction = FaultDirection::kSent;
  std::optional<transport::Qpn> qpn;  // the destination QPN in the BTH
  std::optional<transport::Psn> psn;
  // Packets after the first one of the flow: of all requests, or of all responses, that go in this
  // direction to one QPN. Less than 2^24.
  std::optional<uint32_t> psn_offset;
  std::bitset<256> opcodes = std::bitset<256>().set();  // of the BTH
  // The n-th packet to a QPN that is all of the above: for one PSN 1 is its first transmission and
  // 2 its first retransmission. nullopt: every one.
  std::optional<uint32_t> nth = 1;
};

struct FaultAction {
  enum class Kind : uint8_t { kDrop, kDuplicate, kDelay, kReorder, kMarkCongestion, kCorrupt };
  // What is corrupted: one bit of the last byte of a header or of the first one of the payload, or
  // of the byte at an offset from the beginning of the frame.
  enum class Part : uint8_t { kBth, kPayload, kIcrc, kOffset };

  Kind kind = Kind::kDrop;
  transport::Duration delay;  // kDelay
  uint32_t frames = 0;        // kReorder: so many others pass first
  Part part = Part::kBth;     // kCorrupt
  size_t offset = 0;          // kCorrupt, Part::kOffset
};

struct FaultRule {
  FaultMatch match;
  FaultAction action;
};

// Faults at exact places, written down by a person: dpdk_nic/port/faults/FAULTS.md explains the
// file.
struct FaultScenario {
  std::vector<FaultRule> rules;

  bool empty() const { return rules.empty(); }
};

// Reads the JSON text of a scenario file. `name` is what its errors call the file.
ErrorOr<FaultScenario> ParseFaultScenario(std::string_view json, const std::string& name);
// Reads a scenario file, of at most a mebibyte.
ErrorOr<FaultScenario> ReadFaultScenario(const std::string& path);

}  // namespace uroce::nic
