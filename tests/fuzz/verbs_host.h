#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/fuzz/record.h"
#include "tests/fuzz/verbs_ledger.h"
#include "transport/endpoint.h"

namespace uroce::transport {

// An endpoint with a few slots for objects of every kind. An operation reads its parameters from a
// record. It does nothing on an empty slot, or if a caller of the transport must not make it.
class VerbsHost {
 public:
  explicit VerbsHost(uint8_t number);

  // verbs_host.cc: objects
  void CreateOrDestroyCq(Record& record);
  void CreateOrDestroySrq(Record& record);
  void CreateOrDestroyQp(Record& record);
  void ChangeCq(Record& record);
  void ChangeSrq(Record& record);
  void ChangeMemory(Record& record);
  void ChangeMulticast(Record& record);
  void Fail() { endpoint_.Fail(); }
  // Takes the events; compares each with its object.
  void TakeEvents();
  void PollAll();
  // Moves every queue pair to ERR, accounts for every request, destroys everything.
  void Finish(Time now);

  // verbs_modify.cc
  // Modifies to the next state towards RTS and beyond, connected to a queue pair of `peer`.
  void Advance(Record& record, const VerbsHost& peer);
  // Any attributes with any mask.
  void ModifyAtRandom(Record& record, const VerbsHost& peer);

  // verbs_post.cc
  void PostSends(Record& record, const VerbsHost& peer);
  void PostReceive(Record& record);

  Endpoint& endpoint() { return endpoint_; }
  // The guards around the memory must be unchanged.
  void RequireGuards() const;

 private:
  static constexpr size_t kCqs = 3;
  static constexpr size_t kSrqs = 2;
  static constexpr size_t kQps = 4;
  static constexpr size_t kRegions = 2;
  static constexpr size_t kGuardBytes = 64;
  static constexpr size_t kMemoryBytes = 4'096;

  // The kind of object that an event's context points to.
  enum class Tag : uint8_t { kDevice, kCq, kSrq, kQp };
  struct CqSlot {
    Tag tag = Tag::kCq;
    std::unique_ptr<CompletionQueue> cq;
    uint32_t armed = 0;
    uint32_t notified = 0;
  };
  struct SrqSlot {
    Tag tag = Tag::kSrq;
    std::unique_ptr<SharedReceiveQueue> srq;
    VerbsLedger::Account account = 0;
  };
  struct QpSlot {
    Tag tag = Tag::kQp;
    QueuePair* qp = nullptr;
    CqSlot* send_cq = nullptr;
    CqSlot* receive_cq = nullptr;
    SrqSlot* srq = nullptr;
    VerbsLedger::Account sends = 0;
    VerbsLedger::Account receives = 0;
  };

  bool IsUsed(const CqSlot& slot) const;
  bool IsUsed(const SrqSlot& slot) const;
  void OpenAccounts(QpSlot& slot);
  void Poll(CqSlot& slot, uint32_t count);
  void Modify(QpSlot& slot, const QpAttributes& attributes, uint32_t mask);
  AddressVector AddressOf(Record& record, const VerbsHost& peer) const;
  QpAttributes Sensible(Record& record, const QpSlot& slot, const VerbsHost& peer) const;
  std::vector<ScatterGatherEntry> Sges(Record& record, size_t most) const;
  uint64_t Address(size_t offset) const {
    return reinterpret_cast<uint64_t>(memory_.data()) + kGuardBytes + offset;
  }

  Tag device_tag_ = Tag::kDevice;
  Endpoint endpoint_;
  VerbsLedger ledger_;
  std::vector<uint8_t> memory_;  // guard, memory, guard
  std::array<std::optional<LKey>, kRegions> regions_;
  std::array<RKey, 2> windows_;
  std::array<CqSlot, kCqs> cqs_;
  std::array<SrqSlot, kSrqs> srqs_;
  std::array<QpSlot, kQps> qps_;
};

}  // namespace uroce::transport
