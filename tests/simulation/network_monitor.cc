#include "tests/simulation/network_monitor.h"

#include <cstdlib>
#include <utility>

namespace uroce::transport::simulation {

namespace {

// The opcodes of RC and XRC by their numbers (IBA table 38).
constexpr uint8_t kFirstResponse = 0x0d;
constexpr uint8_t kLastResponse = 0x12;
constexpr uint8_t kServiceBits = 0xe0;
constexpr uint8_t kXrc = 0xa0;

constexpr bool IsReliable(uint8_t opcode) {
  return (opcode & kServiceBits) == 0 || (opcode & kServiceBits) == kXrc;
}

}  // namespace

void NetworkMonitor::AddConnection(const WireMonitor::End& a, const WireMonitor::End& b) {
  saw_everything_ &= connected_.count(a.qp->qpn()) == 0 && connected_.count(b.qp->qpn()) == 0;
  monitor_.AddConnection(a, b);
  connected_[a.qp->qpn()] = {b.qp->qpn(), a.first_psn};
  connected_[b.qp->qpn()] = {a.qp->qpn(), b.first_psn};
}

void NetworkMonitor::Forget(Qpn qpn) { gone_.insert(qpn); }

NetworkMonitor::Address NetworkMonitor::AddressOf(std::span<const uint8_t> frame) {
  constexpr size_t kEtherTypeAt = 12;
  const bool ipv4 = frame.size() > kEtherTypeAt && frame[kEtherTypeAt] == 0x08;
  const size_t bth = 14 + (ipv4 ? 20u : 40u) + 8;
  if (frame.size() < bth + 12) return {};
  const auto word24 = [&](size_t at) {
    return uint32_t{frame[at]} << 16 | uint32_t{frame[at + 1]} << 8 | frame[at + 2];
  };
  return {Qpn{word24(bth + 5)}, Psn(word24(bth + 9)), frame[bth]};
}

bool NetworkMonitor::IsOfThePast(const Address& address) const {
  const auto to = connected_.find(address.destination);
  if (to == connected_.end() || !IsReliable(address.opcode)) return false;
  const uint8_t operation = address.opcode & ~kServiceBits;
  const bool is_response = operation >= kFirstResponse && operation <= kLastResponse;
  const auto requester = is_response ? to : connected_.find(to->second.peer);
  if (requester == connected_.end()) return true;
  const int32_t distance = address.psn.DistanceFrom(requester->second.first_psn);
  return distance < -1 || distance >= kPsnsOfASession;
}

void NetworkMonitor::OnSent(std::span<const uint8_t> frame) {
  if (gone_.count(AddressOf(frame).destination) == 0) monitor_.OnSent(frame);
}

void NetworkMonitor::OnDelivered(std::span<const uint8_t> frame) {
  const Address address = AddressOf(frame);
  if (gone_.count(address.destination) != 0) return;
  if (IsOfThePast(address)) {
    connected_.at(address.destination).met_the_past = true;
    return;
  }
  monitor_.OnDelivered(frame);
}

void NetworkMonitor::OnImpaired(std::span<const uint8_t> frame) {
  const Address address = AddressOf(frame);
  const auto to = connected_.find(address.destination);
  if (to != connected_.end()) to->second.impaired = true;
  if (gone_.count(address.destination) == 0) monitor_.OnImpaired(frame);
}

bool NetworkMonitor::RetriesMayBeExceeded(Qpn requester) const {
  // A NAK for a request of the earlier connection makes the present requester go back.
  const Connected& own = connected_.at(requester);
  const auto peer = connected_.find(own.peer);
  return own.met_the_past || (peer != connected_.end() && peer->second.met_the_past) ||
         monitor_.RetriesMayBeExceeded(requester);
}

bool NetworkMonitor::RnrRetriesMayBeExceeded(Qpn requester) const {
  return monitor_.RnrRetriesMayBeExceeded(requester);
}

bool NetworkMonitor::WasImpaired(Qpn qpn) const { return connected_.at(qpn).impaired; }

void NetworkMonitor::CheckCounters(const Endpoint& endpoint) {
  if (saw_everything_ && gone_.empty()) monitor_.CheckCounters(endpoint);
}

}  // namespace uroce::transport::simulation
