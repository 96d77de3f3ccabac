#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tests/simulation/arena.h"
#include "tests/simulation/completions.h"
#include "tests/simulation/context.h"
#include "tests/simulation/draft.h"
#include "tests/simulation/drain_watch.h"
#include "tests/simulation/event_listener.h"
#include "tests/simulation/host.h"
#include "tests/simulation/random.h"
#include "tests/simulation/receive_model.h"
#include "tests/simulation/sabotage.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/send_model.h"
#include "tests/simulation/shared_receives.h"
#include "tests/simulation/xrc_receives.h"
#include "transport/endpoint.h"

namespace uroce::transport::simulation {

// A program at one end of a connection, RC, UC or one half of XRC: posts random work requests,
// polls, changes the state of its queue pair, and lets the oracles judge.
//
// A connection lasts for one or several sessions (class Connection). Each session starts with the
// queue pair in RESET and with fresh oracles.
class Application : public Process, public EventListener {
 public:
  struct Config {
    EndScenario end;
    QpType type = QpType::kReliableConnection;
    Mtu mtu = Mtu::k1024;
    uint32_t max_message_bytes = 0;
    Duration think_time;
    bool lenient = false;
    bool wire_scrambles = false;  // the wire doubles or reorders frames
    Sabotage sabotage = Sabotage::kNone;
  };

  // `shared` may be nullptr: receive requests are then posted to the queue pair itself. `xrc` is
  // not nullptr for an XRC target only.
  Application(Context& context, Host& host, const Config& config, SharedReceives* shared,
              XrcReceives* xrc, Random random);
  ~Application() override;

  // The steps of a session, in this order. lifecycle.cc
  void SetPeer(Application& peer) { peer_ = &peer; }
  // Makes a queue pair in RESET whose requests start at `first_psn`. `poisoned`: this session gets
  // the scenario's poison.
  void Create(Psn first_psn, bool poisoned);
  // INIT, first receives, RTR. Both ends must have been created.
  void BecomeReadyToReceive();
  void BecomeReadyToSend();
  void UpdateAfterEvent() { host_.UpdateAfterEvent(); }
  // Moves the queue pair to ERR on behalf of the user.
  void MoveToError();
  // RESET, or destroys the queue pair. It produces nothing any more.
  void Close(bool destroy);
  // Compares memory. Call when both ends are closed or nothing is under way.
  void CheckSession();

  void OnActivity() override;
  void OnEvent(EventType type) override;

  // Everything was posted and has completed.
  bool finished() const;
  std::string Progress() const;

  WireMonitor::End MonitoredEnd() const;
  const Config& config() const { return config_; }
  Psn first_psn() const { return first_psn_; }
  // A completion queue overran, which makes it unusable.
  bool overran() const;

 private:
  // The state of the queue pair in this session, and the events it reported.
  struct Session {
    bool open = false;  // between RESET and RESET
    bool poisoned = false;
    bool moved_to_error = false;
    bool posted_into_error = false;
    bool access_error_event = false;
    bool fatal_event = false;
    bool established_event = false;
    bool last_wqe_event = false;
  };
  QpState state() const { return qp_ == nullptr ? QpState::kReset : qp_->state(); }
  // The queue pair answers nothing that the peer sends.
  bool dead() const { return !session_.open || state() == QpState::kError; }
  bool reliable() const { return config_.type != QpType::kUnreliableConnection; }
  bool is_initiator() const { return config_.type == QpType::kXrcSend; }
  bool is_target() const { return xrc_ != nullptr; }
  // Receive requests are posted to the queue pair itself.
  bool has_receive_queue() const { return shared_ == nullptr && !is_initiator() && !is_target(); }
  bool HasPoison(Poison poison) const { return session_.poisoned && config_.end.poison == poison; }
  // The poisoned request is in the queue, or has already been executed.
  bool HasTakenPoison() const { return session_.poisoned && posted_ > config_.end.poison_at; }

  // lifecycle.cc
  void CreateCompletionQueues();
  void CreateQueuePair();
  void StartModels();
  void Modify(const QpAttributes& attributes, uint32_t mask);
  void Forbid(const QpAttributes& attributes, uint32_t mask);
  void CheckEvents();
  void RecoverSendQueue();

