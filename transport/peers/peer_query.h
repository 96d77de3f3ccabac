#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/ids.h"
#include "transport/route.h"
#include "transport/wire/mad.h"

namespace uroce::transport {

// Features beyond the specification, a bit each.
enum class PeerFeature : uint32_t {
  kSelectiveAcks = 1 << 0,   // its requesters take selective acknowledgements
  kRepeatsReads = 1 << 1,    // its responders answer a repeated READ however many came after it
  kTellsOfProcess = 1 << 2,  // it answers queries about a queue pair
};
using PeerFeatures = uint32_t;  // 24 bits
inline constexpr PeerFeatures kOwnFeatures =
    static_cast<PeerFeatures>(PeerFeature::kSelectiveAcks) |
    static_cast<PeerFeatures>(PeerFeature::kRepeatsReads) |
    static_cast<PeerFeatures>(PeerFeature::kTellsOfProcess);

constexpr bool Has(PeerFeatures features, PeerFeature feature) {
  return (features & static_cast<PeerFeatures>(feature)) != 0;
}

// A MAD by which one device finds out whether another one is uroce, or whether a process there
// stands still, and its answer. The class is a vendor-specific one of the upper range, whose MADs
// name the vendor by an OUI (chapter 16.5 of the specification; struct ib_vendor_mad of Linux). Any
// other device ignores the query, or refuses it as Linux does: it returns the query as kGetResponse
// with a status.
//
//   0  the common MAD header, 24 bytes (wire/mad.h):
//        base version 1, class 0x3c, class version 1, method: query kGet, answer kGetResponse
//        status          answer: 0, otherwise the query was refused
//        transaction id  query: 10 bits with the asker's block of QPNs, by which uroced finds the
//                        process, and 54 random bits; answer: the same
//        attribute id    0x0010
//        attribute modifier  0: what does the device speak? Otherwise: what of the process that
//                            has this QPN, 24 bits?
//  24  RMPP header, 12 bytes: 0, as the MAD is in one piece
//  36  reserved, 8 bits | OUI, 24 bits
//  40  answer: process, 8 bits | answer: features, 24 bits
//  44  reserved, to byte 255
//
// Reserved bits are 0, and ignored. An answer is as long as a query. A query about a process has
// two answers: uroced tells at once that it is gone or lives, and passes the query on to it; when
// it runs, it tells so itself.
struct PeerQuery {
  static constexpr uint8_t kClass = 0x3c;
  static constexpr uint8_t kClassVersion = 1;
  static constexpr uint32_t kOui = 0x02'75'72;  // locally administered, so that no vendor has it
  static constexpr uint8_t kGet = 0x01;
  static constexpr uint8_t kGetResponse = 0x81;
  static constexpr uint16_t kAttribute = 0x0010;
  static constexpr size_t kParsedBytes = 44;  // all fields lie before

  enum class Kind : uint8_t { kQuery, kAnswer, kRefusal };
  // Other values are taken for kNotTold.
  enum class Process : uint8_t { kNotTold, kGone, kLives, kRuns };

  Kind kind = Kind::kQuery;
  uint64_t transaction_id = 0;
  Qpn qpn{};
  PeerFeatures features = 0;
  Process process = Process::kNotTold;

  bool operator==(const PeerQuery&) const = default;

  bool IsAboutProcess() const { return qpn.value != 0; }
  constexpr PeerQuery Answer(PeerFeatures own_features,
                             Process process_there = Process::kNotTold) const {
    return {Kind::kAnswer, transaction_id, qpn, own_features, process_there};
  }
};

// The block in a transaction id.
inline constexpr int kTransactionBlockShift = 64 - std::countr_zero(kQpnBlocks);
constexpr uint32_t BlockOfTransaction(uint64_t transaction_id) {
  return static_cast<uint32_t>(transaction_id >> kTransactionBlockShift);
}

// Both take the first PeerQuery::kParsedBytes of a MAD of kMadBytes.
// Whether it is of our class: other versions of it and other methods are.
bool IsOfPeerQueryClass(const uint8_t* mad);
// nullopt if it is of another class or breaks a rule.
std::optional<PeerQuery> ParsePeerQuery(const uint8_t* mad);

MadBytes EmitPeerQuery(const PeerQuery& query);

}  // namespace uroce::transport
