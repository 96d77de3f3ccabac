#include "verbs_provider/virtual_kernel/netlink/netlink_answers.h"

#include <gtest/gtest.h>
#include <rdma/rdma_netlink.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/verbs_provider/virtual_kernel/test_description.h"
#include "verbs_provider/virtual_kernel/device/device.h"

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr uint32_t kSequence = 4711;
constexpr uint32_t kPortId = 99;

// One parsed message.
struct Parsed {
  nlmsghdr header = {};
  std::map<uint16_t, std::string> attributes;  // raw values
  int error = 0;                               // of NLMSG_ERROR

  explicit Parsed(const NetlinkBytes& bytes) {
    ForEachMessage(bytes, [this](const nlmsghdr& found, std::span<const std::byte> payload) {
      header = found;
      if (found.nlmsg_type == NLMSG_ERROR) {
        std::memcpy(&error, payload.data(), sizeof(error));
      } else {
        ForEachAttribute(payload, [this](uint16_t type, std::span<const std::byte> value) {
          attributes[type] = {reinterpret_cast<const char*>(value.data()), value.size()};
        });
      }
      return true;
    });
  }

  template <typename Number>
  Number Get(uint16_t type) const {
    Number number = {};
    const auto found = attributes.find(type);
    if (found == attributes.end() || found->second.size() != sizeof(number)) {
      ADD_FAILURE() << "attribute " << type << " is absent or of another size";
      return number;
    }
    std::memcpy(&number, found->second.data(), sizeof(number));
    return number;
  }
  std::string GetString(uint16_t type) const {
    const auto found = attributes.find(type);
    return found == attributes.end() ? "(absent)" : std::string(found->second.c_str());
  }
};

class NetlinkAnswersTest : public testing::Test {
 protected:
  NetlinkAnswersTest() { DescribeTestDevice(description_); }

  static nlmsghdr Header(int command, uint16_t flags) {
    nlmsghdr header = {};
    header.nlmsg_type = static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
    header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    header.nlmsg_seq = kSequence;
    header.nlmsg_pid = kPortId;
    return header;
  }

  // A request for one device, with or without the type of a character device.
  NetlinkAnswer Ask(int command, uint32_t index, const char* chardev, bool kernel_present) const {
    const nlmsghdr header = Header(command, 0);
    NetlinkMessage message(header, header.nlmsg_type, header.nlmsg_flags);
    message.PutU32(RDMA_NLDEV_ATTR_DEV_INDEX, index);
    if (chardev != nullptr) message.PutString(RDMA_NLDEV_ATTR_CHARDEV_TYPE, chardev);
    const NetlinkBytes bytes = std::move(message).Finish();
    return AnswerNetlink(header, std::span(bytes).subspan(NLMSG_HDRLEN), description_,
                         kernel_present, has_rdma_cm_);
  }
  NetlinkAnswer AskAll(int command, bool kernel_present) const {
    return AnswerNetlink(Header(command, NLM_F_DUMP), {}, description_, kernel_present,
                         has_rdma_cm_);
  }

  NetlinkAnswer AskForPort(uint32_t port, uint16_t flags) const {
    const nlmsghdr header = Header(RDMA_NLDEV_CMD_PORT_GET, flags);
    NetlinkMessage message(header, header.nlmsg_type, header.nlmsg_flags);
    message.PutU32(RDMA_NLDEV_ATTR_DEV_INDEX, kDeviceIndex);
    message.PutU32(RDMA_NLDEV_ATTR_PORT_INDEX, port);
    const NetlinkBytes bytes = std::move(message).Finish();
    return AnswerNetlink(header, std::span(bytes).subspan(NLMSG_HDRLEN), description_, true,
                         has_rdma_cm_);
  }

  uroce_device_description description_ = {};
  bool has_rdma_cm_ = true;
};

