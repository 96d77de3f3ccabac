#pragma once

#include <optional>
#include <string>

#include "dpdk_nic/control/fabric_description.h"
#include "dpdk_nic/control/lease_messages.h"
#include "dpdk_nic/control/messages.h"

namespace uroce::nic::control {

// Why uroced refuses a process; the content of Refused.
struct Refusal {
  ErrnoValue error = 0;
  std::string sentence;
};

// Whether a descriptor of any kind is memory that cannot shrink, so that reading it never faults.
// Asks the kernel only: a file system of another process may never answer.
bool KeepsItsSize(int memory);

// Why the process that sent `hello` does not fit the fabric; nullopt if it does. EPROTO: its state
// is not in memory that keeps its size. EMSGSIZE: the MTU. EADDRNOTAVAIL: the address.
std::optional<Refusal> WhyNotToAttach(const Hello& hello, int published_state,
                                      const FabricDescription& fabric);

// nullopt if the fabric has the uplink that `uroce run` asks for.
std::optional<Refusal> WhyNotTheUplink(const LeaseRequest& wish, const FabricDescription& fabric);

// The sentences for what Registry::Attach and Leases::Add return.
std::string WhyNotAdmitted(ErrnoValue error);
std::string WhyNoLease(ErrnoValue error);

}  // namespace uroce::nic::control
