#include "verbs_provider/rdma_cm/commands.h"

#include <endian.h>
#include <infiniband/ib.h>
#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "verbs_provider/rdma_cm/newer_commands.h"
#include "verbs_provider/rdma_cm/user_memory.h"
#include "verbs_provider/rdma_cm/uverbs_structs.h"

namespace uroce::verbs::rdma_cm {
namespace {

constexpr uint32_t kPort = 1;
constexpr uint16_t kPkey = 0xffff;
constexpr uint32_t kDeviceIndex = 900'000'900;  // of the virtual kernel's netlink answers
constexpr uint32_t kMaxOptionBytes = 65'536;
constexpr uint32_t kCommunicationEstablished = 4;  // IB_EVENT_COMM_EST
constexpr uint32_t kPathMigrated = 6;              // IB_EVENT_PATH_MIG

// One command: its channel, its input, and the room for its answer.
class Call {
 public:
  Call(Agent& rdma_cm, Channel& on, const Channel* named, uint64_t input,
       const rdma_ucm_cmd_hdr& header)
      : agent(rdma_cm),
        channel(on),
        other(named),
        input_(input),
        input_bytes_(header.in),
        output_bytes_(header.out) {}

  Agent& agent;
  Channel& channel;
  const Channel* const other;

  // Reads the command and nothing behind it; members that a shorter command of an earlier release
  // lacks are zero.
  template <class Command>
  int Read(Command& command, size_t least = sizeof(Command)) const {
    if (input_bytes_ < least) return EINVAL;
    std::memset(static_cast<void*>(&command), 0, sizeof command);
    return CopyFromUser(&command, input_, std::min(sizeof command, input_bytes_)) ? 0 : EFAULT;
  }
  template <class Command>
  int ReadFor(Command& command, Id*& id, size_t least = sizeof(Command)) const {
    if (const int error = Read(command, least)) return error;
    return agent.Find(channel, command.id, id);
  }
  bool HasRoom(size_t bytes) const { return output_bytes_ >= bytes; }

  // Writes the answer, or as much of it as the caller's release knows.
  template <class Answer>
  int Write(uint64_t address, const Answer& answer) const {
    return CopyToUser(address, &answer, std::min(sizeof answer, output_bytes_)) ? 0 : EFAULT;
  }

