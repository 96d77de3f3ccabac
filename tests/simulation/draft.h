#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/simulation/message.h"
#include "tests/simulation/send_model.h"
#include "transport/ids.h"
#include "transport/work_request.h"

namespace uroce::transport::simulation {

// A type 2 memory window over the exposed memory.
struct Window {
  RKey key;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool usable = false;    // bound, and the peer knows its key
  bool changing = false;  // a bind or an invalidation is under way
  uint32_t users = 0;     // requests of the peer that use it and are outstanding
};

// The place in the peer's memory that a request works on.
struct Target {
  uint64_t offset = 0;
  uint64_t address = 0;
  RKey rkey;
  Window* window = nullptr;
};

// A work request being put together.
struct Draft {
  SendWorkRequest request;
  SentRequest sent;
  std::vector<ScatterGatherEntry> sges;
  std::vector<uint8_t> inline_bytes;
  std::optional<Message> message;  // uses up a receive request of the peer
  Window* window = nullptr;        // used by the request
};

// Bytes [begin, end).
struct Range {
  uint64_t begin;
  uint64_t end;
};

}  // namespace uroce::transport::simulation
