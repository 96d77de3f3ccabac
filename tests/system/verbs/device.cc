#include "tests/system/verbs/device.h"

#include <cerrno>
#include <stdexcept>

namespace system_test {
namespace {

ContextHandle OpenFirstDevice() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) Fail("ibv_get_device_list", errno);
  ContextHandle context(count > 0 ? ibv_open_device(list[0]) : nullptr);
  ibv_free_device_list(list);
  if (count == 0) throw std::runtime_error("there is no RDMA device");
  if (context == nullptr) throw std::runtime_error("the RDMA device cannot be opened");
  return context;
}

}  // namespace

Device::Device(int gid_index)
    : context_(OpenFirstDevice()), gid_index_(static_cast<uint8_t>(gid_index)) {
  int error = ibv_query_port(context(), kPortNumber, &port_);
  if (error != 0) Fail("ibv_query_port", error);
  if (port_.state != IBV_PORT_ACTIVE) throw std::runtime_error("the port is not active");
  error = ibv_query_gid(context(), kPortNumber, gid_index, &gid_);
  if (error != 0) Fail("ibv_query_gid", errno);
}

}  // namespace system_test
