#pragma once

#include <cstdint>
#include <string_view>

namespace uroce::transport {

// Counters of peer queries: ROW(field, meaning).
#define UROCE_PEER_COUNTERS(ROW)                                                            \
  ROW(queries_sent, "questions to other hosts whether they speak uroce, repeated ones too") \
  ROW(peers_found, "answers of hosts that do")                                              \
  ROW(peers_silent, "hosts that refused the question, or did not answer it")                \
  ROW(queries_answered, "questions of other hosts that were answered")                      \
  ROW(ignored, "questions and answers that break a rule, or that come unasked")

struct PeerCounters {
#define UROCE_FIELD(field, meaning) uint64_t field = 0;
  UROCE_PEER_COUNTERS(UROCE_FIELD)
#undef UROCE_FIELD
};

struct PeerCounterRow {
  std::string_view name;
  std::string_view meaning;
  uint64_t PeerCounters::*field;
};

inline constexpr PeerCounterRow kPeerCounters[] = {
#define UROCE_ROW(field, meaning) {#field, meaning, &PeerCounters::field},
    UROCE_PEER_COUNTERS(UROCE_ROW)
#undef UROCE_ROW
};

}  // namespace uroce::transport
