#pragma once

#include <cerrno>

#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/device/context.h"

namespace uroce::verbs {

// For verbs that destroy an object with a handle: `leave` removes it from everything that refers to
// it. EBUSY while other objects use it. ENOENT, EINVAL: as CheckHandle.
template <class Object, class Handle, class Leave>
int DestroyUnused(Handle* verbs, const Leave& leave) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<Object>(verbs)) return error;
    Object& object = Object::From(verbs);
    if (object.users.in_use()) return EBUSY;
    Context::From(verbs->context).objects().Remove(verbs->handle);
    leave(object);
    delete &object;
    return 0;
  });
}

}  // namespace uroce::verbs
