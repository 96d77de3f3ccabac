#include "verbs_provider/virtual_kernel/base/real_libc.h"

namespace uroce::verbs::virtual_kernel {
namespace {

[[gnu::constructor]] void Resolve() { real::ResolveAll(); }

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