TEST_F(NetlinkAnswersTest, DumpOfDevicesListsOursAndEnds) {
  const NetlinkAnswer answer = AskAll(RDMA_NLDEV_CMD_GET, false);
  EXPECT_FALSE(answer.forward);
  ASSERT_EQ(answer.messages.size(), 2u);
  const Parsed device(answer.messages[0]);
  EXPECT_EQ(device.header.nlmsg_len, answer.messages[0].size());
  EXPECT_EQ(device.header.nlmsg_flags, NLM_F_MULTI);
  EXPECT_EQ(device.header.nlmsg_seq, kSequence);
  EXPECT_EQ(device.header.nlmsg_pid, kPortId);
  EXPECT_EQ(device.GetString(RDMA_NLDEV_ATTR_DEV_NAME), "uroce0");
  EXPECT_EQ(device.GetString(RDMA_NLDEV_ATTR_DEV_PROTOCOL), "roce");
  EXPECT_EQ(device.GetString(RDMA_NLDEV_ATTR_FW_VERSION), "test-1");
  EXPECT_EQ(device.Get<uint32_t>(RDMA_NLDEV_ATTR_DEV_INDEX), kDeviceIndex);
  EXPECT_EQ(device.Get<uint64_t>(RDMA_NLDEV_ATTR_NODE_GUID), 0x02aabbfffe000001u);
  EXPECT_EQ(device.Get<uint64_t>(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID), 0x02aabbfffe000002u);
  EXPECT_EQ(device.Get<uint8_t>(RDMA_NLDEV_ATTR_DEV_NODE_TYPE), RDMA_NODE_IB_CA);
  EXPECT_EQ(Parsed(answer.messages[1]).header.nlmsg_type, NLMSG_DONE);
}

TEST_F(NetlinkAnswersTest, DumpOfDevicesAsksTheRealKernelToo) {
  const NetlinkAnswer answer = AskAll(RDMA_NLDEV_CMD_GET, true);
  EXPECT_TRUE(answer.forward);
  EXPECT_EQ(answer.messages.size(), 2u);
}

TEST_F(NetlinkAnswersTest, OurDeviceIsNotAskedOfTheRealKernel) {
  const NetlinkAnswer answer = Ask(RDMA_NLDEV_CMD_GET, kDeviceIndex, nullptr, true);
  EXPECT_FALSE(answer.forward);
  ASSERT_EQ(answer.messages.size(), 1u);
  const Parsed device(answer.messages[0]);
  EXPECT_EQ(device.GetString(RDMA_NLDEV_ATTR_DEV_NAME), "uroce0");
  EXPECT_EQ(device.header.nlmsg_flags, 0);
}

TEST_F(NetlinkAnswersTest, UverbsOfOurDevice) {
  const NetlinkAnswer answer = Ask(RDMA_NLDEV_CMD_GET_CHARDEV, kDeviceIndex, "uverbs", true);
  ASSERT_EQ(answer.messages.size(), 1u);
  const Parsed chardev(answer.messages[0]);
  EXPECT_EQ(chardev.GetString(RDMA_NLDEV_ATTR_CHARDEV_NAME), "uverbs900");
  EXPECT_EQ(chardev.Get<uint64_t>(RDMA_NLDEV_ATTR_CHARDEV_ABI), kUverbsDeviceAbi);
  // libibverbs compares it with st_rdev of the node.
  EXPECT_EQ(chardev.Get<uint64_t>(RDMA_NLDEV_ATTR_CHARDEV), makedev(kUverbsMajor, kUverbsMinor));
  // The attribute must be absent, or libibverbs would pick the driver of that number.
  EXPECT_EQ(chardev.GetString(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID), "(absent)");
}

