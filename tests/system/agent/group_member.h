#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/system/verbs/device.h"
#include "tests/system/verbs/handles.h"

namespace agent {

// A datagram queue pair in a multicast group.
class GroupMember {
 public:
  // A transient group of global scope (RFC 4291).
  static constexpr const char* kDefaultGroup = "ff1e::1234";

  // Sends from the GID of `gid_index`. Throws std::runtime_error, as every member does.
  GroupMember(const system_test::Device& device, const ibv_gid& group, uint8_t gid_index);
  ~GroupMember();
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  // Sends the group a datagram that holds nothing but the value.
  void Send(uint8_t value);
  // How many complete datagrams with that value have arrived so far.
  uint64_t CountReceived(uint8_t value);

 private:
  static constexpr uint32_t kDatagramBytes = 1'000;
  static constexpr uint32_t kGlobalHeaderBytes = 40;
  static constexpr size_t kReceives = 64;
  static constexpr size_t kSlotBytes = kGlobalHeaderBytes + kDatagramBytes;

  ibv_sge Slot(size_t index);
  void ToReadyToSend(uint8_t gid_index);
  void PostReceive(size_t index);
  void Handle(const ibv_wc& completion);

  const ibv_gid group_;
  std::vector<uint8_t> memory_;  // a slot for each receive, and one to send from
  system_test::DomainHandle domain_;
  system_test::RegionHandle region_;
  system_test::QueueHandle completions_;
  system_test::QueuePairHandle queue_pair_;
  ibv_ah* group_address_ = nullptr;
  bool is_sending_ = false;
  std::array<uint64_t, 256> received_{};
};

}  // namespace agent
