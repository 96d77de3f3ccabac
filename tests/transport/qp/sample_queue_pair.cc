#include "tests/transport/qp/sample_queue_pair.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/transport/qp/state_rows.h"

namespace uroce::transport {
namespace {

constexpr MacAddress kMac{2, 0, 0, 0, 0, 1};
constexpr Gid kGids[] = {Gid::FromIpv4({192, 0, 2, 1}), Gid::FromIpv4({192, 0, 2, 2})};

EndpointConfig SmallConfig(uint32_t port_mtu) {
  EndpointConfig config;
  config.port_mtu = port_mtu;
  config.mac = kMac;
  config.gids = {Gid::LinkLocal(kMac), kGids[0], kGids[1]};
  config.qpn_count = 4;
  return config;
}

AddressVector Address(uint8_t number) {
  AddressVector address;
  address.destination_gid = Gid::FromIpv4({198, 51, 100, number});
  address.destination_mac = {2, 0, 0, 0, 1, number};
  address.flow_label = 0x1'2340u + number;
  address.source_gid_index = number;
  address.hop_limit = static_cast<uint8_t>(60 + number);
  address.traffic_class = static_cast<uint8_t>(4 * number);
  address.service_level = number;
  address.static_rate = number;
  return address;
}

void Print(std::ostream& out, const AddressVector& address) {
  out << " gid";
  for (const uint8_t byte : address.destination_gid.bytes) out << ' ' << int{byte};
  out << " mac";
  for (const uint8_t byte : address.destination_mac) out << ' ' << int{byte};
  out << " label " << address.flow_label << " from " << int{address.source_gid_index} << " hops "
      << int{address.hop_limit} << " class " << int{address.traffic_class} << " level "
      << int{address.service_level} << " rate " << int{address.static_rate} << " port "
      << int{address.port_num};
}

}  // namespace

QpAttributes AttributesOf(Sample sample) {
  const bool first = sample == Sample::kFirst;
  QpAttributes a;
  a.path_mtu = first ? Mtu::k1024 : Mtu::k2048;
  a.qkey = first ? 0x1111'1111 : 0x8222'2222;
  a.rq_psn = Psn(first ? 0xff'ffff : 0x12'3456);
  a.sq_psn = Psn(first ? 0 : 0xab'cdef);
  a.destination_qpn = Qpn{first ? 0x12u : 0xff'fffeu};
  a.access = AccessFlags(first ? AccessFlags::kRemoteRead : AccessFlags::kRemoteWrite);
  a.capabilities = {.max_send_wr = 1};
  a.address = Address(first ? 1 : 2);
  a.alternate_address = Address(first ? 2 : 1);
  a.max_read_atomic = first ? 3 : 128;
  a.max_dest_read_atomic = first ? 5 : 16;
  a.min_rnr_timer = first ? 31 : 1;
  a.port_num = 1;
  a.timeout = first ? 14 : 31;
  a.retry_count = first ? 7 : 0;
  a.rnr_retry = first ? 6 : 7;
  a.alternate_port_num = 1;
  a.alternate_timeout = first ? 9 : 10;
  a.rate_limit.kbps = first ? 1'000'000 : 2'000'000;
  return a;
}

// The binding names every field, so that a new one is not forgotten here.
std::string Describe(const QpAttributes& attributes) {
  const auto& [state, current_state, path_mtu, migration_state, qkey, rq_psn, sq_psn,
               destination_qpn, access, pkey_index, alternate_pkey_index, enable_sqd_notify,
               sq_draining, max_read_atomic, max_dest_read_atomic, min_rnr_timer, port_num, timeout,
               retry_count, rnr_retry, alternate_port_num, alternate_timeout, rate_limit, cap,
               address, alternate_address] = attributes;
  static_cast<void>(enable_sqd_notify);  // ibv_query_qp does not show it
  std::ostringstream out;
  out << Name(state) << " (" << Name(current_state) << ") mtu " << int(path_mtu) << " migration "
      << int(migration_state) << "\nqkey " << qkey << " rq " << rq_psn.value() << " sq "
      << sq_psn.value() << " to " << destination_qpn.value << " access " << access.bits()
      << "\ncap " << cap.max_send_wr << ' ' << cap.max_receive_wr << ' ' << cap.max_send_sge << ' '
      << cap.max_receive_sge << ' ' << cap.max_inline_bytes << "\npath";
  Print(out, address);
  out << "\nalternate path";
  Print(out, alternate_address);
  out << " pkey " << alternate_pkey_index << " port " << int{alternate_port_num} << " timeout "
      << int{alternate_timeout} << "\npkey " << pkey_index << " port " << int{port_num}
      << " draining " << sq_draining << " reads " << int{max_read_atomic} << '/'
      << int{max_dest_read_atomic} << " rnr timer " << int{min_rnr_timer} << " timeout "
      << int{timeout} << " retries " << int{retry_count} << '/' << int{rnr_retry} << " rate "
      << rate_limit.kbps << ' ' << rate_limit.burst_bytes;
  return out.str();
}

SampleQueuePair::SampleQueuePair(QpType type, QpState state, uint32_t port_mtu)
    : type_(type),
      endpoint_(SmallConfig(port_mtu)),
      cq_(endpoint_.CreateCompletionQueue(16, nullptr)) {
  QpInitAttributes init;
  init.type = type;
  init.send_cq = cq_.get();
  init.receive_cq = cq_.get();
  init.capabilities = {4, 5, 2, 3, 16};
  EXPECT_EQ(endpoint_.CreateQueuePair(init, &qp_), Status::kOk);
  ClimbTo(state);
  EXPECT_EQ(qp_->state(), state);
}

SampleQueuePair::~SampleQueuePair() {
  endpoint_.DestroyQueuePair(qp_);
  endpoint_.DestroyCompletionQueue(std::move(cq_));
}

Status SampleQueuePair::Modify(QpAttributes attributes, QpState to, uint32_t mask) {
  attributes.state = to;
  return qp_->Modify(attributes, mask | QpAttributeMask::kState);
}

void SampleQueuePair::ClimbTo(QpState state) {
  using S = QpState;
  for (const S next : {S::kInit, S::kReadyToReceive, S::kReadyToSend}) {
    if (state < next) return;
    const StateRow* row = FindRow(type_, qp_->state(), next);
    EXPECT_EQ(Modify(AttributesOf(Sample::kFirst), next, BitsOf(row->required)), Status::kOk);
    if (state == next) return;
  }
  if (state == S::kSendQueueError) return FailASend();
  EXPECT_EQ(Modify({}, state, 0), Status::kOk);
}

// IBA 10.3.1.6: posts a send request that cannot be carried out, on UC, UD or raw packets.
void SampleQueuePair::FailASend() {
  const ScatterGatherEntry nowhere{0, 60, LKey{0}};
  SendWorkRequest request;
  request.sges = {&nowhere, 1};
  const AddressVector address = Address(1);
  request.address = &address;
  EXPECT_EQ(qp_->PostSend(request), Status::kOk);
  std::array<uint8_t, kMaxFrameBytes> frame;
  EXPECT_EQ(endpoint_.PollTransmit(Time{}, Route::kWire, frame), 0u);
  Completion completion;
  EXPECT_EQ(cq_->Poll({&completion, 1}), 1u);
}

}  // namespace uroce::transport
