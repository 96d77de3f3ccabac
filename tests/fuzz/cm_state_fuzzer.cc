// A communication manager whose users and peers do anything, in any order: calls with right and
// wrong ids, messages that are right, nearly right or from strangers, and time. Checks after every
// operation: no deadline lies in the past, the tables are no larger than the ids in use allow,
// half-open connections and waiting MADs stay within their limits, and an event names an id that
// its user has. At the end all users go, and the manager becomes idle by itself.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tests/fuzz/record.h"
#include "tests/fuzz/require.h"
#include "transport/cm/connection_manager.h"
#include "transport/cm/limits.h"

namespace uroce::transport::cm {
namespace {

constexpr uint32_t kMaxIdsHere = 24;
constexpr uint64_t kService = 0x0106'1000;

class Machine {
 public:
  Machine() : manager_({.ca_guid = 1, .ack_delay = 15, .seed = {1, 2}, .max_ids = kMaxIdsHere}) {
    ids_.push_back(*manager_.Create());
    UROCE_REQUIRE(manager_.Listen(ids_[0], {kService}, kExactServiceMask, 6) == Status::kOk);
  }

  void Step(Record record) {
    const uint8_t operation = record.Byte();
    if (operation < 96) {
      Receive(record);
    } else if (operation < 112) {
      Advance(record);
    } else {
      Call(record);
    }
    Look();
  }

  void Finish() {
    const std::vector<CommunicationId> ids = ids_;
    for (const CommunicationId id : ids) manager_.Destroy(now_, id);
    ids_.clear();
    for (int i = 0; manager_.NextDeadline() != kNever; ++i) {
      // At most a DREQ with its retries and the timewait for each id.
      UROCE_REQUIRE(i < static_cast<int>(kMaxIdsHere) * 20);
      now_ = std::max(now_, manager_.NextDeadline());
      manager_.OnDeadline(now_);
      while (manager_.PollTransmit()) {
      }
    }
    UROCE_REQUIRE(!manager_.HasEvent());
    UROCE_REQUIRE(manager_.id_count() == 0);
    UROCE_REQUIRE(manager_.remote_count() == 0);
    UROCE_REQUIRE(manager_.half_open_count() == 0);
  }

 private:
  static Gid PeerGid(uint8_t number) {
    return Gid::FromIpv4({10, 0, 0, static_cast<uint8_t>(1 + number % 3)});
  }
  static MadAddress Source(Record& record) {
    MadAddress source;
    source.path.destination_gid = PeerGid(record.Byte());
    return source;
  }
  CommunicationId OurId(Record& record) {
    const uint8_t choice = record.Byte();
    if (ids_.empty() || choice >= 240) return {choice};
    return ids_[choice % ids_.size()];
  }
  // A few ids, so that they occur again, or the peer's id in the last REQ or REP.
  CommunicationId PeerId(Record& record) {
    const uint8_t choice = record.Byte();
    if (choice < 64) return {choice % 8u + 1u};
    if (choice < 192 && last_peer_id_.value != 0) return last_peer_id_;
    return {choice % 3u};
  }

