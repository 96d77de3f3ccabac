// Makes the endpoint of a script and brings up its queue pair.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {

namespace {

constexpr MacAddress kOurMac{2, 0, 0, 0, 0, 1};
constexpr MacAddress kPeerMac{2, 0, 0, 0, 0, 2};

bool uses_prediction = true;

// Runs every script twice: with header prediction, then without.
class BothWays : public testing::EmptyTestEventListener {
 public:
  static bool Install() {
    testing::UnitTest::GetInstance()->listeners().Append(new BothWays);
    return true;
  }

 private:
  void OnTestProgramStart(const testing::UnitTest& /*tests*/) override {
    testing::GTEST_FLAG(repeat) *= 2;
  }
  void OnTestIterationStart(const testing::UnitTest& /*tests*/, int iteration) override {
    uses_prediction = iteration % 2 == 0;
  }
};

const bool installed = BothWays::Install();

EndpointConfig MakeConfig(void* context, const Script::Options& options) {
  EndpointConfig config;
  config.uses_prediction = uses_prediction;
  config.probes = options.probes;
  config.reorder_packets = options.reorder_packets;
  config.congestion = options.congestion;
  config.features = options.features;
  config.pkeys = options.pkeys;
  config.context = context;
  config.mac = kOurMac;
  config.gids = {Gid::LinkLocal(kOurMac), Script::kOurGid, Script::kOurOtherGid};
  config.first_qpn = Qpn{0x100};
  config.qpn_count = 16;
  return config;
}

}  // namespace

Script::Script(const Options& options)
    : options_(options), endpoint_(MakeConfig(&endpoint_, options)), memory_(kMemoryBytes) {
  const AccessFlags all(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                        AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic |
                        AccessFlags::kWindowBind | AccessFlags::kFlushGlobal);
  key_ = *endpoint_.memory().Register({kPd, kIova, memory_.data(), kMemoryBytes, all});
  cq_ = endpoint_.CreateCompletionQueue(options.cq_capacity, &cq_);
  peer_address_.destination_gid = kPeerGid;
  peer_address_.destination_mac = kPeerMac;
  peer_address_.source_gid_index = 1;
  const bool is_target = options.type == QpType::kXrcReceive;
  if (options.shared_receive_queue || is_target) {
    srq_ = endpoint_.CreateSharedReceiveQueue({.pd = kPd,
                                               .max_work_requests = options.queue_depth,
                                               .max_sges = 4,
                                               .xrc_domain = is_target ? kXrcDomain : XrcDomainId{},
                                               .completion_queue = is_target ? cq_.get() : nullptr,
                                               .context = &srq_});
  }
  if (is_target) {
    EXPECT_EQ(endpoint_.PublishXrcQueue(*srq_), Status::kOk);
  }
  QpInitAttributes init;
  init.pd = kPd;
  init.type = options.type;
  init.send_cq = cq_.get();
  init.receive_cq = cq_.get();
  init.srq = srq_.get();
  init.capabilities = {options.queue_depth, options.queue_depth, 4, 4, 64};
  init.signal_all = options.signal_all;
  if (is_target) init.xrc_domain = kXrcDomain;
  init.context = &qp_;
  EXPECT_EQ(endpoint_.CreateQueuePair(init, &qp_), Status::kOk);
  Connect();
}

void Script::Connect() {
  if (options_.state == QpState::kReset) return;
  ToInit();
  if (options_.state == QpState::kInit) return;
  ToReadyToReceive();
  if (options_.state == QpState::kReadyToReceive) return;
  ToReadyToSend();
  if (options_.state == QpState::kReadyToSend) return;
  if (options_.state == QpState::kSendQueueError) return FailASend();
  EXPECT_EQ(MoveTo(options_.state), Status::kOk);
}

void Script::ToInit() {
  using Mask = QpAttributeMask;
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.port_num = 1;
  attributes.pkey_index = options_.pkey_index;
  attributes.access = options_.qp_access;
  attributes.qkey = kQkey;
  const uint32_t own =
      options_.type == QpType::kUnreliableDatagram ? Mask::kQkey : Mask::kAccessFlags;
  EXPECT_EQ(qp_->Modify(attributes, Mask::kState | Mask::kPkeyIndex | Mask::kPort | own),
            Status::kOk);
}

void Script::ToReadyToReceive() {
  using Mask = QpAttributeMask;
  QpAttributes attributes;
  attributes.state = QpState::kReadyToReceive;
  attributes.path_mtu = options_.mtu;
  attributes.destination_qpn = kPeerQpn;
  attributes.rq_psn = options_.peers_first_psn;
  attributes.max_dest_read_atomic = options_.max_dest_read_atomic;
  attributes.min_rnr_timer = options_.min_rnr_timer;
  attributes.address = peer_address_;
  uint32_t mask = Mask::kState;
  if (options_.type != QpType::kUnreliableDatagram) {
    mask |= Mask::kAddressVector | Mask::kPathMtu | Mask::kDestinationQpn | Mask::kRqPsn;
  }
  if (options_.type == QpType::kReliableConnection || options_.type == QpType::kXrcReceive) {
    mask |= Mask::kMaxDestReadAtomic | Mask::kMinRnrTimer;
  }
  EXPECT_EQ(qp_->Modify(attributes, mask), Status::kOk);
}

void Script::ToReadyToSend() {
  using Mask = QpAttributeMask;
  QpAttributes attributes;
  attributes.state = QpState::kReadyToSend;
  attributes.sq_psn = options_.first_psn;
  attributes.timeout = options_.timeout;
  attributes.retry_count = options_.retry_count;
  attributes.rnr_retry = options_.rnr_retry;
  attributes.max_read_atomic = options_.max_read_atomic;
  uint32_t mask = Mask::kState | Mask::kSqPsn;
  if (options_.type == QpType::kXrcReceive) mask |= Mask::kTimeout;
  if (options_.type == QpType::kReliableConnection || options_.type == QpType::kXrcSend) {
    mask |= Mask::kTimeout | Mask::kRetryCount | Mask::kRnrRetry | Mask::kMaxReadAtomic;
  }
  EXPECT_EQ(qp_->Modify(attributes, mask), Status::kOk);
  if (options_.type == QpType::kReliableConnection && !options_.peer_counts_credits) {
    InjectFrame(Frame(Ack(options_.first_psn - 1)));  // IBA 9.7.7.2: an unsolicited ACK
  }
}

// IBA 10.3.1.6: on UC and UD a request that cannot be carried out leads to SQE.
void Script::FailASend() {
  const ScatterGatherEntry nowhere{0, 1, LKey{0}};
  SendWorkRequest request;
  request.sges = {&nowhere, 1};
  request.address = &peer_address_;
  EXPECT_EQ(qp_->PostSend(request), Status::kOk);
  EXPECT_FALSE(TakeFrame());
  Completion completion;
  EXPECT_EQ(cq_->Poll({&completion, 1}), 1u);
}

}  // namespace uroce::transport::packet_scripts
