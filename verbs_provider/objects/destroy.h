#pragma once

#include <cerrno>

#include "verbs_provider/base/c_boundary.h"

namespace uroce::verbs {

// For verbs that destroy an object: `leave` takes it out of whatever knows it. EBUSY while others
// use it.
template <class Object, class Handle, class Leave>
int DestroyUnused(Handle* verbs, const Leave& leave) {
  return ReturningErrno([&] {
    Object& object = Object::From(verbs);
    if (object.device->lost_by_fork()) return EIO;
    if (object.users.in_use()) return EBUSY;
    leave(object);
    delete &object;
    return 0;
  });
}

}  // namespace uroce::verbs