 private:
  const uint64_t input_;  // address in the application
  const size_t input_bytes_;
  const size_t output_bytes_;
};

template <class Storage>
std::span<const uint8_t> BytesOf(const Storage& storage) {
  return {reinterpret_cast<const uint8_t*>(&storage), sizeof storage};
}

// Reads an address whose size the command states as well.
template <class Storage>
int ReadAddress(const Storage& storage, size_t bytes, SocketAddress& address) {
  const auto parsed = ParseAddress(BytesOf(storage));
  if (!parsed || bytes != AddressBytes(parsed->family)) return EINVAL;
  address = *parsed;
  return 0;
}

int CreateId(Call& call) {
  rdma_ucm_create_id command;
  rdma_ucm_create_id_resp answer = {};
  if (!call.HasRoom(sizeof answer)) return ENOSPC;
  if (const int error = call.Read(command)) return error;
  if (const int error =
          call.agent.CreateId(call.channel, command.uid, command.ps, command.qp_type, answer.id)) {
    return error;
  }
  const int error = call.Write(command.response, answer);
  uint32_t events_reported;
  if (error != 0) (void)call.agent.DestroyId(call.channel, answer.id, events_reported);
  return error;
}

int DestroyId(Call& call) {
  rdma_ucm_destroy_id command;
  rdma_ucm_destroy_id_resp answer = {};
  if (!call.HasRoom(sizeof answer)) return ENOSPC;
  if (const int error = call.Read(command)) return error;
  if (const int error = call.agent.DestroyId(call.channel, command.id, answer.events_reported)) {
    return error;
  }
  return call.Write(command.response, answer);
}

int BindIp(Call& call) {
  rdma_ucm_bind_ip command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  const auto address = ParseAddress(BytesOf(command.addr));
  if (!address || !address->IsIp()) return EAFNOSUPPORT;
  return call.agent.Bind(*id, *address);
}

int Bind(Call& call) {
  rdma_ucm_bind command;
  SocketAddress address;
  Id* id;
  if (const int error = call.Read(command)) return error;
  if (command.reserved != 0) return EINVAL;
  if (const int error = ReadAddress(command.addr, command.addr_size, address)) return error;
  if (const int error = call.agent.Find(call.channel, command.id, id)) return error;
  return call.agent.Bind(*id, address);
}

int ResolveIp(Call& call) {
  rdma_ucm_resolve_ip command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  const auto source = ParseAddress(BytesOf(command.src_addr));
  const auto destination = ParseAddress(BytesOf(command.dst_addr));
  if (command.src_addr.sin6_family != AF_UNSPEC && !source) return EINVAL;
  if (!destination) return EINVAL;
  return call.agent.ResolveAddress(*id, source.value_or(SocketAddress{}), *destination,
                                   transport::Milliseconds(command.timeout_ms));
}

int ResolveAddress(Call& call) {
  rdma_ucm_resolve_addr command;
  SocketAddress source;
  SocketAddress destination;
  Id* id;
  if (const int error = call.Read(command)) return error;
  if (command.reserved != 0) return EINVAL;
  if (command.src_size != 0) {
    if (const int error = ReadAddress(command.src_addr, command.src_size, source)) return error;
  }
  if (const int error = ReadAddress(command.dst_addr, command.dst_size, destination)) return error;
  if (const int error = call.agent.Find(call.channel, command.id, id)) return error;
  return call.agent.ResolveAddress(*id, source, destination,
                                   transport::Milliseconds(command.timeout_ms));
}

int ResolveRoute(Call& call) {
  rdma_ucm_resolve_route command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  return call.agent.ResolveRoute(*id);
}

// Fills the members about the device, if the id has one.
template <class Answer>
void FillDevice(const Call& call, const Id& id, Answer& answer) {
  if (!id.has_device) return;
  answer.node_guid = htobe64(call.agent.node_guid());
  answer.ibdev_index = kDeviceIndex;
  answer.port_num = kPort;
}

int QueryRoute(Call& call) {
  rdma_ucm_query command;
  Id* id;
  if (!call.HasRoom(offsetof(rdma_ucm_query_route_resp, ibdev_index))) return ENOSPC;
  // The command is a QUERY without its option; both have the id at the same place.
  if (const int error = call.ReadFor(command, id, offsetof(rdma_ucm_query, option))) return error;
  rdma_ucm_query_route_resp answer = {};
  if (id->address().IsIp()) {
    EmitAddress(id->address(), reinterpret_cast<uint8_t*>(&answer.src_addr));
    EmitAddress(id->peer, reinterpret_cast<uint8_t*>(&answer.dst_addr));
  }
  FillDevice(call, *id, answer);
  if (id->has_route) {
    answer.num_paths = 1;
    answer.ib_route[0] = ToUser(*id->path);
  } else if (id->path) {
    const ib_user_path_rec path = ToUser(*id->path);
    std::copy(std::begin(path.dgid), std::end(path.dgid), answer.ib_route[0].dgid);
    std::copy(std::begin(path.sgid), std::end(path.sgid), answer.ib_route[0].sgid);
    answer.ib_route[0].pkey = path.pkey;
  }
  return call.Write(command.response, answer);
}

int QueryAddress(const Call& call, const Id& id, uint64_t response) {
  if (!call.HasRoom(offsetof(rdma_ucm_query_addr_resp, ibdev_index))) return ENOSPC;
  rdma_ucm_query_addr_resp answer = {};
  answer.src_size = static_cast<uint16_t>(
      EmitAddress(id.address(), reinterpret_cast<uint8_t*>(&answer.src_addr)));
  answer.dst_size =
      static_cast<uint16_t>(EmitAddress(id.peer, reinterpret_cast<uint8_t*>(&answer.dst_addr)));
  FillDevice(call, id, answer);
  if (id.has_device) answer.pkey = htobe16(kPkey);
  return call.Write(response, answer);
}

// The address in the form of AF_IB: rdma_read_gids and rdma_get_service_id of Linux.
SocketAddress AsIb(const Id& id, const SocketAddress& address, const transport::Gid& gid) {
  if (address.family == kFamilyIb) return address;
  SocketAddress ib = AnyAddress(kFamilyIb);
  ib.pkey = id.has_device ? kPkey : 0;
  ib.gid = gid;
  ib.service_id = transport::cm::ServiceIdOf(id.space, address.port).value;
  return ib;
}

int QueryGid(const Call& call, const Id& id, uint64_t response) {
  if (!call.HasRoom(offsetof(rdma_ucm_query_addr_resp, ibdev_index))) return ENOSPC;
  rdma_ucm_query_addr_resp answer = {};
  FillDevice(call, id, answer);
  if (id.has_device) answer.pkey = htobe16(kPkey);
  const transport::Gid source = id.has_device ? id.own_gid() : transport::Gid{};
  const transport::Gid destination = id.path ? id.path->address.destination_gid : transport::Gid{};
  answer.src_size = static_cast<uint16_t>(
      EmitAddress(AsIb(id, id.address(), source), reinterpret_cast<uint8_t*>(&answer.src_addr)));
  answer.dst_size = static_cast<uint16_t>(
      EmitAddress(AsIb(id, id.peer, destination), reinterpret_cast<uint8_t*>(&answer.dst_addr)));
  return call.Write(response, answer);
}

int QueryPath(const Call& call, const Id& id, uint64_t response) {
  struct {
    uint32_t path_count;
    uint32_t reserved;
    ib_path_rec_data path;
  } answer = {};
  constexpr size_t kHeaderBytes = offsetof(rdma_ucm_query_path_resp, path_data);
  static_assert(sizeof answer == kHeaderBytes + sizeof answer.path);
  if (!call.HasRoom(kHeaderBytes)) return ENOSPC;
  size_t bytes = kHeaderBytes;
  if (id.has_route) {
    answer.path_count = 1;
    answer.path = ToPathRecord(*id.path);
    if (call.HasRoom(sizeof answer)) bytes = sizeof answer;
  }
  return CopyToUser(response, &answer, bytes) ? 0 : EFAULT;
}

int Query(Call& call) {
  rdma_ucm_query command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  switch (command.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return QueryAddress(call, *id, command.response);
    case RDMA_USER_CM_QUERY_PATH:
      return QueryPath(call, *id, command.response);
    case RDMA_USER_CM_QUERY_GID:
      return QueryGid(call, *id, command.response);
    default:
      return ENOSYS;
  }
}

ConnectionParameters ParametersOf(const Id& id, const rdma_ucm_conn_param& user) {
  return {.qpn = {user.qp_num & transport::kMaxQpn},
          .qkey = id.address().family == kFamilyIb ? user.qkey : 0,
          .responder_resources = user.responder_resources,
          .initiator_depth = user.initiator_depth,
          .flow_control = user.flow_control != 0,
          .retry_count = user.retry_count,
          .rnr_retry_count = user.rnr_retry_count,
          .srq = user.srq != 0,
          .private_data = {user.private_data, user.private_data_len}};
}

int Connect(Call& call) {
  rdma_ucm_connect command;
  Id* id;
  if (const int error = call.Read(command, offsetof(rdma_ucm_connect, ece))) return error;
  if (command.conn_param.valid == 0) return EINVAL;
  if (const int error = call.agent.Find(call.channel, command.id, id)) return error;
  return call.agent.Connect(*id, ParametersOf(*id, command.conn_param));
}

int Listen(Call& call) {
  rdma_ucm_listen command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  return call.agent.Listen(*id, command.backlog);
}

int Accept(Call& call) {
  rdma_ucm_accept command;
  Id* id;
  if (const int error = call.ReadFor(command, id, offsetof(rdma_ucm_accept, ece))) return error;
  std::optional<ConnectionParameters> parameters;
  if (command.conn_param.valid != 0) parameters = ParametersOf(*id, command.conn_param);
  return call.agent.Accept(*id, command.uid, parameters);
}

int Reject(Call& call) {
  rdma_ucm_reject command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  return call.agent.Reject(*id, command.reason, {command.private_data, command.private_data_len});
}

int Disconnect(Call& call) {
  rdma_ucm_disconnect command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  return call.agent.Disconnect(*id);
}

int InitQpAttributes(Call& call) {
  rdma_ucm_init_qp_attr command;
  Id* id;
  if (!call.HasRoom(sizeof(ib_uverbs_qp_attr))) return ENOSPC;
  if (const int error = call.ReadFor(command, id)) return error;
  if (command.qp_state > static_cast<uint32_t>(transport::QpState::kError)) return EINVAL;
  transport::QpAttributes attributes;
  uint32_t mask = 0;
  const auto state = static_cast<transport::QpState>(command.qp_state);
  if (const int error = call.agent.InitQpAttributes(*id, state, attributes, mask)) return error;
  return call.Write(command.response, ToUser(attributes, mask));
}

int GetEvent(Call& call) {
  rdma_ucm_get_event command;
  if (!call.HasRoom(offsetof(rdma_ucm_event_resp, reserved))) return ENOSPC;
  if (const int error = call.Read(command)) return error;
  return call.agent.GetEvent(call.channel, [&](const rdma_ucm_event_resp& event) {
    return call.Write(command.response, event) == 0;
  });
}

int SetIdOption(Agent& agent, Id& id, uint32_t option, std::span<const uint8_t> value) {
  int number = 0;
  const bool is_byte = option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (option > RDMA_OPTION_ID_ACK_TIMEOUT) return ENOSYS;
  if (value.size() != (is_byte ? 1 : sizeof number)) return EINVAL;
  std::memcpy(&number, value.data(), value.size());
  switch (option) {
    case RDMA_OPTION_ID_TOS:
      id.type_of_service = static_cast<uint8_t>(number);
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      return agent.SetReuseAddress(id, number != 0);
    case RDMA_OPTION_ID_AFONLY:
      return agent.SetAfOnly(id, number != 0);
    default:
      return agent.SetAckTimeout(id, static_cast<uint8_t>(number));
  }
}

// A path that the application has found by itself counts as a resolved route. RoCE needs nothing of
// it that the addresses do not tell.
int SetIbPath(Agent& agent, Id& id, std::span<const uint8_t> value) {
  if (value.size() % sizeof(ib_path_rec_data) != 0) return EINVAL;
  for (size_t at = 0; at < value.size(); at += sizeof(ib_path_rec_data)) {
    uint32_t flags;
    std::memcpy(&flags, &value[at], sizeof flags);
    if (flags == (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL)) {
      return agent.ResolveRoute(id);
    }
  }
  return EINVAL;
}

int SetOption(Call& call) {
  rdma_ucm_set_option command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  if (command.optlen > kMaxOptionBytes) return EINVAL;
  std::vector<uint8_t> value(command.optlen);
  if (!CopyFromUser(value.data(), command.optval, value.size())) return EFAULT;
  if (command.level == RDMA_OPTION_ID) {
    return SetIdOption(call.agent, *id, command.optname, value);
  }
  if (command.level == RDMA_OPTION_IB && command.optname == RDMA_OPTION_IB_PATH) {
    return SetIbPath(call.agent, *id, value);
  }
  return ENOSYS;
}

int Notify(Call& call) {
  rdma_ucm_notify command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  if (command.event == kCommunicationEstablished) return call.agent.CommunicationEstablished(*id);
  return command.event == kPathMigrated ? call.agent.PathMigrated(*id) : EINVAL;
}

int Join(Call& call, uint64_t response, uint64_t uid, uint32_t number, const SocketAddress& group) {
  rdma_ucm_create_id_resp answer = {};
  Id* id;
  if (const int error = call.agent.Find(call.channel, number, id)) return error;
  if (const int error = call.agent.Join(*id, uid, group, answer.id)) return error;
  const int error = call.Write(response, answer);
  uint32_t events_reported;
  if (error != 0) (void)call.agent.Leave(call.channel, answer.id, events_reported);
  return error;
}

int JoinIpMulticast(Call& call) {
  rdma_ucm_join_ip_mcast command;
  if (!call.HasRoom(sizeof(rdma_ucm_create_id_resp))) return ENOSPC;
  if (const int error = call.Read(command)) return error;
  const auto group = ParseAddress(BytesOf(command.addr));
  if (!group) return EINVAL;
  return Join(call, command.response, command.uid, command.id, *group);
}

int JoinMulticast(Call& call) {
  rdma_ucm_join_mcast command;
  SocketAddress group;
  if (!call.HasRoom(sizeof(rdma_ucm_create_id_resp))) return ENOSPC;
  if (const int error = call.Read(command)) return error;
  if (const int error = ReadAddress(command.addr, command.addr_size, group)) return error;
  if (command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
  return Join(call, command.response, command.uid, command.id, group);
}

int LeaveMulticast(Call& call) {
  rdma_ucm_destroy_id command;
  rdma_ucm_destroy_id_resp answer = {};
  if (!call.HasRoom(sizeof answer)) return ENOSPC;
  if (const int error = call.Read(command)) return error;
  if (const int error = call.agent.Leave(call.channel, command.id, answer.events_reported)) {
    return error;
  }
  return call.Write(command.response, answer);
}

int MigrateId(Call& call) {
  rdma_ucm_migrate_id command;
  rdma_ucm_migrate_resp answer = {};
  if (!call.HasRoom(sizeof answer)) return ENOSPC;
  if (const int error = call.Read(command)) return error;
  if (const int error =
          call.agent.MigrateId(call.channel, call.other, command.id, answer.events_reported)) {
    return error;
  }
  return call.Write(command.response, answer);
}

// Services are found by a subnet administrator, which RoCE does not have: as Linux says.
int ResolveIbService(Call& call) {
  ResolveIbServiceCommand command;
  Id* id;
  if (const int error = call.ReadFor(command, id)) return error;
  return id->has_device && id->state == IdState::kAddressBound ? EOPNOTSUPP : EINVAL;
}

// rdma_resolve_addrinfo and rdma_write_cm_event: the event comes back by GET_EVENT.
int WriteCmEvent(Call& call) {
  WriteCmEventCommand command;
  Id* id;
  if (const int error = call.Read(command)) return error;
  if (command.event != kEventUser && command.event != kEventInternal) return EINVAL;
  if (const int error = call.agent.Find(call.channel, command.id, id)) return error;
  rdma_ucm_event_resp event = {};
  event.event = command.event;
  event.status = command.status;
  std::memcpy(&event.param, &command.argument, sizeof command.argument);
  call.agent.WriteEvent(*id, event);
  return 0;
}

using Command = int (*)(Call&);
// Indexed by enum RDMA_USER_CM_CMD.
constexpr Command kCommands[] = {CreateId,
                                 DestroyId,
                                 BindIp,
                                 ResolveIp,
                                 ResolveRoute,
                                 QueryRoute,
                                 Connect,
                                 Listen,
                                 Accept,
                                 Reject,
                                 Disconnect,
                                 InitQpAttributes,
                                 GetEvent,
                                 /*GET_OPTION*/ nullptr,
                                 SetOption,
                                 Notify,
                                 JoinIpMulticast,
                                 LeaveMulticast,
                                 MigrateId,
                                 Query,
                                 Bind,
                                 ResolveAddress,
                                 JoinMulticast,
                                 ResolveIbService,
                                 WriteCmEvent};
static_assert(std::size(kCommands) == kWriteCmEvent + 1);

}  // namespace

int RunCommand(Agent& agent, Channel& channel, const Channel* other, uint64_t address,
               size_t bytes) {
  rdma_ucm_cmd_hdr header;
  if (bytes < sizeof header) return EINVAL;
  if (!CopyFromUser(&header, address, sizeof header)) return EFAULT;
  if (header.cmd >= std::size(kCommands) || header.in + sizeof header > bytes) return EINVAL;
  if (kCommands[header.cmd] == nullptr) return ENOSYS;
  Call call(agent, channel, other, address + sizeof header, header);
  return kCommands[header.cmd](call);
}

}  // namespace uroce::verbs::rdma_cm
