// Malformed commands get the errors of ucma_write of Linux.
#include "verbs_provider/rdma_cm/commands.h"

#include <gtest/gtest.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "tests/verbs_provider/rdma_cm/rdma_cm_host.h"
#include "verbs_provider/rdma_cm/newer_commands.h"

namespace uroce::verbs::rdma_cm {
namespace {

struct Shape {
  uint32_t number;
  size_t least;   // bytes of the command
  size_t answer;  // bytes of room that the answer needs
};

constexpr Shape kShapes[] = {
    {RDMA_USER_CM_CMD_CREATE_ID, sizeof(rdma_ucm_create_id), sizeof(rdma_ucm_create_id_resp)},
    {RDMA_USER_CM_CMD_DESTROY_ID, sizeof(rdma_ucm_destroy_id), sizeof(rdma_ucm_destroy_id_resp)},
    {RDMA_USER_CM_CMD_BIND_IP, sizeof(rdma_ucm_bind_ip), 0},
    {RDMA_USER_CM_CMD_RESOLVE_IP, sizeof(rdma_ucm_resolve_ip), 0},
    {RDMA_USER_CM_CMD_RESOLVE_ROUTE, sizeof(rdma_ucm_resolve_route), 0},
    {RDMA_USER_CM_CMD_QUERY_ROUTE, offsetof(rdma_ucm_query, option),
     offsetof(rdma_ucm_query_route_resp, ibdev_index)},
    {RDMA_USER_CM_CMD_CONNECT, offsetof(rdma_ucm_connect, ece), 0},
    {RDMA_USER_CM_CMD_LISTEN, sizeof(rdma_ucm_listen), 0},
    {RDMA_USER_CM_CMD_ACCEPT, offsetof(rdma_ucm_accept, ece), 0},
    {RDMA_USER_CM_CMD_REJECT, sizeof(rdma_ucm_reject), 0},
    {RDMA_USER_CM_CMD_DISCONNECT, sizeof(rdma_ucm_disconnect), 0},
    {RDMA_USER_CM_CMD_INIT_QP_ATTR, sizeof(rdma_ucm_init_qp_attr), sizeof(ib_uverbs_qp_attr)},
    {RDMA_USER_CM_CMD_GET_EVENT, sizeof(rdma_ucm_get_event),
     offsetof(rdma_ucm_event_resp, reserved)},
    {RDMA_USER_CM_CMD_SET_OPTION, sizeof(rdma_ucm_set_option), 0},
    {RDMA_USER_CM_CMD_NOTIFY, sizeof(rdma_ucm_notify), 0},
    {RDMA_USER_CM_CMD_JOIN_IP_MCAST, sizeof(rdma_ucm_join_ip_mcast),
     sizeof(rdma_ucm_create_id_resp)},
    {RDMA_USER_CM_CMD_LEAVE_MCAST, sizeof(rdma_ucm_destroy_id), sizeof(rdma_ucm_destroy_id_resp)},
    {RDMA_USER_CM_CMD_MIGRATE_ID, sizeof(rdma_ucm_migrate_id), sizeof(rdma_ucm_migrate_resp)},
    {RDMA_USER_CM_CMD_QUERY, sizeof(rdma_ucm_query), 0},
    {RDMA_USER_CM_CMD_BIND, sizeof(rdma_ucm_bind), 0},
    {RDMA_USER_CM_CMD_RESOLVE_ADDR, sizeof(rdma_ucm_resolve_addr), 0},
    {RDMA_USER_CM_CMD_JOIN_MCAST, sizeof(rdma_ucm_join_mcast), sizeof(rdma_ucm_create_id_resp)},
    {kResolveIbService, sizeof(ResolveIbServiceCommand), 0},
    {kWriteCmEvent, sizeof(WriteCmEventCommand), 0},
};
constexpr size_t kRoomForAnyAnswer = 1'024;

class CommandsTest : public testing::Test {
 protected:
  Network network_;
  Host host_{network_, 1};
};

TEST_F(CommandsTest, ShorterThanTheCommandIsInvalid) {
  for (const Shape& shape : kShapes) {
    for (size_t bytes = 0; bytes < shape.least; ++bytes) {
      EXPECT_EQ(host_.WriteBytes(shape.number, std::vector<uint8_t>(bytes), kRoomForAnyAnswer),
                EINVAL)
          << shape.number << ", " << bytes << " bytes";
    }
  }
}

TEST_F(CommandsTest, WithoutRoomForTheAnswerThereIsNoSpace) {
  for (const Shape& shape : kShapes) {
    if (shape.answer == 0) continue;
    EXPECT_EQ(host_.WriteBytes(shape.number, std::vector<uint8_t>(shape.least), shape.answer - 1),
              ENOSPC)
        << shape.number;
  }
}

TEST_F(CommandsTest, IdThatThereIsNotIsNotFound) {
  for (const Shape& shape : kShapes) {
    switch (shape.number) {
      case RDMA_USER_CM_CMD_CREATE_ID:
      case RDMA_USER_CM_CMD_GET_EVENT:
      case RDMA_USER_CM_CMD_CONNECT:  // `valid` is checked first
      case RDMA_USER_CM_CMD_BIND:     // the addresses are, too
      case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
      case RDMA_USER_CM_CMD_JOIN_MCAST:
      case kWriteCmEvent:  // the event is, too
        continue;
      default:
        EXPECT_EQ(
            host_.WriteBytes(shape.number, std::vector<uint8_t>(shape.least), kRoomForAnyAnswer),
            ENOENT)
            << shape.number;
    }
  }
  EXPECT_EQ(host_.Connect(7, Host::Parameters(1)), ENOENT);
  EXPECT_EQ(host_.Bind(7, Any(0)), ENOENT);
  EXPECT_EQ(host_.Resolve(7, Any(1)), ENOENT);
}

TEST_F(CommandsTest, IdOfAnotherChannelIsInvalid) {
  const uint32_t id = host_.Create();
  Channel* other = host_.agent().OpenChannel([](int) {});
  EXPECT_EQ(host_.Write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 0}, 0, other), EINVAL);
}

