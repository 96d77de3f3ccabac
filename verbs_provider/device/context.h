#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "verbs_provider/abi/provider_registration.h"
#include "verbs_provider/device/context_objects.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// The provider's object of an open ibv_context. All contexts of a process share its one device, and
// those of one device file (ibv_import_device) the objects of that file.
class Context {
 public:
  Context(ibv_context* verbs, std::shared_ptr<Device> device)
      : verbs_(verbs),
        file_(abi::DeviceFileOf(verbs)),
        device_(std::move(device)),
        objects_(std::make_shared<ContextObjects>()) {}

  static Context& From(ibv_context* verbs) {
    return *static_cast<Context*>(abi::ContextObject(verbs));
  }

  ibv_context* verbs() const { return verbs_; }
  Device& device() const { return *device_; }
  ContextObjects& objects() { return *objects_; }

  // Joins the objects of `other` if both are of one device file.
  void JoinFileOf(const Context& other) {
    if (file_ != 0 && file_ == other.file_) objects_ = other.objects_;
  }
  // Leaves the objects. Returns them if no other context has them.
  std::shared_ptr<ContextObjects> LeaveFile() {
    return objects_.use_count() == 1 ? std::move(objects_) : nullptr;
  }

  ObjectLink<Context> link;  // in DeviceFollowers

 private:
  ibv_context* verbs_;
  const uint64_t file_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<ContextObjects> objects_;
};

// Asked first by the verbs that set up, change and destroy objects. EIO: the device was lost by
// fork(). ENOENT, EINVAL: as ContextObjects::Check.
template <class Object, class Verbs>
int CheckHandle(Verbs* verbs) {
  Context& context = Context::From(verbs->context);
  if (context.device().lost_by_fork()) return EIO;
  // The program's copy of an object that is gone is too short for From.
  if (!context.objects().Has(verbs->handle)) return ENOENT;
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
// The speed that QueryPort tells by width and lane, in 100 Mb/s.
int QueryPortSpeed(ibv_context* context, uint32_t port_num, uint64_t* speed);

}  // namespace uroce::verbs
