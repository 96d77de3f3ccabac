#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/xrc_messages.h"
#include "dpdk_nic/port/packet_port.h"

namespace uroce::nic {

// The XRC domains that a process has opened at uroced (PacketPort::OpenXrcDomain). A new uroced is
// told all of them again. No call blocks. Serve sends what cannot be sent now.
class FabricXrcDomains {
 public:
  explicit FabricXrcDomains(control::ControlClient& client) : client_(client) {}

  PacketPort::XrcOpening Open(const PacketPort::XrcDomain& domain);
  void Close(uint64_t handle);
  bool IsClosed(uint64_t handle) const { return !closing_.contains(handle); }

  void OnAnswer(const control::XrcDomainAnswer& answer);
  void OnClosed(const control::XrcDomainClosed& answer) { closing_.erase(answer.handle); }
  // The process has attached to another uroced than before.
  void OnReattached();
  void Serve();

 private:
  struct Entry {
    control::OpenXrcDomain message{};
    int file = -1;  // the caller's
    bool is_sent = false;
    bool is_answered = false;
    control::ErrnoValue error = 0;
  };

  void Send(Entry& entry);

  control::ControlClient& client_;
  std::map<uint64_t, Entry> entries_;  // by handle
  std::map<uint64_t, bool> closing_;   // by handle: whether uroced was told
};

}  // namespace uroce::nic
