#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "transport/cm/connection_manager.h"
#include "verbs_provider/rdma_cm/agent.h"
#include "verbs_provider/virtual_kernel/rdma_cm/rdma_cm_file.h"

struct uroce_rdma_cm;

namespace uroce::verbs::rdma_cm {

// A process with rdma_cm: files of the virtual kernel, the agent for them and its connection
// manager. Addresses of its device come and go, and the device fails on demand.
class UcmaProcess {
 public:
  UcmaProcess(uint8_t number, const transport::Time& now, bool has_wire);
  ~UcmaProcess();
  UcmaProcess(const UcmaProcess&) = delete;
  UcmaProcess& operator=(const UcmaProcess&) = delete;

  // Returns a non-blocking descriptor.
  int OpenFile();
  void CloseFile(int fd);
  const std::map<int, uroce_rdma_cm*>& files() const { return files_; }
  // write(): 0 or an errno value.
  static int Write(int fd, const void* data, size_t bytes);
  // Events that can be fetched, according to the descriptor.
  static int CountTokens(int fd);
  bool HasEvent(int fd) const;

  Agent& agent() { return agent_; }
  transport::cm::ConnectionManager& manager() { return manager_; }
  const std::vector<transport::Gid>& gids() const { return gids_; }
  std::optional<uint8_t> IndexOf(const transport::Gid& gid) const;
  // Any address but the first, the link-local one.
  void AddOrRemoveAddress(size_t number);
  void FailNextReservation(int error) { reservation_error_ = error; }
  void FailNextOpen(int error) { open_error_ = error; }
  bool has_open_device() const { return has_open_device_; }

 private:
  friend struct UcmaProvider;
  class Device;

  const transport::Time& now_;
  const bool has_wire_;
  const std::vector<transport::Gid> all_gids_;
  std::vector<transport::Gid> gids_;
  std::vector<Service> services_;
  int reservation_error_ = 0;
  int open_error_ = 0;
  bool has_open_device_ = false;
  transport::cm::ConnectionManager manager_;
  Agent agent_;
  std::map<int, uroce_rdma_cm*> files_;
};

}  // namespace uroce::verbs::rdma_cm
