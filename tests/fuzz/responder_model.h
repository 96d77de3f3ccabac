#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tests/fuzz/fuzz_memory.h"
#include "transport/completion.h"
#include "transport/counters.h"
#include "transport/qp/queue_pair.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// Posted receive requests that have not completed, oldest first: of a queue pair or of a shared
// receive queue.
struct PostedReceives {
  struct Receive {
    uint64_t wr_id = 0;
    std::vector<ScatterGatherEntry> sges;
  };
  std::deque<Receive> queue;
  bool is_shared = false;
  PdId pd = kOurPd;  // of the memory that the requests name
};

inline uint64_t RoomIn(std::span<const ScatterGatherEntry> sges) {
  uint64_t bytes = 0;
  for (const ScatterGatherEntry& sge : sges) bytes += sge.length;
  return bytes;
}

// The shared receive queues of an XRC target.
using FuzzXrcQueues = std::map<Srqn, PostedReceives*>;

// An independent model of a responder of RC, UC or UD, or of an XRC target. Predicts the result of
// a request, its effect on memory, its completion, and the contents of its response.
class ResponderModel {
 public:
  // `xrc_queues` are for an XRC target, which has no `receives` at first.
  ResponderModel(QueuePair& qp, FuzzMemory& memory, PostedReceives& receives,
                 const FuzzXrcQueues& xrc_queues, Psn first_psn)
      : qp_(qp),
        type_(qp.init_attributes().type),
        memory_(memory),
        xrc_queues_(xrc_queues),
        receives_(&receives),
        expected_psn_(first_psn),
        ack_psn_(first_psn - 1) {}

  // The packet is about to be handed to the queue pair: returns the result it must report.
  DropReason Expect(const Packet& packet);
  // The queue pair reported `result`.
  void OnRequest(const Packet& packet, DropReason expected, DropReason result);
  // A completion that the queue pair has reported since.
  void OnCompletion(const Completion& completion);
  // No completion is missing.
  void RequireAllReported() const;
  // The queue pair sent this packet.
  void OnReply(const Packet& packet);
  // The application moved the queue pair to ERR: the responder stops answering, unless a refusal
  // had moved the queue pair to ERR before.
  void OnFlushed() { may_answer_ &= refused_; }

  Psn expected_psn() const { return expected_psn_; }
  // Bytes that the current message still lacks; for a SEND, the free room of its receive.
  uint64_t bytes_missing() const { return message_bytes_ - received_bytes_; }

 private:
  // A request with a response of its own, original or repeated. A FLUSH or an ATOMIC WRITE is
  // answered like a READ of no bytes.
  struct Executed {
    bool is_atomic = false;
    bool is_original = false;
    PdId pd = kOurPd;
    Psn first_psn{};
    uint32_t packets = 1;
    uint32_t msn = 0;
    Reth read{};
    uint64_t atomic_result = 0;
    bool answered = false;  // up to its last packet

    bool Contains(Psn psn) const {
      return ((psn.value() - first_psn.value()) & Psn::kMask) < packets;
    }
  };

  bool is_target() const { return type_ == QpType::kXrcReceive; }
  bool is_reliable() const { return type_ == QpType::kReliableConnection || is_target(); }
  bool is_datagram() const { return type_ == QpType::kUnreliableDatagram; }
  bool Allows(uint32_t access) const { return qp_.Query().access.Allows(access); }
  uint32_t mtu_bytes() const { return Bytes(qp_.Query().path_mtu); }
  uint32_t PacketsOf(uint32_t bytes) const;
  uint8_t* Remote(PdId pd, RKey key, uint64_t address, uint64_t length, uint32_t wanted) const;

  // responder_expectation.cc
  void ChooseQueue(Srqn srqn);
  DropReason ExpectReliable(const Packet& packet) const;
  DropReason ExpectUnreliable(const Packet& packet);
  DropReason ExpectDatagram(const Packet& packet);
  DropReason Judge(const Packet& packet) const;
  void TearMessage();
  bool IsInSequence(const Packet& packet) const;
  bool IsEnabled(const Packet& packet) const;
  bool HasValidLength(const Packet& packet) const;
  bool NeedsReceive(const Packet& packet) const;
  bool Fits(const Packet& packet) const;
  bool IsWritePermitted(const Packet& packet) const;
  bool IsReadPermitted(const Reth& reth) const;
  bool IsAtomicPermitted(const AtomicEth& atomic) const;
  bool IsAtomicWritePermitted(const Packet& packet) const;
  bool IsFlushPermitted(const Packet& packet) const;
  uint32_t ReadsOutstanding() const;

  // responder_model.cc
  void Execute(const Packet& packet);
  bool ExecuteSend(const Packet& packet);
  bool PlaceIpHeader(const Packet& packet);
  bool Place(uint64_t offset, std::span<const uint8_t> bytes);
  void ExecuteWrite(const Packet& packet);
  void ExecutePlacement(const Packet& packet);
  void ExecuteAtomic(const Packet& packet);
  void Take();
  void Finish(const Packet& packet);
  void OnDuplicate(const Packet& packet);
  void OnAcknowledge(const Packet& packet);
  bool IsAnswerTo(const Executed& executed, const Packet& packet) const;

  QueuePair& qp_;
  const QpType type_;
  FuzzMemory& memory_;
  const FuzzXrcQueues& xrc_queues_;
  PostedReceives none_{.queue = {}, .is_shared = true};  // of a target: for an unknown queue
  PostedReceives* receives_;    // of a target: of the queue that the message names
  PdId remote_pd_ = kOurPd;     // of a target: of the queue that the packet names
  bool is_queue_known_ = true;  // the packet names one, the same as its message
  Psn expected_psn_;
  uint32_t msn_ = 0;
  // An ACK carries the PSN of the last packet of a SEND or WRITE.
  Psn ack_psn_;
  uint32_t ack_msn_ = 0;

  std::optional<Operation> message_;  // being received
  uint64_t message_bytes_ = 0;
  uint64_t received_bytes_ = 0;
  Reth write_;
  std::optional<PostedReceives::Receive> taken_;  // by the current message
  std::optional<Completion> due_;
  std::deque<uint64_t> torn_;  // shared receives whose messages were torn

  std::vector<Executed> executed_;
  uint32_t requests_ = 0;  // requests that an acknowledgement may answer
  uint32_t acknowledgements_ = 0;
  bool refused_ = false;  // a NAK that ends the connection is due or was sent
  bool may_answer_ = true;
  bool gap_reported_ = false;  // for the expected PSN
};

}  // namespace uroce::transport
