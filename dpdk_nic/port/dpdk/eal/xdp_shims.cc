// Makes safe what the af_xdp driver does with libbpf and libxdp (`ld --wrap`).
#include "dpdk_nic/port/dpdk/eal/xdp_shims.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xdp/libxdp.h>
#include <xdp/xsk.h>

#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "dpdk_nic/port/dpdk/eal/descriptor_shims.h"

extern "C" {
bpf_object* __real_bpf_object__open_file(const char* path, const bpf_object_open_opts* options);
int __real_xsk_umem__create(xsk_umem** umem, void* area, uint64_t bytes, xsk_ring_prod* fill,
                            xsk_ring_cons* completion, const xsk_umem_config* config);
int __real_xsk_umem__delete(xsk_umem* umem);
}

namespace uroce::nic {
namespace {

constexpr unsigned char kRoceFilter[] = {
#include "dpdk_nic/port/dpdk/eal/roce_filter_bytes.inc"
};

struct ObjectCloser {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};

// A program on an interface.
struct Attachment {
  std::unique_ptr<bpf_object, ObjectCloser> object;
  UniqueFd link;
};

// Devices are opened and closed one at a time (Eal::Run). Leaked, as devices may outlive main().
struct Devices {
  std::map<int, Attachment> attachments;  // by the interface's index
  std::map<int, xsk_umem*> umems;         // by the socket
  bpf_object* opened_object = nullptr;    // the last one
};
Devices& TheDevices() {
  static auto& devices = *new Devices;
  return devices;
}

int LinkProgram(int interface_index, int program_fd, uint32_t flags) {
  LIBBPF_OPTS(bpf_link_create_opts, options);
  options.flags = flags;
  return bpf_link_create(program_fd, interface_index, BPF_XDP, &options);
}

// Returns a negative errno value.
int Attach(int interface_index, int program_fd) {
  Attachment attachment;
  attachment.object.reset(std::exchange(TheDevices().opened_object, nullptr));
  int link = LinkProgram(interface_index, program_fd, 0);
  // Some drivers lack the resources for native mode; -EBUSY: another program is attached.
  if (link < 0 && link != -EBUSY) {
    link = LinkProgram(interface_index, program_fd, XDP_FLAGS_SKB_MODE);
  }
  if (link < 0) return link;
  TrackDescriptor(link);
  attachment.link = UniqueFd(link);
  TheDevices().attachments[interface_index] = std::move(attachment);
  return 0;
}

}  // namespace

UniqueFd XdpProgramFile() {
  libbpf_set_print(nullptr);  // stderr is not ours to write to
  libxdp_set_print(nullptr);
  UniqueFd file(memfd_create("uroce-xdp-program", MFD_CLOEXEC));
  const ssize_t written = write(file.get(), kRoceFilter, sizeof kRoceFilter);
  return written == sizeof kRoceFilter ? std::move(file) : UniqueFd();
}

void FreeLeakedXdpMemory(int socket) {
  const auto found = TheDevices().umems.find(socket);
  if (found != TheDevices().umems.end()) xsk_umem__delete(found->second);
}

}  // namespace uroce::nic

extern "C" {

// The driver never closes the object: Attach takes it over.
bpf_object* __wrap_bpf_object__open_file(const char* path, const bpf_object_open_opts* options) {
  return uroce::nic::TheDevices().opened_object = __real_bpf_object__open_file(path, options);
}

// The driver would attach the program to the interface itself. A process that is killed would then
// leave it there, and no other could be attached. A link goes with its last descriptor.
int __wrap_bpf_xdp_attach(int interface_index, int program_fd, uint32_t, const void*) {
  return uroce::nic::Attach(interface_index, program_fd);
}

int __wrap_bpf_xdp_detach(int interface_index, uint32_t, const void*) {
  uroce::nic::TheDevices().attachments.erase(interface_index);
  return 0;
}

// The driver calls this before bpf_xdp_detach only, which needs no answer.
int __wrap_bpf_xdp_query_id(int, int, uint32_t*) { return 0; }

int __wrap_xsk_umem__create(xsk_umem** umem, void* area, uint64_t bytes, xsk_ring_prod* fill,
                            xsk_ring_cons* completion, const xsk_umem_config* config) {
  const int result = __real_xsk_umem__create(umem, area, bytes, fill, completion, config);
  if (result == 0) uroce::nic::TheDevices().umems[xsk_umem__fd(*umem)] = *umem;
  return result;
}

int __wrap_xsk_umem__delete(xsk_umem* umem) {
  if (umem != nullptr) uroce::nic::TheDevices().umems.erase(xsk_umem__fd(umem));
  return __real_xsk_umem__delete(umem);
}

}  // extern "C"
