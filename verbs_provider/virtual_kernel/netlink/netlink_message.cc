#include "verbs_provider/virtual_kernel/netlink/netlink_message.h"

#include <algorithm>
#include <string>
#include <utility>

namespace uroce::verbs::virtual_kernel {

NetlinkMessage::NetlinkMessage(const nlmsghdr& request, uint16_t type, uint16_t flags) {
  const nlmsghdr header = {.nlmsg_len = 0,  // known in Finish()
                           .nlmsg_type = type,
                           .nlmsg_flags = flags,
                           .nlmsg_seq = request.nlmsg_seq,
                           .nlmsg_pid = request.nlmsg_pid};
  PutRaw(&header, sizeof(header));
}

void NetlinkMessage::PutRaw(const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), begin, begin + bytes);
  bytes_.resize(NLMSG_ALIGN(bytes_.size()));
}

void NetlinkMessage::Put(uint16_t attribute, const void* data, size_t bytes) {
  const nlattr header = {.nla_len = static_cast<uint16_t>(NLA_HDRLEN + bytes),
                         .nla_type = attribute};
  PutRaw(&header, sizeof(header));
  PutRaw(data, bytes);
}

void NetlinkMessage::PutString(uint16_t attribute, std::string_view value) {
  const std::string terminated(value);
  Put(attribute, terminated.c_str(), terminated.size() + 1);
}

NetlinkBytes NetlinkMessage::Finish() && {
  const auto length = static_cast<uint32_t>(bytes_.size());
  static_assert(offsetof(nlmsghdr, nlmsg_len) == 0);
  std::memcpy(bytes_.data(), &length, sizeof(length));
  return std::move(bytes_);
}

NetlinkBytes MakeDone(const nlmsghdr& request) {
  NetlinkMessage message(request, NLMSG_DONE, NLM_F_MULTI);
  const int32_t status = 0;
  message.PutRaw(&status, sizeof(status));
  return std::move(message).Finish();
}

NetlinkBytes MakeError(const nlmsghdr& request, int error) {
  NetlinkMessage message(request, NLMSG_ERROR, 0);
  const nlmsgerr body = {.error = error, .msg = request};
  message.PutRaw(&body, sizeof(body));
  return std::move(message).Finish();
}

}  // namespace uroce::verbs::virtual_kernel
