#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::verbs::rdma_cm {

// copy_from_user and copy_to_user, for addresses that the application gave. False when the memory
// is not mapped (EFAULT).
bool CopyFromUser(void* to, uint64_t from, size_t bytes);
bool CopyToUser(uint64_t to, const void* from, size_t bytes);

}  // namespace uroce::verbs::rdma_cm