TEST_F(CommandsTest, HeaderIsChecked) {
  rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_CREATE_ID, 0, 0};
  const auto write = [&](size_t bytes) {
    return RunCommand(host_.agent(), host_.channel(), nullptr, reinterpret_cast<uintptr_t>(&header),
                      bytes);
  };
  EXPECT_EQ(write(sizeof header - 1), EINVAL);
  header.in = 1;  // more than was written
  EXPECT_EQ(write(sizeof header), EINVAL);
  header = {RDMA_USER_CM_CMD_JOIN_MCAST + 1, 0, 0};
  EXPECT_EQ(write(sizeof header), EINVAL);
  header = {UINT32_MAX, 0, 0};
  EXPECT_EQ(write(sizeof header), EINVAL);
  header = {RDMA_USER_CM_CMD_GET_OPTION, 0, 0};
  EXPECT_EQ(write(sizeof header), ENOSYS);
}

TEST_F(CommandsTest, MemoryThatIsNotThereIsAFault) {
  EXPECT_EQ(RunCommand(host_.agent(), host_.channel(), nullptr, 8, 64), EFAULT);
  rdma_ucm_create_id command{};
  command.ps = RDMA_PS_TCP;
  command.response = 8;
  EXPECT_EQ(host_.Write(RDMA_USER_CM_CMD_CREATE_ID, command, sizeof(rdma_ucm_create_id_resp)),
            EFAULT);
  EXPECT_EQ(host_.agent().id_count(), 0u);
}

TEST_F(CommandsTest, NothingBehindTheCommandIsRead) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages, page, PROT_READ | PROT_WRITE), 0);
  struct {
    rdma_ucm_cmd_hdr header;
    rdma_ucm_listen body;
  } command{{RDMA_USER_CM_CMD_LISTEN, sizeof(rdma_ucm_listen) + 1, 0}, {host_.Create(), 0}};
  uint8_t* const last = static_cast<uint8_t*>(pages) + page - sizeof command;
  std::memcpy(last, &command, sizeof command);
  EXPECT_EQ(RunCommand(host_.agent(), host_.channel(), nullptr, reinterpret_cast<uintptr_t>(last),
                       sizeof command + 1),
            0);
  munmap(pages, 2 * page);
}

