#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/arena.h"
#include "tests/simulation/completions.h"
#include "tests/simulation/context.h"
#include "tests/simulation/drain_watch.h"
#include "tests/simulation/event_listener.h"
#include "tests/simulation/host.h"
#include "tests/simulation/message_stream.h"
#include "tests/simulation/random.h"
#include "tests/simulation/receive_pool.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/send_model.h"
#include "tests/simulation/shared_receives.h"
#include "transport/endpoint.h"

namespace uroce::transport::simulation {

// A program with a datagram queue pair. It sends to all DatagramApplications of the run, itself
// included, and to multicast groups, with right and wrong Q_Keys, and judges what it receives.
class DatagramApplication : public Process, public EventListener {
 public:
  struct Config {
    DatagramScenario scenario;
    bool ipv6 = false;
    bool lenient = false;
    bool wire_scrambles = false;
    bool wire_corrupts = false;
  };
  static constexpr uint32_t kMtu = 4'096;         // of the port of a simulated host
  static constexpr uint32_t kQkey = 0x1234'5678;  // of every datagram queue pair
  // All DatagramApplications of a run.
  using Everybody = std::vector<std::unique_ptr<DatagramApplication>>;

  // `shared` may be nullptr.
  DatagramApplication(Context& context, Host& host, const Config& config, SharedReceives* shared,
                      const Everybody& everybody, Random random);
  ~DatagramApplication() override;

  void OnActivity() override;
  void OnEvent(EventType type) override;

  // Everything was posted and has completed.
  bool finished() const;
  // Call when nothing is under way any more.
  void CheckEnd();
  std::string Progress() const;

  const Host& host() const { return host_; }
  // refused(): datagrams to this queue pair alone, sent with a wrong Q_Key. missing(): datagrams
  // with the right Q_Key that did not arrive.
  uint64_t refused() const { return refused_; }
  size_t missing() const;
  bool was_reset() const { return was_reset_; }

 private:
  // The sender, and whether it sends to a group. Different streams have no common order.
  using StreamKey = std::pair<Qpn, bool>;
  // A datagram being put together.
  struct Draft {
    SendWorkRequest request;
    AddressVector address;
    SentRequest sent;
    std::vector<ScatterGatherEntry> sges;
    std::vector<uint8_t> payload;
    std::vector<DatagramApplication*> receivers;  // queue pairs it may reach
    DatagramApplication* refuses = nullptr;       // the one it must not reach
    bool to_group = false;
  };

  QpState state() const { return qp_->state(); }
  bool IsMember(uint32_t group) const { return (config_.scenario.groups >> group & 1) != 0; }
  Gid GidOf(uint32_t group) const;
  ReceivePool& pool() { return shared_ == nullptr ? inbox_ : shared_->pool(); }

  void CreateQueuePair();
  void BecomeReady();
  void Modify(const QpAttributes& attributes, uint32_t mask);
  void ResetQueuePair();
  void RecoverSendQueue();
  bool HasReasonToWake() const;
  void Wake();
  void Poll();
  bool OnCompletion(const Completion& completion);
  bool OnReceived(const Completion& completion);
  bool Fits(const Completion& completion, std::span<const uint8_t> bytes,
            const Message& message) const;
  bool MayDiffer(size_t i) const;
  void PostReceives();
  void Post();
  uint32_t DrawLength();
  bool DrawPayload(Draft& draft, uint32_t length);
  void Address(Draft& draft);
  void Announce(Draft& draft);
  std::vector<uint8_t> ExpectedHeader(const Draft& draft) const;

  Context& context_;
  Host& host_;
  Config config_;
  SharedReceives* shared_;
  const Everybody& everybody_;
  Random random_;

  Arena source_;
  Arena nothing_;  // SendModel's remote memory: datagrams change none
  RingAllocator source_allocator_;
  RingAllocator nothing_allocator_;
  ReceivePool inbox_;
  Completions completions_;
  QueuePair* qp_ = nullptr;
  std::unique_ptr<SendModel> sends_;
  DrainWatch drain_;
  std::map<StreamKey, MessageStream> streams_;  // to this queue pair

  uint32_t posted_ = 0;
  uint64_t refused_ = 0;
  bool moved_to_error_ = false;
  bool was_reset_ = false;
  bool wake_scheduled_ = false;
};

}  // namespace uroce::transport::simulation
