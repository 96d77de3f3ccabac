#include "tests/fuzz/ucma_command.h"

#include <netinet/in.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "verbs_provider/rdma_cm/socket_address.h"

namespace uroce::verbs::rdma_cm {
namespace {

using transport::Gid;
using transport::Record;

constexpr uint64_t kBadAddress = 8;

template <class Struct>
std::vector<uint8_t> BytesOf(const Struct& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  return {bytes, bytes + sizeof value};
}

Gid MakeGid(uint8_t choice, sa_family_t family) {
  const uint8_t number = 1 + choice % 2;
  const bool is_ipv4 = family == AF_INET;
  switch (choice / 2 % 8) {
    case 0:
      return is_ipv4 ? Gid::FromIpv4({0, 0, 0, 0}) : Gid{};
    case 1:
      return is_ipv4 ? Gid::FromIpv4({127, 0, 0, number})
                     : Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
    case 2:  // of the host, or of a stranger
      return is_ipv4 ? Gid::FromIpv4({10, 9, 9, number}) : Gid::LinkLocal({2, 0, 0, 0, 0, number});
    case 3:  // a group
      return is_ipv4 ? Gid::FromIpv4({239, 0, 0, number})
                     : Gid{{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
    default:
      if (is_ipv4 || choice >= 224) return Gid::FromIpv4({10, 0, 0, number});
      return {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
  }
}

SocketAddress MakeAddress(Record& record) {
  static constexpr uint16_t kPorts[] = {0, 7'471, 7'472, 7'471};
  static constexpr uint64_t kSpaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, 0};
  const uint8_t kind = record.Byte();
  static constexpr sa_family_t kFamilies[] = {AF_INET,  AF_INET, AF_INET,  AF_INET,
                                              AF_INET6, AF_INET, AF_INET6, kFamilyIb};
  SocketAddress address;
  address.family = kFamilies[kind & 7];
  address.gid = MakeGid(record.Byte(), address.family);
  address.port = kind >= 224 ? 80 : kPorts[kind >> 3 & 3];
  address.scope_id = kind >> 7;
  address.pkey = 0xffff;
  address.service_id = kSpaces[kind >> 5 & 3] << 16 | address.port;
  address.service_mask = kind >= 128 ? UINT64_MAX : UINT64_MAX << 16;
  if (kind % 64 == 63) address.service_mask = 0;
  return address;
}

// Returns the bytes of the address. A few addresses have an unknown family.
template <class Storage>
uint16_t PutAddress(Record& record, Storage& storage) {
  const SocketAddress address = MakeAddress(record);
  std::array<uint8_t, kStorageBytes> bytes{};
  const size_t size = EmitAddress(address, bytes.data());
  if (address.scope_id == 1 && address.port == 80) bytes[0] ^= address.gid.bytes[15];
  std::memcpy(&storage, bytes.data(), std::min(sizeof storage, bytes.size()));
  return static_cast<uint16_t>(size);
}

rdma_ucm_conn_param MakeParameters(Record& record) {
  static constexpr uint8_t kLengths[] = {0, 10, 56, 57, 92, 148, 196, 255};
  rdma_ucm_conn_param parameters{};
  parameters.qp_num = record.Byte() % 4 + 0x100;
  const uint8_t bits = record.Byte();
  parameters.valid = bits < 192 ? 1 : 0;
  parameters.private_data_len = bits % 2 == 0 ? 0 : kLengths[bits >> 1 & 7];
  std::memset(parameters.private_data, bits, sizeof parameters.private_data);
  parameters.srq = bits & 1;
  parameters.responder_resources = record.Byte();
  parameters.initiator_depth = parameters.responder_resources;
  parameters.flow_control = bits >> 1 & 1;
  parameters.retry_count = parameters.rnr_retry_count = record.Byte();
  parameters.qkey = parameters.retry_count % 4;
  return parameters;
}

class Builder {
 public:
  Builder(Record& record, const UcmaSurroundings& around) : record_(record), around_(around) {}

  std::vector<uint8_t> Body(uint32_t number);

 private:
  uint32_t Id() { return around_.id(record_.Byte()); }

  std::vector<uint8_t> CreateId();
  std::vector<uint8_t> Addresses(uint32_t number);
  std::vector<uint8_t> Connections(uint32_t number);
  std::vector<uint8_t> Option();

  template <class Join>
  std::vector<uint8_t> JoinGroup() {
    Join command{};
    command.id = Id();
    const uint16_t bytes = PutAddress(record_, command.addr);
    if constexpr (requires { command.join_flags; }) {
      command.addr_size = bytes;
      command.join_flags = record_.Below(64) == 63 ? 2 : 0;
    }
    return BytesOf(command);
  }

  Record& record_;
  const UcmaSurroundings& around_;
};

std::vector<uint8_t> Builder::CreateId() {
  static constexpr uint16_t kSpaces[] = {RDMA_PS_TCP, RDMA_PS_UDP,   RDMA_PS_IB,  RDMA_PS_TCP,
                                         RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_TCP, 7};
  static constexpr uint8_t kQpTypes[] = {2, 3, 4, 9, 10, 0, 255, 2};
  rdma_ucm_create_id command{};
  command.ps = record_.Pick(kSpaces);
  command.qp_type = record_.Pick(kQpTypes);
  return BytesOf(command);
}

std::vector<uint8_t> Builder::Addresses(uint32_t number) {
  const uint32_t id = Id();
  switch (number) {
    case RDMA_USER_CM_CMD_BIND_IP: {
      rdma_ucm_bind_ip command{.response = 0, .addr = {}, .id = id};
      PutAddress(record_, command.addr);
      return BytesOf(command);
    }
    case RDMA_USER_CM_CMD_BIND: {
      rdma_ucm_bind command{};
      command.id = id;
      command.addr_size = PutAddress(record_, command.addr);
      if (record_.Byte() == 255) ++command.addr_size;
      return BytesOf(command);
    }
    case RDMA_USER_CM_CMD_RESOLVE_IP: {
      rdma_ucm_resolve_ip command{};
      command.id = id;
      PutAddress(record_, command.dst_addr);
      if (record_.Flag()) PutAddress(record_, command.src_addr);
      return BytesOf(command);
    }
    default: {
      rdma_ucm_resolve_addr command{};
      command.id = id;
      command.dst_size = PutAddress(record_, command.dst_addr);
      if (record_.Flag()) command.src_size = PutAddress(record_, command.src_addr);
      if (record_.Byte() == 255) command.reserved = 1;
      return BytesOf(command);
    }
  }
}

std::vector<uint8_t> Builder::Connections(uint32_t number) {
  const uint32_t id = Id();
  switch (number) {
    case RDMA_USER_CM_CMD_CONNECT: {
      rdma_ucm_connect command{};
      command.id = id;
      command.conn_param = MakeParameters(record_);
      return BytesOf(command);
    }
    case RDMA_USER_CM_CMD_ACCEPT: {
      rdma_ucm_accept command{};
      command.id = id;
      command.conn_param = MakeParameters(record_);
      return BytesOf(command);
    }
    case RDMA_USER_CM_CMD_REJECT: {
      static constexpr uint8_t kReasons[] = {0, 28, 35, 8};
      rdma_ucm_reject command{};
      command.id = id;
      command.reason = record_.Pick(kReasons);
      command.private_data_len = record_.Byte();
      return BytesOf(command);
    }
    case RDMA_USER_CM_CMD_LISTEN:
      return BytesOf(rdma_ucm_listen{id, record_.Below(4)});
    case RDMA_USER_CM_CMD_NOTIFY:
      return BytesOf(rdma_ucm_notify{id, 4 + record_.Below(4)});
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      return BytesOf(rdma_ucm_init_qp_attr{.response = 0, .id = id, .qp_state = record_.Below(8)});
    default:
      return BytesOf(rdma_ucm_query{.response = 0, .id = id, .option = record_.Below(4)});
  }
}

std::vector<uint8_t> Builder::Option() {
  static constexpr uint32_t kLengths[] = {4, 1, 4, 1, 0, 72, 144, 65'537, 65'536, 73, 4, 1};
  static constexpr uint32_t kLevels[] = {RDMA_OPTION_ID, RDMA_OPTION_ID, RDMA_OPTION_ID,
                                         RDMA_OPTION_IB, RDMA_OPTION_IB, 2};
  rdma_ucm_set_option command{};
  command.id = Id();
  command.level = record_.Pick(kLevels);
  command.optname = record_.Below(5);
  command.optlen = record_.Pick(kLengths);
  const uint8_t value = record_.Byte();
  // The value ends at the end of the memory: numbers of all lengths, or paths.
  const std::span<uint8_t> memory = around_.options->bytes();
  std::fill(memory.begin(), memory.end(), value);
  if (command.level == RDMA_OPTION_IB && value != 0) {
    const uint32_t flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    std::memcpy(&memory[memory.size() - sizeof(ib_path_rec_data)], &flags, sizeof flags);
  }
  const bool fits = command.optlen <= memory.size();
  command.optval = fits ? around_.options->end() - command.optlen : around_.options->begin();
  if (record_.Byte() == 255) command.optval = kBadAddress;
  return BytesOf(command);
}

std::vector<uint8_t> Builder::Body(uint32_t number) {
  switch (number) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return CreateId();
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return BytesOf(rdma_ucm_destroy_id{.response = 0, .id = Id(), .reserved = 0});
    case RDMA_USER_CM_CMD_BIND_IP:
    case RDMA_USER_CM_CMD_BIND:
    case RDMA_USER_CM_CMD_RESOLVE_IP:
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      return Addresses(number);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return BytesOf(rdma_ucm_resolve_route{.id = Id(), .timeout_ms = 2'000});
    case RDMA_USER_CM_CMD_DISCONNECT:
      return BytesOf(rdma_ucm_disconnect{Id()});
    case RDMA_USER_CM_CMD_GET_EVENT:
      return BytesOf(rdma_ucm_get_event{});
    case RDMA_USER_CM_CMD_SET_OPTION:
      return Option();
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
      return JoinGroup<rdma_ucm_join_ip_mcast>();
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return JoinGroup<rdma_ucm_join_mcast>();
    case RDMA_USER_CM_CMD_LEAVE_MCAST: {
      const uint32_t member = around_.member(record_.Byte());
      return BytesOf(rdma_ucm_destroy_id{.response = 0, .id = member, .reserved = 0});
    }
    case RDMA_USER_CM_CMD_MIGRATE_ID: {
      const uint32_t id = Id();
      const int fd = around_.fd(record_.Byte());
      return BytesOf(rdma_ucm_migrate_id{.response = 0, .id = id, .fd = static_cast<uint32_t>(fd)});
    }
    default:
      return Connections(number);
  }
}

constexpr size_t kNone = SIZE_MAX;
// The offsets in a command of its answer's address and of the number by which events name an
// object.
struct Layout {
  size_t response = kNone;
  size_t uid = kNone;
  uint16_t answer_bytes = 0;
};

Layout LayoutOf(uint32_t number) {
  switch (number) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return {.response = 8, .uid = 0, .answer_bytes = sizeof(rdma_ucm_create_id_resp)};
    case RDMA_USER_CM_CMD_ACCEPT:
      return {.uid = 0};
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return {.response = 0, .uid = 8, .answer_bytes = sizeof(rdma_ucm_create_id_resp)};
    case RDMA_USER_CM_CMD_DESTROY_ID:
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return {.response = 0, .answer_bytes = sizeof(rdma_ucm_destroy_id_resp)};
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
      return {.response = 0, .answer_bytes = sizeof(rdma_ucm_query_route_resp)};
    case RDMA_USER_CM_CMD_QUERY:
      return {.response = 0, .answer_bytes = sizeof(rdma_ucm_query_addr_resp)};
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      return {.response = 0, .answer_bytes = sizeof(ib_uverbs_qp_attr)};
    case RDMA_USER_CM_CMD_GET_EVENT:
      return {.response = 0, .answer_bytes = sizeof(rdma_ucm_event_resp)};
    default:
      return {};
  }
}

void Put(std::vector<uint8_t>& body, size_t at, uint64_t value) {
  if (at == kNone || body.size() < at + sizeof value) return;
  std::memcpy(&body[at], &value, sizeof value);
}

// With a random pointer the answer could overwrite anything, through the application's own fault.
void PutPointers(UcmaCommand& command, const UcmaSurroundings& around, uint64_t response) {
  const Layout layout = LayoutOf(command.header.cmd);
  Put(command.body, layout.response, response);
  Put(command.body, layout.uid, around.new_uid());
}

// Gives one of three commands a length or a pointer that does not fit. Returns where the answer
// goes.
uint64_t Spoil(UcmaCommand& command, Record& record, const UcmaMemory& answers) {
  const uint8_t kind = record.Byte();
  const uint8_t by = record.Byte();
  if (kind < 172) return answers.begin();
  switch (kind % 11) {
    case 0:  // truncated
      command.body.resize(command.body.size() - by % (command.body.size() + 1));
      command.header.in = static_cast<uint16_t>(command.body.size());
      break;
    case 1:  // longer than was written
      command.header.in = static_cast<uint16_t>(command.header.in + (by << (by & 7)));
      break;
    case 2:  // overlong
      command.body.resize(command.body.size() + by, uint8_t{0xee});
      command.header.in = static_cast<uint16_t>(command.body.size());
      break;
    case 3:  // less than was written
      command.header.in = by;
      break;
    case 4:
      command.header.out = by;
      break;
    case 5:
      command.header.out = UINT16_MAX;
      break;
    case 6:
      return answers.end() - by;
    case 7:
      return by % 2 == 0 ? kBadAddress : answers.end();
    case 8:
      return by % 2 == 0 ? 0 : UINT64_MAX - by;
    case 9:  // less of the command is mapped than the header says
      command.missing_bytes = by;
      command.header.in = static_cast<uint16_t>(command.header.in + by);
      break;
    default:
      command.cut_bytes = by;
      break;
  }
  return answers.begin();
}

}  // namespace

std::vector<uint8_t> UcmaCommand::Bytes() const {
  std::vector<uint8_t> bytes = BytesOf(header);
  bytes.insert(bytes.end(), body.begin(), body.end());
  bytes.resize(bytes.size() - std::min(cut_bytes, bytes.size()));
  return bytes;
}

UcmaCommand MakeUcmaCommand(Record& record, const UcmaSurroundings& around) {
  UcmaCommand command;
  command.header.cmd = record.Below(kUcmaCommands);
  Record spoiling = record;
  record.Word();
  command.body = Builder(record, around).Body(command.header.cmd);
  command.header.in = static_cast<uint16_t>(command.body.size());
  command.header.out = LayoutOf(command.header.cmd).answer_bytes;
  const uint64_t response = Spoil(command, spoiling, *around.answers);
  PutPointers(command, around, response);
  return command;
}

UcmaCommand MakeRawUcmaCommand(Record& record, const UcmaSurroundings& around) {
  UcmaCommand command;
  const uint8_t number = record.Byte();
  command.header.cmd = number >= 128 ? number * 0x0101'0101u : number;
  command.header.in = record.Byte();
  command.header.out = static_cast<uint16_t>(record.Byte() << 2);
  const size_t size = record.Flag() ? command.header.in : record.Byte();
  for (size_t i = 0; i < size; ++i) command.body.push_back(i < 16 ? record.Byte() : uint8_t{0});
  PutPointers(command, around, around.answers->begin());
  if (command.header.cmd == RDMA_USER_CM_CMD_SET_OPTION) {
    Put(command.body, offsetof(rdma_ucm_set_option, optval), kBadAddress);
  }
  return command;
}

uint64_t ResponseOf(const UcmaCommand& command) {
  const Layout layout = LayoutOf(command.header.cmd);
  uint64_t response = 0;
  if (layout.response == kNone || command.body.size() < layout.response + sizeof response) return 0;
  std::memcpy(&response, &command.body[layout.response], sizeof response);
  return response;
}

}  // namespace uroce::verbs::rdma_cm
