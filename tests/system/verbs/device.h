#pragma once

#include <infiniband/verbs.h>

#include "tests/system/verbs/handles.h"

namespace system_test {

inline constexpr uint8_t kPortNumber = 1;

// The first RDMA device of the machine, opened, and one entry of its GID table.
class Device {
 public:
  // Throws std::runtime_error, also if the port is not active.
  explicit Device(int gid_index);

  ibv_context* context() const { return context_.get(); }
  uint8_t gid_index() const { return gid_index_; }
  const ibv_gid& gid() const { return gid_; }
  ibv_mtu active_mtu() const { return port_.active_mtu; }

 private:
  ContextHandle context_;
  uint8_t gid_index_;
  ibv_gid gid_{};
  ibv_port_attr port_{};
};

}  // namespace system_test