  Message MakeMessage(Record& record) {
    const uint8_t kind = record.Byte();
    const CommunicationId peer = PeerId(record);
    const CommunicationId ours = OurId(record);
    const Qpn qpn{0x100u + record.Below(4)};
    const uint8_t number = record.Byte();
    switch (kind % kAttributes) {
      case 0:
        return MakeReq(peer, qpn, number, record);
      case 1:
        return Mra{.local_id = peer,
                   .remote_id = ours,
                   .message = static_cast<Answered>(number % 3),
                   .service_timeout = static_cast<uint8_t>(number >> 3)};
      case 2: {
        Rej rej{.local_id = peer,
                .remote_id = ours,
                .message = static_cast<Answered>(number & 3),
                .reason = static_cast<RejectReason>(record.Below(36))};
        rej.additional_information[7] = record.Byte() & 3;
        return rej;
      }
      case 3:
        return Rep{.local_id = peer,
                   .remote_id = ours,
                   .local_qpn = qpn,
                   .target_ack_delay = static_cast<uint8_t>(number & 31),
                   .local_ca_guid = record.Below(3)};
      case 4:
        return Rtu{.local_id = peer, .remote_id = ours};
      case 5:
        return Dreq{.local_id = peer, .remote_id = ours, .remote_qpn = qpn};
      case 6:
        return Drep{.local_id = peer, .remote_id = ours};
      case 7:
        return SidrReq{.request_id = peer, .service_id = {kService + (number == 0 ? 1 : 0)}};
      case 8:
        return SidrRep{.request_id = ours, .status = static_cast<SidrStatus>(number & 7)};
      case 9:
        return Lap{.local_id = peer, .remote_id = ours, .remote_qpn = qpn};
      default:
        return Apr{.local_id = peer, .remote_id = ours, .status = number};
    }
  }

  static Req MakeReq(CommunicationId peer, Qpn qpn, uint8_t number, Record& record) {
    Req req{.local_id = peer,
            .service_id = {kService + (number == 0 ? 1 : 0)},
            .local_ca_guid = record.Below(3),
            .local_qpn = qpn,
            .transport_service_type = static_cast<uint8_t>(number > 250 ? number & 3 : number & 1),
            .local_cm_response_timeout = static_cast<uint8_t>(record.Byte() & 31),
            .path_mtu = static_cast<uint8_t>(number < 10 ? number : 1 + number % 5),
            .max_cm_retries = static_cast<uint8_t>(number & 15)};
    req.primary.local_gid = PeerGid(number);
    if (number >= 128) req.alternate.local_gid = PeerGid(record.Byte());
    req.primary.local_ack_timeout = static_cast<uint8_t>(record.Byte() & 31);
    return req;
  }

  void Receive(Record& record) {
    const MadAddress source = Source(record);
    MadBytes mad = EmitMessage(record.Byte(), MakeMessage(record));
    const uint16_t spoiled = record.Word();
    if (spoiled != 0) mad[spoiled % kMadBytes] ^= record.Byte();
    manager_.OnMad(now_, mad, source);
  }

  void Advance(Record& record) {
    if (record.Flag() && manager_.NextDeadline() != kNever) {
      now_ = std::max(now_, manager_.NextDeadline());
    } else {
      now_ = now_ + Duration{int64_t{record.Word()} << record.Below(24)};
    }
    manager_.OnDeadline(now_);
  }

  static Path MakePath(Record& record) {
    Path path{.source_gid = PeerGid(9), .packet_life_time = static_cast<uint8_t>(record.Below(20))};
    path.address.destination_gid = PeerGid(record.Byte());
    return path;
  }

  void Call(Record& record) {
    const uint8_t call = record.Byte();
    const CommunicationId id = OurId(record);
    static constexpr std::array<uint8_t, 256> kData{};
    const std::span<const uint8_t> data(kData.data(), record.Flag() ? record.Byte() : 0);
    switch (call % 18) {
      case 0:
        if (const auto created = manager_.Create()) ids_.push_back(*created);
        return;
      case 1:
        Forget(id);
        manager_.Destroy(now_, id);
        UROCE_REQUIRE(!manager_.StateOf(id));
        return;
      case 2:
        Forget(id);
        manager_.Abandon(now_, id);
        return;
      case 3:
        (void)manager_.Listen(id, {kService + record.Byte()}, UINT64_MAX << record.Below(8), 3);
        return;
      case 4:
      case 5:
        Connect(id, record);
        return;
      case 6:
        (void)manager_.Accept(now_, id, {.qpn = {0x100u + record.Below(4)}, .private_data = data});
        return;
      case 7:
        (void)manager_.ConfirmReady(id, data);
        return;
      case 8:
        (void)manager_.CommunicationEstablished(id);
        return;
      case 9:
        (void)manager_.Reject(now_, id,
                              {.information = data.first(std::min(data.size(), size_t{80}))});
        return;
      case 10:
        (void)manager_.AcknowledgeReceipt(id, record.Byte() & 63, data, record.Flag());
        return;
      case 11:
        (void)manager_.Disconnect(now_, id, data);
        return;
      case 12:
        (void)manager_.ConfirmDisconnect(now_, id, data);
        return;
      case 13:
        (void)manager_.Resolve(now_, id, {.service_id = {kService}, .path = MakePath(record)});
        return;
      case 14:
        (void)manager_.AnswerResolution(id, {.private_data = data});
        return;
      case 15:
        (void)manager_.LoadAlternatePath(now_, id, MakePath(record), data);
        return;
      case 16:
        (void)manager_.AnswerAlternatePath(id, {.status = record.Byte()});
        return;
      default:
        (void)manager_.PathMigrated(id);
        return;
    }
  }

