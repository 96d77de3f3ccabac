#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "transport/completion.h"
#include "transport/counters.h"
#include "transport/events.h"
#include "transport/wire/aeth.h"

namespace uroce::transport::packet_scripts {

// Everything the scripts of this process expected and found. An entry does not prove a good test,
// but a missing entry means that no script tests it: coverage_test.cc checks for those.
struct Coverage {
  void Add(const Counters& counters);

  std::set<DropReason> dropped;
  std::set<uint8_t> naks_sent;      // syndromes; that of an RNR NAK without its timer code
  std::set<uint8_t> naks_received;  // the same
  std::set<CompletionStatus> statuses;
  std::set<CompletionOpcode> opcodes;
  std::set<VendorError> vendor_errors;
  std::set<EventType> events;
  std::set<std::string_view> counters;  // those that increased
};

Coverage& coverage();

// The syndrome without its number (credit count or timer code).
uint8_t KindOf(Syndrome syndrome);

}  // namespace uroce::transport::packet_scripts
