#pragma once

#include <cerrno>

#include "verbs_provider/base/c_boundary.h"

namespace uroce::verbs {

// For verbs that destroy an object: `leave` removes it from everything that refers to it. EBUSY
// while other objects use it.
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