TEST_F(CommandsTest, EventThatCannotBeDeliveredIsKept) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Resolve(id, Ipv4(10 << 24 | 2, 7'471)), 0);
  ASSERT_EQ(host_.tokens, 1);
  --host_.tokens;
  const rdma_ucm_get_event command{.response = 8};
  EXPECT_EQ(host_.Write(RDMA_USER_CM_CMD_GET_EVENT, command, sizeof(rdma_ucm_event_resp)), EFAULT);
  EXPECT_EQ(host_.tokens, 1);
  host_.Expect(UserEvent::kAddressResolved);
}

TEST_F(CommandsTest, CreateChecksThePortSpace) {
  rdma_ucm_create_id_resp answer{};
  rdma_ucm_create_id command{};
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.ps = 0x0107;
  EXPECT_EQ(host_.Write(RDMA_USER_CM_CMD_CREATE_ID, command, sizeof answer), EINVAL);
}

TEST_F(CommandsTest, OptionsCheckTheirSizeAndName) {
  const uint32_t id = host_.Create();
  const uint64_t value = 1;
  const auto set = [&](uint32_t level, uint32_t name, uint32_t bytes) {
    return host_.Write(RDMA_USER_CM_CMD_SET_OPTION,
                       rdma_ucm_set_option{.optval = reinterpret_cast<uintptr_t>(&value),
                                           .id = id,
                                           .level = level,
                                           .optname = name,
                                           .optlen = bytes});
  };
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 0), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, 4, 4), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_IB, 2, 4), ENOSYS);
  EXPECT_EQ(set(2, 0, 4), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1 << 20), EINVAL);
}

TEST_F(CommandsTest, HandlesAreTheLowestFreeNumbers) {
  EXPECT_EQ(host_.Create(), 0u);
  EXPECT_EQ(host_.Create(), 1u);
  EXPECT_EQ(host_.Destroy(0), 0);
  EXPECT_EQ(host_.Create(), 0u);
  EXPECT_EQ(host_.Create(), 2u);
}

TEST_F(CommandsTest, UnknownQueryIsNotImplemented) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Write(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, id, 3}, kRoomForAnyAnswer),
            ENOSYS);
}

// rdma_resolve_addrinfo tells itself in this way that it is done.
TEST_F(CommandsTest, WrittenEventIsReadBack) {
  const uint32_t id = host_.Create(RDMA_PS_TCP, kQpTypeRc, /*uid=*/55);
  for (const uint32_t kind : {kEventUser, kEventInternal}) {
    constexpr uint64_t kArgument = 0x1122'3344'5566'7788;
    EXPECT_EQ(host_.Write(kWriteCmEvent, WriteCmEventCommand{id, 0, kind, 7, kArgument}), 0);
    EXPECT_EQ(host_.tokens, 1);
    rdma_ucm_event_resp event{};
    ASSERT_EQ(host_.GetEvent(event), 0);
    EXPECT_EQ(event.id, id);
    EXPECT_EQ(event.uid, 55u);
    EXPECT_EQ(event.event, kind);
    EXPECT_EQ(event.status, 7u);
    uint64_t argument;
    std::memcpy(&argument, &event.param, sizeof argument);
    EXPECT_EQ(argument, kArgument);
  }
  uint32_t reported = 0;
  EXPECT_EQ(host_.Destroy(id, &reported), 0);
  EXPECT_EQ(reported, 2u);
}

TEST_F(CommandsTest, EventsOfTheKernelCannotBeWritten) {
  const uint32_t id = host_.Create();
  for (const uint32_t kind : {0u, kEventUser - 1, kEventInternal + 1}) {
    EXPECT_EQ(host_.Write(kWriteCmEvent, WriteCmEventCommand{id, 0, kind, 0, 0}), EINVAL) << kind;
  }
  EXPECT_EQ(host_.Write(kWriteCmEvent, WriteCmEventCommand{id + 1, 0, kEventUser, 0, 0}), ENOENT);
  host_.ExpectNoEvent();
}

TEST_F(CommandsTest, ThereAreNoServicesOfASubnetAdministrator) {
  ResolveIbServiceCommand command = {};
  command.id = host_.Create();
  EXPECT_EQ(host_.Write(kResolveIbService, command), EINVAL);
  ASSERT_EQ(host_.Bind(command.id, Ipv4(host_, 0)), 0);
  EXPECT_EQ(host_.Write(kResolveIbService, command), EOPNOTSUPP);
}

// librdmacm probes for AF_IB in this way. A program that asks no more joins no fabric.
TEST_F(CommandsTest, AskingForAfIbOpensNoDevice) {
  const uint32_t id = host_.Create(RDMA_PS_IB);
  SocketAddress wildcard = AnyAddress(kFamilyIb);
  wildcard.service_id = 0x0106'0000;
  wildcard.service_mask = 0xffff'ffff'ffff'0000;
  rdma_ucm_bind command{};
  command.id = id;
  command.addr_size =
      static_cast<uint16_t>(EmitAddress(wildcard, reinterpret_cast<uint8_t*>(&command.addr)));
  EXPECT_EQ(host_.Write(RDMA_USER_CM_CMD_BIND, command), 0);
  EXPECT_EQ(host_.device_opens, 0);
  EXPECT_EQ(host_.Destroy(id), 0);
}

}  // namespace
}  // namespace uroce::verbs::rdma_cm
