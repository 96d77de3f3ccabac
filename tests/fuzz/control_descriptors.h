#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic::control {

// A few descriptors that the other end of a socket can recognise.
inline constexpr size_t kKnownDescriptors = 8;
int KnownDescriptor(size_t index);
// kKnownDescriptors if `fd` is none of them.
size_t IndexOf(const UniqueFd& fd);

// Which of the descriptors that an input may use are open. An input must not change it.
std::vector<bool> OpenDescriptors();

// One sendmsg() with the known descriptors of these indices; returns the bytes that the socket
// took. A correct peer need not send such a message.
size_t SendRaw(int socket, std::span<const uint8_t> bytes, std::span<const size_t> descriptors);

// One recvmsg(), with room for more descriptors than any message has. False at the end.
struct RawBytes {
  std::vector<uint8_t> bytes;
  std::vector<size_t> descriptors;
};
bool ReceiveRaw(int socket, size_t bytes, RawBytes& out);

}  // namespace uroce::nic::control