// `rdma link` asks with NLM_F_ACK and reads until the acknowledgement.
TEST_F(NetlinkAnswersTest, PortWithItsNetworkInterfaceAndAnAcknowledgement) {
  for (const uint16_t flags : {uint16_t{0}, uint16_t{NLM_F_ACK}}) {
    const NetlinkAnswer answer = AskForPort(1, flags);
    EXPECT_FALSE(answer.forward);
    ASSERT_EQ(answer.messages.size(), flags == 0 ? 1u : 2u);
    const Parsed port(answer.messages[0]);
    EXPECT_EQ(port.GetString(RDMA_NLDEV_ATTR_DEV_NAME), "uroce0");
    EXPECT_EQ(port.Get<uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
    EXPECT_EQ(port.Get<uint8_t>(RDMA_NLDEV_ATTR_PORT_STATE), 4);
    EXPECT_EQ(port.Get<uint8_t>(RDMA_NLDEV_ATTR_PORT_PHYS_STATE), 5);
    EXPECT_EQ(port.Get<uint32_t>(RDMA_NLDEV_ATTR_NDEV_INDEX), 1u);
    EXPECT_EQ(port.GetString(RDMA_NLDEV_ATTR_NDEV_NAME), "lo");
    if (flags == 0) continue;
    const Parsed acknowledgement(answer.messages[1]);
    EXPECT_EQ(acknowledgement.header.nlmsg_type, NLMSG_ERROR);
    EXPECT_EQ(acknowledgement.error, 0);
  }
}

TEST_F(NetlinkAnswersTest, PortWithoutANetworkInterfaceNamesNone) {
  for (uroce_gid& gid : description_.gids) gid.netdev_ifindex = 0;
  const NetlinkAnswer answer = AskForPort(1, 0);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(Parsed(answer.messages[0]).GetString(RDMA_NLDEV_ATTR_NDEV_NAME), "(absent)");
}

TEST_F(NetlinkAnswersTest, DumpOfPortsListsTheOnlyOneAndEnds) {
  const NetlinkAnswer answer = AskForPort(1, NLM_F_DUMP);
  ASSERT_EQ(answer.messages.size(), 2u);
  EXPECT_EQ(Parsed(answer.messages[0]).Get<uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
  EXPECT_EQ(Parsed(answer.messages[1]).header.nlmsg_type, NLMSG_DONE);
}

TEST_F(NetlinkAnswersTest, PortThatIsNotThereIsInvalid) {
  const NetlinkAnswer answer = AskForPort(2, NLM_F_ACK);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(Parsed(answer.messages[0]).error, -EINVAL);
}

TEST_F(NetlinkAnswersTest, OtherCharacterDevicesOfOursDoNotExist) {
  const NetlinkAnswer answer = Ask(RDMA_NLDEV_CMD_GET_CHARDEV, kDeviceIndex, "umad", true);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(Parsed(answer.messages[0]).error, -EOPNOTSUPP);
}

TEST_F(NetlinkAnswersTest, OtherDevicesAreTheRealKernels) {
  const NetlinkAnswer with_kernel = Ask(RDMA_NLDEV_CMD_GET_CHARDEV, 0, "uverbs", true);
  EXPECT_TRUE(with_kernel.forward);
  EXPECT_TRUE(with_kernel.messages.empty());
  const NetlinkAnswer without = Ask(RDMA_NLDEV_CMD_GET_CHARDEV, 0, "uverbs", false);
  EXPECT_FALSE(without.forward);
  ASSERT_EQ(without.messages.size(), 1u);
  EXPECT_EQ(Parsed(without.messages[0]).error, -ENODEV);
}

TEST_F(NetlinkAnswersTest, ForwardedDumpIsEndedByUs) {
  const NetlinkAnswer answer = AskAll(RDMA_NLDEV_CMD_RES_QP_GET, true);
  EXPECT_TRUE(answer.forward);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(Parsed(answer.messages[0]).header.nlmsg_type, NLMSG_DONE);
}

TEST_F(NetlinkAnswersTest, UnknownDumpWithoutAKernelIsEmpty) {
  const NetlinkAnswer answer = AskAll(RDMA_NLDEV_CMD_RES_QP_GET, false);
  EXPECT_FALSE(answer.forward);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(Parsed(answer.messages[0]).header.nlmsg_type, NLMSG_DONE);
}

TEST_F(NetlinkAnswersTest, ForkIsSafeWithoutAKernel) {
  const NetlinkAnswer answer =
      AnswerNetlink(Header(RDMA_NLDEV_CMD_SYS_GET, 0), {}, description_, false, true);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(Parsed(answer.messages[0]).Get<uint8_t>(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK), 1);
}

TEST_F(NetlinkAnswersTest, WithAKernelForkSafetyIsItsAnswer) {
  const NetlinkAnswer answer =
      AnswerNetlink(Header(RDMA_NLDEV_CMD_SYS_GET, 0), {}, description_, true, true);
  EXPECT_TRUE(answer.forward);
  EXPECT_TRUE(answer.messages.empty());
}

// Attributes that are cut short, or lie about their length, must not be read past the end.
TEST_F(NetlinkAnswersTest, MalformedAttributesAreIgnored) {
  const nlmsghdr header = Header(RDMA_NLDEV_CMD_GET_CHARDEV, 0);
  const nlattr lying = {.nla_len = 400, .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX};
  const nlattr empty = {.nla_len = 0, .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX};
  for (const nlattr& attribute : {lying, empty}) {
    std::vector<std::byte> payload(sizeof(attribute));
    std::memcpy(payload.data(), &attribute, sizeof(attribute));
    const NetlinkAnswer answer = AnswerNetlink(header, payload, description_, false, true);
    ASSERT_EQ(answer.messages.size(), 1u);
    EXPECT_EQ(Parsed(answer.messages[0]).error, -EOPNOTSUPP);
  }
}

// Bytes behind the attribute in the message do not belong to it.
TEST_F(NetlinkAnswersTest, NumberThatIsTooShortIsIgnored) {
  const nlattr attribute = {.nla_len = sizeof(nlattr) + 2, .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX};
  std::vector<std::byte> payload(sizeof(attribute) + sizeof(kDeviceIndex));
  std::memcpy(payload.data(), &attribute, sizeof(attribute));
  std::memcpy(&payload[sizeof(attribute)], &kDeviceIndex, sizeof(kDeviceIndex));
  const NetlinkAnswer answer =
      AnswerNetlink(Header(RDMA_NLDEV_CMD_GET, 0), payload, description_, false, true);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(Parsed(answer.messages[0]).error, -EOPNOTSUPP);
}

// librdmacm asks without naming a device.
class RdmaCmCharacterDeviceTest : public NetlinkAnswersTest {
 protected:
  NetlinkAnswer AskForRdmaCm(bool kernel_present) const {
    const nlmsghdr header = Header(RDMA_NLDEV_CMD_GET_CHARDEV, 0);
    NetlinkMessage message(header, header.nlmsg_type, header.nlmsg_flags);
    message.PutString(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "rdma_cm");
    const NetlinkBytes bytes = std::move(message).Finish();
    return AnswerNetlink(header, std::span(bytes).subspan(NLMSG_HDRLEN), description_,
                         kernel_present, has_rdma_cm_);
  }
};

TEST_F(RdmaCmCharacterDeviceTest, ProvidersDeviceIsReportedWithAndWithoutTheKernels) {
  for (const bool kernel_present : {false, true}) {
    const NetlinkAnswer answer = AskForRdmaCm(kernel_present);
    EXPECT_FALSE(answer.forward);
    ASSERT_EQ(answer.messages.size(), 1u);
    const Parsed rdma_cm(answer.messages[0]);
    EXPECT_EQ(rdma_cm.GetString(RDMA_NLDEV_ATTR_CHARDEV_NAME), "rdma_cm");
    EXPECT_EQ(rdma_cm.Get<uint64_t>(RDMA_NLDEV_ATTR_CHARDEV_ABI), 4u);
    // huge_encode_dev(4000, 901).
    EXPECT_EQ(rdma_cm.Get<uint64_t>(RDMA_NLDEV_ATTR_CHARDEV), 0x3fa085u);
  }
}

TEST_F(RdmaCmCharacterDeviceTest, ForwardsToTheKernelIfTheProviderHasNoDevice) {
  has_rdma_cm_ = false;
  EXPECT_TRUE(AskForRdmaCm(true).forward);
  const NetlinkAnswer alone = AskForRdmaCm(false);
  ASSERT_EQ(alone.messages.size(), 1u);
  EXPECT_EQ(Parsed(alone.messages[0]).error, -EOPNOTSUPP);
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
