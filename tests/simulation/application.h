#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tests/simulation/arena.h"
#include "tests/simulation/context.h"
#include "tests/simulation/host.h"
#include "tests/simulation/random.h"
#include "tests/simulation/receive_model.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/send_model.h"
#include "transport/endpoint.h"

namespace uroce::simulation {

// Things an application can do wrong to its completions on purpose, so that tests can see the
// oracle notice (negative controls).
enum class Sabotage : uint8_t {
  kNone,
  kLoseCompletion,    // one completion is never handed to the oracle
  kRepeatCompletion,  // one is handed over twice
  kScribble,          // one byte of exposed memory changes
  kScribbleReceived,  // one byte of what a receive brought changes
  kWrongImmediate,
};

// Tells the completions of receives from those of sends on a queue that both share: the opcode of
// a completion in error says nothing.
inline constexpr uint64_t kReceiveBit = uint64_t{1} << 63;

// A program with one queue pair: posts random work requests, polls, and lets the oracles judge.
class Application : public Process {
 public:
  struct Config {
    EndScenario end;
    transport::Mtu mtu = transport::Mtu::k1024;
    uint32_t max_message_bytes = 0;
    transport::Duration think_time;
    bool lenient = false;
    Sabotage sabotage = Sabotage::kNone;
  };

  Application(Context& context, Host& host, const Config& config, Random random);

  // Brings both queue pairs to RTS, and starts.
  static void Connect(Application& a, Application& b);
  void Start() { ScheduleWake(); }

  void OnActivity() override;

  // Everything was posted and has completed.
  bool finished() const;
  // Last checks, when nothing is on its way any more.
  void CheckEnd();
  std::string Progress() const;

  transport::QueuePair& qp() { return *qp_; }
  const Config& config() const { return config_; }
  bool broken() const { return sends_->broken() || receives_->broken(); }
  size_t receives_outstanding() const { return receives_->outstanding(); }

 private:
  // A type 2 memory window over the exposed memory.
  struct Window {
    transport::RKey key;
    uint64_t offset = 0;
    uint64_t length = 0;
    bool usable = false;    // bound, and the peer knows its key
    bool changing = false;  // a bind or an invalidation is under way
    uint32_t users = 0;     // requests of the peer that use it and are outstanding
  };
  // Where a request of ours goes in the peer's memory.
  struct Target {
    uint64_t offset = 0;
    uint64_t address = 0;
    transport::RKey rkey;
    Window* window = nullptr;
  };
  // A work request being put together.
  struct Draft {
    transport::SendWorkRequest request;
    SentRequest sent;
    std::vector<transport::ScatterGatherEntry> sges;
    std::vector<uint8_t> inline_bytes;
    std::optional<Message> message;  // uses up a receive request of the peer
    Window* window = nullptr;        // used by it
  };
  struct Range {
    uint64_t begin;
    uint64_t end;
  };

  // application.cc: the life of the program
  void CreateQueuePair();
  void ModifyToReady(const Application& peer);
  void Modify(const transport::QpAttributes& attributes, uint32_t mask);
  void ScheduleWake();
  bool HasReasonToWake() const;
  void Wake();
  void Poll();
  void OnCompletion(transport::Completion completion, bool* solicited);
  int SabotageCompletion(transport::Completion& completion);
  void CheckNotification(transport::CompletionQueue& queue, Notification& notification, bool any,
                         bool solicited);
  bool MayFail(transport::CompletionStatus status) const;

  // posting.cc: which work requests there are
  void PostReceives();
  bool PostReceive();
  void PostSends();
  void PostSend();
  bool Draw(Draft& draft);
  bool DrawSend(Draft& draft);
  bool DrawWrite(Draft& draft);
  bool DrawRead(Draft& draft);
  bool DrawAtomic(Draft& draft);
  bool DrawSharedAddition(Draft& draft);
  bool DrawWindowChange(Draft& draft);
  void DrawSync(Draft& draft);
  void Finish(Draft& draft);
  void Post(Draft& draft);
  void PostIntoError();

  // drafting.cc: how one is put together
  uint32_t DrawLength();
  std::optional<std::vector<uint8_t>> DrawSource(Draft& draft, uint32_t length);
  bool DrawInline(Draft& draft, std::span<const uint8_t> bytes);
  std::optional<std::vector<uint8_t>> ReuseSink(Draft& draft);
  bool DrawSink(Draft& draft, std::span<const uint8_t> bytes);
  Target DrawTarget(uint64_t length, uint64_t alignment);
  void Aim(Draft& draft, const Target& target);
  void ChangeRemote(Draft& draft, uint64_t offset, std::span<const uint8_t> bytes);
  void FenceIfRead(Draft& draft, Range changed);

  // poison.cc: requests that are wrong on purpose
  bool DrawPoison(Draft& draft);
  void DrawAnyRemote(Draft& draft, uint64_t address, transport::RKey rkey, uint32_t length);

  Context& context_;
  Host& host_;
  Config config_;
  Random random_;
  Application* peer_ = nullptr;

  Arena exposed_;  // the peer's requests work on it
  Arena source_;
  Arena sink_;
  Arena inbox_;  // receive requests
  RingAllocator source_allocator_;
  RingAllocator sink_allocator_;
  RingAllocator inbox_allocator_;

  Notification send_notification_;
  Notification receive_notification_;
  std::unique_ptr<transport::CompletionQueue> send_cq_;
  std::unique_ptr<transport::CompletionQueue> receive_cq_;  // nullptr: shares send_cq_
  transport::QueuePair* qp_ = nullptr;

  std::unique_ptr<SendModel> sends_;
  std::unique_ptr<ReceiveModel> receives_;
  std::vector<Window> windows_;
  // Ranges of the peer's memory that READs not known to be done may still read.
  std::vector<Range> reads_in_flight_;

  uint32_t posted_ = 0;
  uint64_t next_receive_ = 0;
  bool moved_to_error_ = false;
  bool wake_scheduled_ = false;
  bool posted_into_error_ = false;
  bool sabotaged_ = false;
};

}  // namespace uroce::simulation
