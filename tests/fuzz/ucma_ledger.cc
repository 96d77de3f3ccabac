#include "tests/fuzz/ucma_ledger.h"

#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "tests/fuzz/require.h"
#include "verbs_provider/rdma_cm/channel.h"
#include "verbs_provider/rdma_cm/socket_address.h"

namespace uroce::verbs::rdma_cm {
namespace {

constexpr size_t kLongestAnswer = sizeof(rdma_ucm_query_addr_resp) + sizeof(rdma_ucm_event_resp);

// rdma_ucm_query_path_resp, with one path.
struct PathAnswer {
  uint32_t paths;
  uint32_t reserved;
  ib_path_rec_data path;
};

bool IsKnownErrno(int error) {
  switch (error) {
    case 0:
    case EACCES:
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EAGAIN:
    case EFAULT:
    case EINVAL:
    case ENETUNREACH:
    case ENOBUFS:
    case ENODEV:
    case ENOENT:
    case ENOMEM:
    case ENOSPC:
    case ENOSYS:
    case EPROTONOSUPPORT:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

bool IsKnownEvent(uint32_t event) {
  switch (static_cast<UserEvent>(event)) {
    case UserEvent::kAddressResolved:
    case UserEvent::kAddressError:
    case UserEvent::kRouteResolved:
    case UserEvent::kConnectRequest:
    case UserEvent::kConnectResponse:
    case UserEvent::kUnreachable:
    case UserEvent::kRejected:
    case UserEvent::kEstablished:
    case UserEvent::kDisconnected:
    case UserEvent::kMulticastJoin:
    case UserEvent::kAddressChange:
    case UserEvent::kTimewaitExit:
      return true;
    case UserEvent::kDeviceRemoval:
      return false;  // the device of the fuzzer does not fail
  }
  return false;
}

}  // namespace

bool UcmaLedger::Outcome::is_done() const {
  switch (command.header.cmd) {
    case RDMA_USER_CM_CMD_DESTROY_ID:
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return error == 0 || error == EFAULT;
    default:
      return error == 0;
  }
}

template <class Answer>
Answer UcmaLedger::Outcome::Read() const {
  Answer answer{};
  const uint64_t response = ResponseOf(command);
  UROCE_REQUIRE(answers.Contains(response, 0));
  // An answer may be shorter than its struct, and then end at the end of the memory.
  const size_t bytes =
      std::min({sizeof answer, size_t{command.header.out}, size_t{answers.end() - response}});
  std::memcpy(&answer, &answers.bytes()[response - answers.begin()], bytes);
  return answer;
}

template <class Object>
uint32_t UcmaLedger::Choose(const std::map<uint32_t, Object>& objects, uint8_t choice) {
  if (choice >= 248) return UINT32_MAX - (choice & 3);
  if (choice >= 224 || objects.empty()) return choice & 7u;
  return std::next(objects.begin(), static_cast<ptrdiff_t>(choice % objects.size()))->first;
}

uint32_t UcmaLedger::Id(uint8_t choice) const { return Choose(ids_, choice); }

uint32_t UcmaLedger::Member(uint8_t choice) const { return Choose(members_, choice); }

// A command succeeds only on a live id of its own file.
UcmaLedger::KnownId& UcmaLedger::Find(uint32_t number, int fd) {
  const auto found = ids_.find(number);
  UROCE_REQUIRE(found != ids_.end());
  UROCE_REQUIRE(found->second.fd == fd);
  return found->second;
}

void UcmaLedger::OnCommand(int fd, const UcmaCommand& command, const UcmaMemory& answers,
                           int error) {
  const Outcome outcome{fd, command, answers, error};
  UROCE_REQUIRE(IsKnownErrno(error));
  RequireMemory(outcome);
  RequireFound(outcome);
  if (!outcome.is_done()) return;
  UROCE_REQUIRE(command.header.in <= command.body.size() + command.missing_bytes);
  switch (command.header.cmd) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return Create(outcome);
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return Destroy(outcome);
    case RDMA_USER_CM_CMD_GET_EVENT:
      return TakeEvent(outcome);
    case RDMA_USER_CM_CMD_ACCEPT:
      return Accept(outcome);
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return Join(outcome);
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return Leave(outcome);
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return Migrate(outcome);
    case RDMA_USER_CM_CMD_LISTEN:
      Find(command.As<rdma_ucm_listen>().id, fd).listens = true;
      return;
    case RDMA_USER_CM_CMD_BIND_IP:
      Find(command.As<rdma_ucm_bind_ip>().id, fd);
      return;
    case RDMA_USER_CM_CMD_RESOLVE_IP:
      Find(command.As<rdma_ucm_resolve_ip>().id, fd);
      return;
    case RDMA_USER_CM_CMD_CONNECT:
      Find(command.As<rdma_ucm_connect>().id, fd);
      return;
    case RDMA_USER_CM_CMD_SET_OPTION:
      Find(command.As<rdma_ucm_set_option>().id, fd);
      return;
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
    case RDMA_USER_CM_CMD_QUERY:
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      Find(command.As<rdma_ucm_query>().id, fd);
      return RequireAnswer(outcome);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
    case RDMA_USER_CM_CMD_REJECT:
    case RDMA_USER_CM_CMD_DISCONNECT:
    case RDMA_USER_CM_CMD_NOTIFY:
    case RDMA_USER_CM_CMD_BIND:
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      Find(command.As<uint32_t>(), fd);  // the id is first
      return;
    default:
      UROCE_REQUIRE(false && "a command that there is not");
  }
}

int UcmaLedger::LookUp(uint32_t number, int fd) const {
  const auto found = ids_.find(number);
  if (found == ids_.end()) return ENOENT;
  return found->second.fd == fd ? 0 : EINVAL;
}

// The result of these commands depends on the id alone, once they are whole and fit.
void UcmaLedger::RequireFound(const Outcome& outcome) const {
  const UcmaCommand& command = outcome.command;
  const auto query = command.As<rdma_ucm_query>();
  const bool is_whole = command.cut_bytes == 0 && command.header.in >= sizeof query &&
                        command.header.in <= command.body.size() + command.missing_bytes;
  const size_t room = std::min<size_t>(kLongestAnswer, command.header.out);
  if (!is_whole || !outcome.answers.Contains(ResponseOf(command), room)) return;
  const int error = outcome.error;
  switch (command.header.cmd) {
    case RDMA_USER_CM_CMD_DESTROY_ID:
      UROCE_REQUIRE(error == (room < 4 ? ENOSPC : LookUp(query.id, outcome.fd)));
      return;
    case RDMA_USER_CM_CMD_LEAVE_MCAST: {
      const auto member = members_.find(query.id);
      const int found = member == members_.end() ? ENOENT : LookUp(member->second.id, outcome.fd);
      UROCE_REQUIRE(error == (room < 4 ? ENOSPC : found));
      return;
    }
    case RDMA_USER_CM_CMD_QUERY: {
      const int found = LookUp(query.id, outcome.fd);
      const int expected = query.option > RDMA_USER_CM_QUERY_GID ? ENOSYS : 0;
      UROCE_REQUIRE(error == (found != 0 ? found : expected) || (found == 0 && error == ENOSPC));
      return;
    }
    default:
      return;
  }
}

// An EFAULT needs a cause, and only the answer is written.
void UcmaLedger::RequireMemory(const Outcome& outcome) const {
  const uint64_t response = ResponseOf(outcome.command);
  const size_t bytes = std::min<size_t>(kLongestAnswer, outcome.command.header.out);
  const bool may_write = outcome.error == 0 || outcome.error == EFAULT;
  UROCE_REQUIRE(outcome.answers.IsClearBut(response, may_write ? bytes : 0));
  if (outcome.error != EFAULT || outcome.command.header.cmd == RDMA_USER_CM_CMD_SET_OPTION) return;
  UROCE_REQUIRE(response != 0 || outcome.command.body.size() >= sizeof response);
  UROCE_REQUIRE(!outcome.answers.Contains(response, bytes));
}

void UcmaLedger::RequireAnswer(const Outcome& outcome) const {
  if (outcome.command.header.cmd == RDMA_USER_CM_CMD_INIT_QP_ATTR) {
    const auto attributes = outcome.Read<ib_uverbs_qp_attr>();
    UROCE_REQUIRE(attributes.qp_attr_mask != 0);
    UROCE_REQUIRE(attributes.timeout < 32);
    UROCE_REQUIRE(attributes.rq_psn >> 24 == 0 && attributes.sq_psn >> 24 == 0);
    UROCE_REQUIRE(attributes.retry_cnt < 8 && attributes.rnr_retry < 8);
    return;
  }
  if (outcome.command.header.cmd == RDMA_USER_CM_CMD_QUERY_ROUTE) {
    UROCE_REQUIRE(outcome.Read<rdma_ucm_query_route_resp>().num_paths <= 1);
    return;
  }
  if (outcome.command.As<rdma_ucm_query>().option == RDMA_USER_CM_QUERY_PATH) {
    const auto answer = outcome.Read<PathAnswer>();
    UROCE_REQUIRE(answer.paths <= 1);
    if (outcome.command.header.out < sizeof answer || answer.paths == 0) return;
    for (const size_t at : {54, 55, 56}) {  // selectors of MTU, rate and packet life time
      UROCE_REQUIRE(reinterpret_cast<const uint8_t*>(answer.path.path_rec)[at] >> 6 == 2);
    }
    return;
  }
  const auto answer = outcome.Read<rdma_ucm_query_addr_resp>();
  const auto is_size = [](size_t bytes) {
    return bytes == 0 || bytes == AddressBytes(AF_INET) || bytes == AddressBytes(AF_INET6) ||
           bytes == AddressBytes(kFamilyIb);
  };
  UROCE_REQUIRE(is_size(answer.src_size) && is_size(answer.dst_size));
}

void UcmaLedger::Create(const Outcome& outcome) {
  const uint32_t number = outcome.Read<rdma_ucm_create_id_resp>().id;
  const auto uid = outcome.command.As<rdma_ucm_create_id>().uid;
  UROCE_REQUIRE(ids_.insert({number, {.fd = outcome.fd, .uid = uid}}).second);
}

void UcmaLedger::Destroy(const Outcome& outcome) {
  const uint32_t number = outcome.command.As<rdma_ucm_destroy_id>().id;
  const KnownId id = Find(number, outcome.fd);
  Erase(number);
  if (outcome.error != 0 || !id.events) return;
  UROCE_REQUIRE(outcome.Read<rdma_ucm_destroy_id_resp>().events_reported == *id.events);
}

void UcmaLedger::Erase(uint32_t number) {
  ids_.erase(number);
  std::erase_if(members_, [&](const auto& member) { return member.second.id == number; });
}

void UcmaLedger::OnClose(int fd) {
  for (auto next = ids_.begin(); next != ids_.end();) {
    const auto [number, id] = *next++;
    if (id.fd == fd) Erase(number);
  }
}

void UcmaLedger::Accept(const Outcome& outcome) {
  const auto accept = outcome.command.As<rdma_ucm_accept>();
  KnownId& id = Find(accept.id, outcome.fd);
  if (accept.conn_param.valid != 0) id.uid = accept.uid;
}

void UcmaLedger::Join(const Outcome& outcome) {
  const bool is_ip = outcome.command.header.cmd == RDMA_USER_CM_CMD_JOIN_IP_MCAST;
  const auto by_ip = outcome.command.As<rdma_ucm_join_ip_mcast>();
  const uint32_t id = is_ip ? by_ip.id : outcome.command.As<rdma_ucm_join_mcast>().id;
  Find(id, outcome.fd);
  const uint32_t number = outcome.Read<rdma_ucm_create_id_resp>().id;
  UROCE_REQUIRE(members_.insert({number, {.id = id, .uid = by_ip.uid}}).second);
}

void UcmaLedger::Leave(const Outcome& outcome) {
  const auto found = members_.find(outcome.command.As<rdma_ucm_destroy_id>().id);
  UROCE_REQUIRE(found != members_.end());
  const KnownMember member = found->second;
  Find(member.id, outcome.fd);
  members_.erase(found);
  if (outcome.error != 0) return;
  UROCE_REQUIRE(outcome.Read<rdma_ucm_destroy_id_resp>().events_reported == member.events);
}

void UcmaLedger::Migrate(const Outcome& outcome) {
  const auto command = outcome.command.As<rdma_ucm_migrate_id>();
  KnownId& id = Find(command.id, static_cast<int>(command.fd));
  id.fd = outcome.fd;
  if (outcome.error != 0 || !id.events) return;
  UROCE_REQUIRE(outcome.Read<rdma_ucm_migrate_resp>().events_reported == *id.events);
}

void UcmaLedger::TakeEvent(const Outcome& outcome) {
  const auto event = outcome.Read<rdma_ucm_event_resp>();
  UROCE_REQUIRE(IsKnownEvent(event.event));
  if (event.event == static_cast<uint32_t>(UserEvent::kConnectRequest)) {
    return TakeRequest(outcome.fd, event);
  }
  uint32_t number = event.id;
  const bool is_join = event.event == static_cast<uint32_t>(UserEvent::kMulticastJoin);
  if (is_join) {
    const auto member = members_.find(event.id);
    UROCE_REQUIRE(member != members_.end());
    UROCE_REQUIRE(member->second.uid == event.uid);
    ++member->second.events;
    number = member->second.id;
  }
  KnownId& id = Find(number, outcome.fd);
  UROCE_REQUIRE(is_join || (id.uid == event.uid && id.uid != 0));
  if (id.events) ++*id.events;
}

// The event is for the listener, and names a new id.
void UcmaLedger::TakeRequest(int fd, const rdma_ucm_event_resp& event) {
  size_t listeners = 0;
  for (auto& [number, id] : ids_) {
    if (!id.listens || id.fd != fd || id.uid != event.uid) continue;
    ++listeners;
    id.events = event.uid == 0 || !id.events ? std::nullopt : std::optional(*id.events + 1);
  }
  UROCE_REQUIRE(listeners > 0);
  UROCE_REQUIRE(ids_.insert({event.id, {.fd = fd}}).second);
}

}  // namespace uroce::verbs::rdma_cm
