#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "verbs_provider/virtual_kernel/base/fd_table.h"
#include "verbs_provider/virtual_kernel/device/provider_functions.h"

namespace uroce::verbs::virtual_kernel {

// An open /dev/infiniband/rdma_cm. The provider runs the commands that are written to it. Its
// descriptor is the read end of a pipe with one byte for each event that can be fetched: poll,
// epoll, blocking, O_NONBLOCK, signals and cancellation behave as with the kernel's own file.
class RdmaCmFile : public OpenFile {
 public:
  // Returns the application's descriptor, already in the table; or -1 with errno. `flags` as of
  // open().
  static int Open(int flags, const RdmaCmFunctions& provider);

  RdmaCmFile(PrivateFd read_end, PrivateFd write_end, const RdmaCmFunctions& provider)
      : OpenFile(FileKind::kRdmaCm),
        provider_(provider),
        read_end_(std::move(read_end)),
        write_end_(std::move(write_end)) {}
  ~RdmaCmFile() override;

  // write() on a descriptor of this file. GET_EVENT waits for an event as the descriptor would, and
  // goes on waiting if another thread closes the descriptor, as a system call does.
  ssize_t Write(const void* data, size_t bytes);

 private:
  static void OnEvents(void* file, int delta);

  const RdmaCmFunctions& provider_;
  uroce_rdma_cm* channel_ = nullptr;
  PrivateFd opened_;    // the application's own file, by a descriptor that it cannot close
  PrivateFd read_end_;  // does not block, whatever the application's own does
  PrivateFd write_end_;
};

}  // namespace uroce::verbs::virtual_kernel
