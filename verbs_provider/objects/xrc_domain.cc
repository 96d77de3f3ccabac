#include "verbs_provider/objects/xrc_domain.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "transport/endpoint.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {
namespace {

// A uroced that is there answers within this time.
constexpr transport::Duration kAnswerTimeout = transport::Milliseconds(5'000);

}  // namespace

std::shared_ptr<XrcDomain> XrcDomains::Create() {
  auto domain = std::make_shared<XrcDomain>();
  if (next_id_ == 0) ++next_id_;  // 0 is none
  domain->id = {next_id_++};
  return domain;
}

// Opens the domain at uroced, where other processes may have opened it.
int XrcDomains::Share(nic::Engine& engine, int flags, XrcDomain& domain) {
  const nic::PacketPort::XrcDomain wanted = {.handle = next_opening_++,
                                             .fd = domain.file_descriptor.get(),
                                             .creates = (flags & O_CREAT) != 0,
                                             .exclusive = (flags & O_EXCL) != 0};
  const auto opening = engine.OpenXrcDomain(wanted, kAnswerTimeout);
  if (!opening.is_answered) return ETIMEDOUT;
  if (opening.error != 0) return opening.error;
  domain.opening = wanted.handle;
  domain.key = opening.key;
  if (domain.key.IsZero()) return wanted.creates ? 0 : EAGAIN;
  domain.id = ids_.try_emplace(domain.key, domain.id).first->second;
  engine.WithEndpoint([&](transport::Endpoint& endpoint) {
    endpoint.xrc_executors().Share(domain.id, domain.key);
  });
  return 0;
}

int XrcDomains::Open(nic::Engine& engine, int fd, int flags, std::shared_ptr<XrcDomain>& out) {
  const std::lock_guard lock(lock_);
  if (fd == -1) {
    out = Create();
    return 0;
  }
  struct stat file;
  if (fstat(fd, &file) != 0) return errno;
  const std::pair key{file.st_dev, file.st_ino};
  const auto found = by_file_.find(key);
  std::shared_ptr<XrcDomain> domain = found == by_file_.end() ? nullptr : found->second.lock();
  if (domain != nullptr && (flags & O_EXCL) != 0) return EINVAL;
  if (domain == nullptr) {
    domain = Create();
    domain->file = key;
    domain->file_descriptor.reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!domain->file_descriptor) return errno;
    if (const int error = Share(engine, flags, *domain)) return error;
    by_file_[key] = domain;
  }
  out = std::move(domain);
  return 0;
}

void XrcDomains::Close(nic::Engine& engine, std::shared_ptr<XrcDomain>& domain) {
  const std::lock_guard lock(lock_);
  const bool is_last = domain.use_count() == 1 && domain->file_descriptor;
  if (is_last) by_file_.erase(domain->file);
  if (is_last && !domain->key.IsZero()) {
    engine.WithEndpoint(
        [&](transport::Endpoint& endpoint) { endpoint.xrc_executors().Unshare(domain->key); });
    engine.CloseXrcDomain(domain->opening);
  }
  domain.reset();
}

ibv_xrcd* OpenXrcd(ibv_context* context, ibv_xrcd_init_attr* attr) {
  return ReturningObject<ibv_xrcd>([&](ibv_xrcd*& out) {
    Device& device = Context::From(context).device();
    if (device.lost_by_fork()) return EIO;
    constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if ((attr->comp_mask & ~kNeeded) != 0) return EOPNOTSUPP;
    if (attr->comp_mask != kNeeded) return EINVAL;
    auto xrcd = std::make_unique<XrcDomainHandle>();
    PendingHandle handle(Context::From(context).objects(), *xrcd);
    xrcd->verbs.context = context;
    xrcd->device = &device;
    const int error =
        device.xrc_domains().Open(device.engine(), attr->fd, attr->oflags, xrcd->domain);
    if (error != 0) return error;
    xrcd->handle = handle.Keep();
    out = &xrcd.release()->verbs;
    return 0;
  });
}

int CloseXrcd(ibv_xrcd* verbs) {
  return ReturningErrno([&] {
    XrcDomainHandle& xrcd = XrcDomainHandle::From(verbs);
    if (xrcd.device->lost_by_fork()) return EIO;
    if (xrcd.users.in_use()) return EBUSY;
    Context::From(verbs->context).objects().Remove(xrcd.handle);
    xrcd.device->xrc_domains().Close(xrcd.device->engine(), xrcd.domain);
    delete &xrcd;
    return 0;
  });
}

}  // namespace uroce::verbs
