// Which datagrams are sent.

#include <algorithm>
#include <utility>

#include "tests/simulation/datagram_application.h"

namespace uroce::transport::simulation {

namespace {

constexpr uint32_t kUseOwnQkey = 0x8000'0000;
constexpr uint8_t kUntouched = 0xee;  // fills a receive before it is posted

}  // namespace

void DatagramApplication::PostReceives() {
  if (shared_ != nullptr) return;
  const uint32_t room = config_.scenario.capabilities.max_receive_wr;
  for (uint64_t burst = random_.Between(1, room); burst > 0; --burst) {
    if (inbox_.outstanding() >= room) return;
    const PostedReceive* receive = inbox_.Draw();
    if (receive == nullptr) return;
    if (qp_->PostReceive({receive->wr_id, inbox_.SgesOf(*receive)}) != Status::kOk) {
      context_.verdict.Fail("a datagram queue pair refuses a receive");
    }
  }
}

uint32_t DatagramApplication::DrawLength() {
  switch (random_.Below(6)) {
    case 0:
      return random_.Pick({0u, 1u, 3u, 4u});
    case 1:
      return config_.scenario.max_bytes;
    default:
      return static_cast<uint32_t>(random_.Between(0, config_.scenario.max_bytes));
  }
}

// False if no memory was left for a payload.
bool DatagramApplication::DrawPayload(Draft& draft, uint32_t length) {
  const Layout layout = RandomLayout(random_, length, config_.scenario.capabilities.max_send_sge);
  uint64_t offset;
  if (!source_allocator_.Allocate(layout.area_bytes, &offset)) return false;
  draft.payload.resize(length);
  random_.Fill(draft.payload);
  layout.Scatter(draft.payload, source_.bytes(offset, layout.area_bytes));
  for (const Layout::Piece& piece : layout.pieces) {
    draft.sges.push_back(source_.entry(offset + piece.offset, piece.length));
  }
  draft.sent.source_offset = offset;
  draft.sent.source_bytes = layout.area_bytes;
  return true;
}

void DatagramApplication::Post() {
  Draft draft;
  const bool too_long = config_.scenario.is_restless && random_.Percent(3);
  const bool bad_key = config_.scenario.is_restless && random_.Percent(3);
  const bool has_memory = DrawPayload(draft, too_long ? kMtu + 1 : DrawLength());
  const auto length = static_cast<uint32_t>(draft.payload.size());
  draft.sent.length = length;
  if (too_long && has_memory) {
    draft.sent.expected_status = CompletionStatus::kLocalLengthError;
  } else if (bad_key && length > 0) {
    draft.sges.back().lkey.value ^= 0x55;
    for (auto& sge : draft.sges) sge.lkey = draft.sges.back().lkey;
    draft.sent.expected_status = CompletionStatus::kLocalProtectionError;
  }
  SendWorkRequest& request = draft.request;
  request.opcode = random_.Pick({SendOpcode::kSend, SendOpcode::kSendWithImmediate});
  request.immediate = static_cast<uint32_t>(random_.Next());
  const bool recognizable = length >= 8 || request.opcode == SendOpcode::kSendWithImmediate;
  request.solicited = recognizable && random_.Percent(30);
  // Without a completion now and then the application never learns that there is room.
  const bool is_last = !has_memory || posted_ + 1 == config_.scenario.work_requests ||
                       sends_->outstanding() + 1 == config_.scenario.capabilities.max_send_wr;
  request.signaled = is_last || random_.Percent(60);
  request.wr_id = uint64_t{qp_->qpn().value} << 32 | posted_++;
  Address(draft);
  request.sges = draft.sges;
  draft.sent.wr_id = request.wr_id;
  draft.sent.opcode = request.opcode;
  draft.sent.signaled = request.signaled;
  Announce(draft);
  context_.trace.OnEvent(context_.simulator.now(), "posts datagram",
                         {{"qp", qp_->qpn().value},
                          {"wr", request.wr_id},
                          {"bytes", length},
                          {"to", request.remote_qpn.value}});
  sends_->OnPosted(std::move(draft.sent));
  if (qp_->PostSend(request) != Status::kOk) {
    context_.verdict.Fail("a datagram queue pair refuses a request");
  }
}

// To one queue pair, perhaps with a wrong Q_Key, or to a group.
void DatagramApplication::Address(Draft& draft) {
  SendWorkRequest& request = draft.request;
  AddressVector& address = draft.address;
  address.source_gid_index = 1;
  address.traffic_class = static_cast<uint8_t>(4 * random_.Below(64));
  address.hop_limit = static_cast<uint8_t>(random_.Between(1, 255));
  address.flow_label = static_cast<uint32_t>(random_.Below(1 << 20));
  request.address = &address;
  request.remote_qkey = random_.Percent(20) ? kUseOwnQkey : kQkey;
  draft.to_group = random_.Percent(25);
  if (draft.to_group) {
    const auto group = static_cast<uint32_t>(random_.Below(DatagramScenario::kGroups));
    const auto number = static_cast<uint8_t>(group + 1);
    address.destination_gid = GidOf(group);
    address.destination_mac = config_.ipv6 ? MacAddress{0x33, 0x33, 0, 0, 0x12, number}
                                           : MacAddress{0x01, 0, 0x5e, 1, 2, number};
    request.remote_qpn = kMulticastQpn;
    for (const auto& other : everybody_) {
      if (other->IsMember(group)) draft.receivers.push_back(other.get());
    }
    return;
  }
  DatagramApplication& to = *everybody_[random_.Below(everybody_.size())];
  address.destination_gid = to.host_.gid();
  address.destination_mac = to.host_.mac();
  request.remote_qpn = to.qp_->qpn();
  if (random_.Percent(10)) {
    request.remote_qkey = kQkey ^ 1;
    draft.refuses = &to;
  } else {
    draft.receivers.push_back(&to);
  }
}

// Adds the message to the expected ones of every queue pair it may reach.
void DatagramApplication::Announce(Draft& draft) {
  if (draft.refuses != nullptr) {
    draft.sent.when_done = [to = draft.refuses] { ++to->refused_; };
    return;
  }
  Message message;
  message.opcode = draft.request.opcode;
  message.bytes = ExpectedHeader(draft);
  message.bytes.insert(message.bytes.end(), draft.payload.begin(), draft.payload.end());
  message.length = static_cast<uint32_t>(message.bytes.size());
  message.immediate = draft.request.immediate;
  message.solicited = draft.request.solicited;
  std::vector<std::pair<MessageStream*, size_t>> entries;
  for (DatagramApplication* to : draft.receivers) {
    const auto service = config_.wire_scrambles ? MessageStream::Service::kScrambled
                                                : MessageStream::Service::kOrdered;
    auto& stream = to->streams_.try_emplace({qp_->qpn(), draft.to_group}, service).first->second;
    entries.push_back({&stream, stream.Add(message)});
  }
  draft.sent.when_flushed = [entries] {
    for (const auto& [stream, number] : entries) stream->Cancel(number);
  };
}

// The 40 bytes before the payload: an IPv6 header, or 20 untouched bytes and an IPv4 header
// (IBA A17.4.5.2).
std::vector<uint8_t> DatagramApplication::ExpectedHeader(const Draft& draft) const {
  const bool immediate = draft.request.opcode == SendOpcode::kSendWithImmediate;
  // UDP, BTH, DETH, immediate, payload with its padding, ICRC.
  const size_t udp_bytes =
      8 + 12 + 8 + (immediate ? 4u : 0u) + (draft.payload.size() + 3) / 4 * 4 + 4;
  std::vector<uint8_t> header;
  const auto add = [&header](std::initializer_list<size_t> bytes) {
    for (const size_t byte : bytes) header.push_back(static_cast<uint8_t>(byte));
  };
  const auto add_gids = [&](size_t from) {
    for (const Gid& gid : {host_.gid(), draft.address.destination_gid}) {
      header.insert(header.end(), gid.bytes.begin() + static_cast<std::ptrdiff_t>(from),
                    gid.bytes.end());
    }
  };
  const size_t traffic_class = draft.address.traffic_class;
  const size_t flow = draft.address.flow_label;
  if (config_.ipv6) {
    add({0x60 | traffic_class >> 4, traffic_class << 4 | flow >> 16, flow >> 8, flow,
         udp_bytes >> 8, udp_bytes, 17, draft.address.hop_limit});
    add_gids(0);
    return header;
  }
  header.assign(20, kUntouched);
  const size_t total = 20 + udp_bytes;
  add({0x45, traffic_class, total >> 8, total, 0, 0, 0, 0, draft.address.hop_limit, 17, 0, 0});
  add_gids(12);
  return header;
}

}  // namespace uroce::transport::simulation
