#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace uroce::verbs::virtual_kernel {

using NetlinkBytes = std::vector<std::byte>;

// Builds one netlink message with attributes. Numbers in host byte order, as netlink has them.
class NetlinkMessage {
 public:
  // An answer to `request`: same sequence number and port id.
  NetlinkMessage(const nlmsghdr& request, uint16_t type, uint16_t flags);

  void PutU8(uint16_t attribute, uint8_t value) { Put(attribute, &value, sizeof(value)); }
  void PutU32(uint16_t attribute, uint32_t value) { Put(attribute, &value, sizeof(value)); }
  void PutU64(uint16_t attribute, uint64_t value) { Put(attribute, &value, sizeof(value)); }
  // With the terminating zero, which readers check for.
  void PutString(uint16_t attribute, std::string_view value);
  // Payload without an attribute header in front; padded to 4 bytes.
  void PutRaw(const void* data, size_t bytes);

  NetlinkBytes Finish() &&;

 private:
  void Put(uint16_t attribute, const void* data, size_t bytes);
  NetlinkBytes bytes_;
};

// The end of a dump, and an error answer (`error` is a negative errno, 0 is an acknowledgement).
NetlinkBytes MakeDone(const nlmsghdr& request);
NetlinkBytes MakeError(const nlmsghdr& request, int error);

// Calls visit(header, payload) for each message of a datagram, until one is cut short or visit
// returns false. The header is a copy: the datagram need not be aligned.
template <typename Visit>
void ForEachMessage(std::span<const std::byte> datagram, Visit visit) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, datagram.data(), sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > datagram.size()) return;
    if (!visit(header, datagram.first(header.nlmsg_len).subspan(NLMSG_HDRLEN))) return;
    datagram = datagram.subspan(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), datagram.size()));
  }
}

// The same for the attributes of a message: visit(type, payload).
template <typename Visit>
void ForEachAttribute(std::span<const std::byte> payload, Visit visit) {
  while (payload.size() >= sizeof(nlattr)) {
    nlattr header;
    std::memcpy(&header, payload.data(), sizeof(header));
    if (header.nla_len < sizeof(header) || header.nla_len > payload.size()) return;
    visit(static_cast<uint16_t>(header.nla_type & NLA_TYPE_MASK),
          payload.first(header.nla_len).subspan(NLA_HDRLEN));
    payload = payload.subspan(std::min<size_t>(NLA_ALIGN(header.nla_len), payload.size()));
  }
}

}  // namespace uroce::verbs::virtual_kernel