  // application.cc: wake, poll, post
  void ScheduleWake();
  bool HasReasonToWake() const;
  void Wake();
  void Poll();
  bool OnCompletion(Completion completion);
  bool OnReceived(const Completion& completion);
  void OnSent(const Completion& completion);
  int SabotageCompletion(Completion& completion);
  bool MayFail(CompletionStatus status) const;
  bool MayFlush() const;
  bool RefusedPeer() const;
  bool KnowsThatItRefused() const;
  bool ReceiveMayFail(CompletionStatus status) const;
  bool broken() const { return sends_->broken() || receives_->broken(); }

  // disturbances.cc: changes to queue pair, queues and memory during traffic
  void Disturb();
  void BeginDrain();
  void ContinueDrain();
  void ChangeWhileDrained();
  void MoveMemory();
  void TakeMemoryAway();

  // posting.cc: which work requests are posted
  void PostReceives();
  bool PostReceive();
  void PostSends();
  void PostSend();
  bool Draw(Draft& draft);
  bool DrawSend(Draft& draft);
  bool DrawWrite(Draft& draft);
  bool DrawRead(Draft& draft);
  bool DrawAtomic(Draft& draft);
  bool DrawAtomicWrite(Draft& draft);
  bool DrawFlush(Draft& draft);
  bool DrawSharedAddition(Draft& draft);
  bool DrawWindowChange(Draft& draft);
  void DrawSync(Draft& draft);
  void Finish(Draft& draft);
  void Post(Draft& draft);
  void PostIntoError();

  // drafting.cc: how a work request is put together
  uint32_t DrawLength();
  std::optional<std::vector<uint8_t>> DrawSource(Draft& draft, uint32_t length);
  std::optional<std::vector<uint8_t>> DrawOwnSource(Draft& draft, uint32_t length);
  bool DrawInline(Draft& draft, std::span<const uint8_t> bytes);
  std::optional<std::vector<uint8_t>> ReuseSink(Draft& draft);
  bool DrawSink(Draft& draft, std::span<const uint8_t> bytes);
  Target DrawTarget(uint64_t length, uint64_t alignment);
  void Aim(Draft& draft, const Target& target);
  void ChangeRemote(Draft& draft, uint64_t offset, std::span<const uint8_t> bytes);
  void FenceIfRead(Draft& draft, Range changed);

  // poison.cc: requests that are wrong on purpose
  bool DrawPoison(Draft& draft);
  bool DrawTooLong(Draft& draft);
  bool DrawForeignWindow(Draft& draft);
  void DrawAnyRemote(Draft& draft, uint64_t address, RKey rkey, uint32_t length);
  RKey BindForeignWindow(Application& owner);

  Context& context_;
  Host& host_;
  Config config_;
  SharedReceives* shared_;
  XrcReceives* xrc_;
  Random random_;
  Application* peer_ = nullptr;

  Arena exposed_;  // the target of the peer's requests
  Arena source_;
  Arena sink_;
  ReceivePool inbox_;  // receive requests, unless they are shared
  RingAllocator source_allocator_;
  RingAllocator sink_allocator_;

  std::unique_ptr<Completions> send_completions_;
  std::unique_ptr<Completions> receive_completions_;  // nullptr: shares send_completions_
  QueuePair* qp_ = nullptr;
  Qpn qpn_;  // of the latest queue pair

  // State of the session.
  Session session_;
  DrainWatch drain_;
  bool impatient_ = false;  // does not wait for the queue to drain
  Psn first_psn_;
  std::unique_ptr<SendModel> sends_;
  std::unique_ptr<ReceiveModel> receives_;
  std::vector<Window> windows_;
  std::optional<RKey> foreign_window_;
  // Ranges of the peer's memory that READs may still read, as they are not known to be done.
  std::vector<Range> reads_in_flight_;
  uint32_t posted_ = 0;

  bool had_send_error_ = false;  // SQE: a message may have ended half way

  uint64_t posted_ever_ = 0;
  bool wake_scheduled_ = false;
  bool sabotaged_ = false;
};

}  // namespace uroce::transport::simulation
