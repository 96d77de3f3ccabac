#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "verbs_provider/abi/provider_registration.h"
#include "verbs_provider/device/context_objects.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// The provider's object of an open ibv_context. All contexts of a process share its one device.
class Context {
 public:
  Context(ibv_context* verbs, std::shared_ptr<Device> device)
      : verbs_(verbs), device_(std::move(device)) {}

  static Context& From(ibv_context* verbs) {
    return *static_cast<Context*>(abi::ContextObject(verbs));
  }

  ibv_context* verbs() const { return verbs_; }
  Device& device() const { return *device_; }
  ContextObjects& objects() { return objects_; }

  ObjectLink<Context> link;  // in DeviceFollowers

 private:
  ibv_context* verbs_;
  std::shared_ptr<Device> device_;
  ContextObjects objects_;
};

// Asked first by the verbs that set up, change and destroy objects. EIO: the device was lost by
// fork(). ENOENT, EINVAL: as ContextObjects::Check.
template <class Object, class Verbs>
int CheckHandle(Verbs* verbs) {
  Context& context = Context::From(verbs->context);
  if (context.device().lost_by_fork()) return EIO;
  return context.objects().Check(verbs->handle, &Object::From(verbs));
}

// open_context and close_context of abi::Provider.
void* OpenContext(ibv_context* verbs);
void CloseContext(ibv_context* verbs, void* object);

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t attr_size);
// Reads the device's clock. EINVAL: any other value was asked for.
int QueryRtValues(ibv_context* context, ibv_values_ex* values);
int QueryPort(ibv_context* context, uint8_t port_num, ibv_port_attr* attr);

}  // namespace uroce::verbs
