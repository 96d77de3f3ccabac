#include "verbs_provider/virtual_kernel/netlink/netlink_answers.h"

#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "verbs_provider/virtual_kernel/device/device.h"

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr uint16_t NldevType(int command) {
  return static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
}

// The attributes of a request that matter here.
struct RequestedDevice {
  std::optional<uint32_t> index;
  std::optional<uint32_t> port;
  std::string chardev_type;

  explicit RequestedDevice(std::span<const std::byte> payload) {
    ForEachAttribute(payload, [this](uint16_t type, std::span<const std::byte> value) {
      if (type == RDMA_NLDEV_ATTR_DEV_INDEX || type == RDMA_NLDEV_ATTR_PORT_INDEX) {
        uint32_t number;
        if (value.size() < sizeof(number)) return;
        std::memcpy(&number, value.data(), sizeof(number));
        (type == RDMA_NLDEV_ATTR_DEV_INDEX ? index : port) = number;
      } else if (type == RDMA_NLDEV_ATTR_CHARDEV_TYPE) {
        const auto* text = reinterpret_cast<const char*>(value.data());
        chardev_type.assign(text, strnlen(text, value.size()));
      }
    });
  }

  bool IsOurs() const { return index == kDeviceIndex; }
};

NetlinkBytes DescribeDevice(const nlmsghdr& request, const uroce_device_description& device,
                            uint16_t flags) {
  NetlinkMessage message(request, request.nlmsg_type, flags);
  message.PutU32(RDMA_NLDEV_ATTR_DEV_INDEX, kDeviceIndex);
  message.PutString(RDMA_NLDEV_ATTR_DEV_NAME, kDeviceName);
  message.PutU32(RDMA_NLDEV_ATTR_PORT_INDEX, 1);  // in this message: the last port
  message.PutString(RDMA_NLDEV_ATTR_FW_VERSION, device.fw_version);
  message.PutU64(RDMA_NLDEV_ATTR_NODE_GUID, device.node_guid);
  message.PutU64(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, device.sys_image_guid);
  message.PutU8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, RDMA_NODE_IB_CA);
  message.PutString(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
  return std::move(message).Finish();
}

// The interface behind the port: that of the first GID which has one.
const uroce_gid* NetworkInterfaceOf(const uroce_device_description& device) {
  const auto* const end = device.gids + device.gid_count;
  const auto* const found =
      std::find_if(device.gids, end, [](const uroce_gid& gid) { return gid.netdev_ifindex != 0; });
  return found == end ? nullptr : found;
}

// As the kernel's fill_port_info() does for RoCE.
NetlinkBytes DescribePort(const nlmsghdr& request, const uroce_device_description& device,
                          uint16_t flags) {
  NetlinkMessage message(request, request.nlmsg_type, flags);
  message.PutU32(RDMA_NLDEV_ATTR_DEV_INDEX, kDeviceIndex);
  message.PutString(RDMA_NLDEV_ATTR_DEV_NAME, kDeviceName);
  message.PutU32(RDMA_NLDEV_ATTR_PORT_INDEX, 1);
  message.PutU8(RDMA_NLDEV_ATTR_PORT_STATE, device.port_state);
  message.PutU8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, device.port_phys_state);
  if (const uroce_gid* const interface = NetworkInterfaceOf(device)) {
    message.PutU32(RDMA_NLDEV_ATTR_NDEV_INDEX, interface->netdev_ifindex);
    message.PutString(RDMA_NLDEV_ATTR_NDEV_NAME, interface->netdev_name);
  }
  return std::move(message).Finish();
}

// The kernel's huge_encode_dev().
constexpr uint64_t EncodeDeviceNumber(uint64_t major, uint64_t minor) {
  return (minor & 0xff) | major << 8 | (minor & ~uint64_t{0xff}) << 12;
}

