#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "dpdk_nic/control/lease_messages.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/status_messages.h"
#include "dpdk_nic/control/wire_messages.h"
#include "dpdk_nic/control/xrc_messages.h"

namespace uroce::nic::control {

// The shape that every message of a type has.
struct MessageShape {
  uint32_t bytes;  // of the body
  uint32_t descriptors;
};

template <Message... T>
struct MessageList {
  // Padding would send bytes of the stack to another process.
  static_assert((std::has_unique_object_representations_v<T> && ...));

  template <Message U>
  static constexpr bool kHas = (std::is_same_v<T, U> || ...);

  // nullopt if there is no such message.
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
                StatusClient, StatusLink, StatusEnd, OpenXrcDomain, CloseXrcDomain, XrcDomainAnswer,
                XrcDomainClosed>;

}  // namespace uroce::nic::control
