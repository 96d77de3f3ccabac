#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::verbs::rdma_cm {

// copy_from_user and copy_to_user: between us and an address that the application gave. False when
// there is no such memory (EFAULT).
bool CopyFromUser(void* to, uint64_t from, size_t bytes);
bool CopyToUser(uint64_t to, const void* from, size_t bytes);

}  // namespace uroce::verbs::rdma_cm
