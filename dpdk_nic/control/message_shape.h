#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "dpdk_nic/control/lease_messages.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/status_messages.h"
#include "dpdk_nic/control/wire_messages.h"

namespace uroce::nic::control {

// What every message of a type looks like.
struct MessageShape {
  uint32_t bytes;  // of the body
  uint32_t descriptors;
};

template <Message... T>
struct MessageList {
  // Padding would be whatever lay on the stack, and would leave the process.
  static_assert((std::has_unique_object_representations_v<T> && ...));

  template <Message U>
  static constexpr bool kHas = (std::is_same_v<T, U> || ...);

  // Nothing if there is no such message.
  static constexpr std::optional<MessageShape> ShapeOf(MessageType type) {
    std::optional<MessageShape> shape;
    ((T::kType == type ? void(shape = {sizeof(T), T::kDescriptors}) : void()), ...);
    return shape;
  }
};

using AllMessages =
    MessageList<Hello, LinkRequest, Resolve, Declare, Forget, JoinGroup, LeaveGroup, Listen,
                Unlisten, LeaseRequest, StatusRequest, Resume, Welcome, Refused, LinkAnswer,
                LinkOffer, Neighbor, DeclareAnswer, GroupAnswer, ListenAnswer, UnlistenAnswer,
                PortState, Addresses, Notice, WireSocket, WireDrops, LeaseGranted, StatusDaemon,
                StatusClient, StatusLink, StatusEnd>;

}  // namespace uroce::nic::control