  void Connect(CommunicationId id, Record& record) {
    const ConnectParameters parameters{
        .service_id = {kService},
        .path = MakePath(record),
        .service = static_cast<TransportService>(record.Below(3)),
        .qpn = {0x100u + record.Below(4)},
        .remote_cm_response_timeout = static_cast<uint8_t>(record.Below(25)),
        .max_cm_retries = static_cast<uint8_t>(record.Byte() & 15)};
    (void)manager_.Connect(now_, id, parameters);
  }

  void Forget(CommunicationId id) { std::erase(ids_, id); }

  void Look() {
    UROCE_REQUIRE(manager_.NextDeadline() > now_);
    UROCE_REQUIRE(manager_.id_count() <= kMaxIdsHere);
    UROCE_REQUIRE(manager_.half_open_count() <= manager_.id_count());
    UROCE_REQUIRE(manager_.remote_count() <= 2 * manager_.id_count());
    size_t waiting = 0;
    while (const auto mad = manager_.PollTransmit()) {
      ++waiting;
      const ParsedMad parsed = ParseMessage(mad->mad);
      UROCE_REQUIRE(parsed.malformed == Malformed::kNone);
    }
    UROCE_REQUIRE(waiting <= kMaxQueuedMads);
    while (const auto event = manager_.TakeEvent()) {
      if (event->kind == EventKind::kReqReceived || event->kind == EventKind::kSidrReqReceived) {
        ids_.push_back(event->id);
        if (const auto* req = std::get_if<Req>(&event->message)) last_peer_id_ = req->local_id;
      }
      if (const auto* rep = std::get_if<Rep>(&event->message)) last_peer_id_ = rep->local_id;
      UROCE_REQUIRE(manager_.StateOf(event->id));
      UROCE_REQUIRE(std::count(ids_.begin(), ids_.end(), event->id) == 1);
    }
    for (const CommunicationId id : ids_) CheckAttributes(id);
  }

  // A state offers only its own attributes, and only when they are known.
  void CheckAttributes(CommunicationId id) {
    const State state = *manager_.StateOf(id);
    QpAttributes attributes;
    uint32_t mask = 0;
    const bool has_send =
        manager_.Attributes(id, QpState::kReadyToSend, attributes, mask) == Status::kOk;
    const bool has_init = manager_.Attributes(id, QpState::kInit, attributes, mask) == Status::kOk;
    UROCE_REQUIRE(!has_send || has_init);
    if (state == State::kEstablished) UROCE_REQUIRE(has_send);
    if (state == State::kIdle || state == State::kTimewait) UROCE_REQUIRE(!has_init);
  }

  ConnectionManager manager_;
  Time now_{1'000'000'000};
  std::vector<CommunicationId> ids_;
  CommunicationId last_peer_id_;
};

}  // namespace
}  // namespace uroce::transport::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::transport::cm::Machine machine;
  uroce::transport::RunSteps(machine, {data, size});
  return 0;
}
