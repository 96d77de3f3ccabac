#include "dpdk_nic/port/fabric/fabric_xrc_domains.h"

#include <array>

namespace uroce::nic {

PacketPort::XrcOpening FabricXrcDomains::Open(const PacketPort::XrcDomain& domain) {
  const auto [found, is_new] = entries_.try_emplace(domain.handle);
  Entry& entry = found->second;
  if (is_new) {
    entry.message = {.handle = domain.handle,
                     .key = {},
                     .creates = domain.creates,
                     .exclusive = domain.exclusive};
    entry.file = domain.fd;
  }
  Send(entry);
  if (!entry.is_answered) return {};
  const PacketPort::XrcOpening opening = {true, entry.error, entry.message.key};
  if (entry.error != 0) entries_.erase(found);
  return opening;
}

void FabricXrcDomains::Close(uint64_t handle) {
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return;
  if (found->second.is_sent) closing_[handle] = client_.Send(control::CloseXrcDomain{handle});
  entries_.erase(found);
}

void FabricXrcDomains::Send(Entry& entry) {
  if (entry.is_sent) return;
  entry.is_sent = client_.Send(entry.message,
                               std::array<int, control::OpenXrcDomain::kDescriptors>{entry.file});
}

void FabricXrcDomains::OnAnswer(const control::XrcDomainAnswer& answer) {
  const auto found = entries_.find(answer.handle);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  // A domain that was opened before keeps its key, whatever the new uroced says.
  if (entry.is_answered) return;
  entry.is_answered = true;
  entry.error = answer.error;
  entry.message.key = answer.key;
}

void FabricXrcDomains::OnReattached() {
  closing_.clear();
  for (auto& [handle, entry] : entries_) entry.is_sent = false;
  Serve();
}

void FabricXrcDomains::Serve() {
  for (auto& [handle, entry] : entries_) Send(entry);
  for (auto& [handle, is_told] : closing_) {
    if (!is_told) is_told = client_.Send(control::CloseXrcDomain{handle});
  }
}

}  // namespace uroce::nic
