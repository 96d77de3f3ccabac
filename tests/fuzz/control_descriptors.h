#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic::control {

// Descriptors that can be recognised wherever they come out, as there are only a few.
inline constexpr size_t kKnownDescriptors = 8;
int KnownDescriptor(size_t index);
// kKnownDescriptors if it is none of them.
size_t IndexOf(const UniqueFd& fd);

// Which of the descriptors that an input can use are open: the same before and after it.
std::vector<bool> OpenDescriptors();

// One sendmsg() with the known descriptors of these indices; what the socket takes of it. Says
// nothing about whether a correct peer would do so.
size_t SendRaw(int socket, std::span<const uint8_t> bytes, std::span<const size_t> descriptors);

// One recvmsg(), with more room for descriptors than anybody sends. False at the end.
struct RawBytes {
  std::vector<uint8_t> bytes;
  std::vector<size_t> descriptors;
};
bool ReceiveRaw(int socket, size_t bytes, RawBytes& out);

}  // namespace uroce::nic::control