// No UVERBS_DRIVER_ID: any number would be that of another provider.
NetlinkBytes DescribeCharacterDevice(const nlmsghdr& request, uint32_t minor, uint64_t abi,
                                     const char* name) {
  NetlinkMessage message(request, request.nlmsg_type, 0);
  message.PutU64(RDMA_NLDEV_ATTR_CHARDEV, EncodeDeviceNumber(kUverbsMajor, minor));
  message.PutU64(RDMA_NLDEV_ATTR_CHARDEV_ABI, abi);
  message.PutString(RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
  return std::move(message).Finish();
}

NetlinkBytes DescribeSystem(const nlmsghdr& request) {
  NetlinkMessage message(request, request.nlmsg_type, 0);
  // We pin no pages, so fork() copies all of them.
  message.PutU8(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
  return std::move(message).Finish();
}

NetlinkAnswer Say(NetlinkBytes message) {
  return {.forward = false, .messages = {std::move(message)}};
}

// The answer to a request about our device, with the acknowledgement if one was requested: `rdma`
// stops reading behind it.
NetlinkAnswer SayOfOurs(const nlmsghdr& request, NetlinkBytes message) {
  NetlinkAnswer answer = Say(std::move(message));
  if ((request.nlmsg_flags & NLM_F_ACK) != 0) answer.messages.push_back(MakeError(request, 0));
  return answer;
}

// Answers a request that names our device.
NetlinkAnswer AnswerForOurs(const nlmsghdr& header, const RequestedDevice& requested,
                            const uroce_device_description& device) {
  const bool dump = (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  switch (header.nlmsg_type) {
    case NldevType(RDMA_NLDEV_CMD_GET):
      return SayOfOurs(header, DescribeDevice(header, device, 0));
    case NldevType(RDMA_NLDEV_CMD_PORT_GET):
      if (dump) {
        return {.forward = false,
                .messages = {DescribePort(header, device, NLM_F_MULTI), MakeDone(header)}};
      }
      return requested.port == 1 ? SayOfOurs(header, DescribePort(header, device, 0))
                                 : Say(MakeError(header, -EINVAL));
    case NldevType(RDMA_NLDEV_CMD_GET_CHARDEV):
      // "umad" and "issm" belong to InfiniBand subnet management.
      return requested.chardev_type == "uverbs"
                 ? SayOfOurs(header, DescribeCharacterDevice(header, kUverbsMinor, kUverbsDeviceAbi,
                                                             kUverbsName))
                 : Say(MakeError(header, -EOPNOTSUPP));
    default:
      return Say(dump ? MakeDone(header) : MakeError(header, -EOPNOTSUPP));
  }
}

}  // namespace

NetlinkAnswer AnswerNetlink(const nlmsghdr& header, std::span<const std::byte> payload,
                            const uroce_device_description& device, bool kernel_present,
                            bool has_rdma_cm) {
  const bool dump = (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  if (header.nlmsg_type == NldevType(RDMA_NLDEV_CMD_GET) && dump) {
    return {.forward = kernel_present,
            .messages = {DescribeDevice(header, device, NLM_F_MULTI), MakeDone(header)}};
  }
  const RequestedDevice requested(payload);
  if (requested.IsOurs()) return AnswerForOurs(header, requested, device);
  if (has_rdma_cm && header.nlmsg_type == NldevType(RDMA_NLDEV_CMD_GET_CHARDEV) &&
      requested.chardev_type == kRdmaCmName) {
    return SayOfOurs(header,
                     DescribeCharacterDevice(header, kRdmaCmMinor, kRdmaCmAbi, kRdmaCmName));
  }
  if (kernel_present) {
    NetlinkAnswer answer = {.forward = true, .messages = {}};
    if (dump) answer.messages.push_back(MakeDone(header));
    return answer;
  }
  if (header.nlmsg_type == NldevType(RDMA_NLDEV_CMD_SYS_GET))
    return SayOfOurs(header, DescribeSystem(header));
  if (dump) return Say(MakeDone(header));
  return Say(MakeError(header, requested.index.has_value() ? -ENODEV : -EOPNOTSUPP));
}

}  // namespace uroce::verbs::virtual_kernel
