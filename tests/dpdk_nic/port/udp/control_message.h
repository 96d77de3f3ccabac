#pragma once

#include <sys/socket.h>

#include <cstring>

namespace uroce::nic {

// Adds a control message as recvmmsg reports it. `header` has room for it at msg_control.
template <class Value>
void AddControlMessage(msghdr& header, int level, int type, Value value) {
  cmsghdr control{};
  control.cmsg_level = level;
  control.cmsg_type = type;
  control.cmsg_len = CMSG_LEN(sizeof value);
  char* const end = static_cast<char*>(header.msg_control) + header.msg_controllen;
  std::memcpy(end, &control, sizeof control);
  std::memcpy(end + CMSG_LEN(0), &value, sizeof value);
  header.msg_controllen += CMSG_SPACE(sizeof value);
}

}  // namespace uroce::nic
