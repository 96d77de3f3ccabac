#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <string>

#include "verbs_provider/abi/provider_ops.h"

namespace uroce::verbs::abi {

// Describes a provider to the genuine libibverbs. RegisterProvider copies it.
struct Provider {
  // Shown in libibverbs' own messages. Must live as long as the process.
  const char* name = nullptr;

  // Whether this provider drives the RDMA device of this name ("uroce0").
  bool (*drives_device)(const char* ibdev_name) = nullptr;

  // Runs at the end of ibv_open_device and of ibv_import_device. `context` is complete (device,
  // command and asynchronous event descriptors, ops), but no other thread has seen it. Returns the
  // provider's own object of this context, which ContextObject() finds again, or null with errno
  // set: ibv_open_device fails then. The function may set context->num_comp_vectors (1 before).
  void* (*open_context)(ibv_context* context) = nullptr;

  // Runs in ibv_close_device with what open_context returned. The context is freed afterwards.
  void (*close_context)(ibv_context* context, void* object) = nullptr;

  ProviderOps ops = {};
};

// To be called from a constructor of the provider library.
void RegisterForkHandler();

// Registers with the libibverbs that is loaded in this process, unless that was done. May be called
// from any thread, and takes the dynamic linker's lock. Returns an empty string, or a sentence that
// says why it cannot work (no libibverbs loaded, a release without the needed entry points, the
// preload library missing). The layout of the installed release is calibrated when the first device
// is opened (the probe needs a device); a conflict found there is one line on stderr and
// ibv_open_device fails with EPROTONOSUPPORT.
[[nodiscard]] std::string RegisterProvider(const Provider& provider);

// Whether RegisterProvider has succeeded.
bool ProviderIsRegistered();

// The object that open_context returned for this context. Two loads: good for the data path.
void* ContextObject(ibv_context* context);

// The open device file of the context: contexts that ibv_import_device made of a duplicate of its
// descriptor have the same, and no others.
uint64_t DeviceFileOf(const ibv_context* context);

// Makes ibv_qp_to_qp_ex() accept this QP: ibv_wr_* work on it from then on. Only valid after a
// context was opened: that calibrates the offset of the mark.
void MarkExtendedQp(VerbsQp& qp);

// Length in bytes of struct ibv_qp_ex in the libibverbs that is loaded; the mark lies behind it.
// Only valid after a context was opened.
size_t ExtendedQpBytes();

}  // namespace uroce::verbs::abi
