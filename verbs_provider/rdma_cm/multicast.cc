// rdma_join_multicast of Linux for RoCE: there is no subnet manager to ask, so a group is joined at
// once. The queue pair is attached by the application (ibv_attach_mcast).
#include <algorithm>
#include <cerrno>

#include "verbs_provider/rdma_cm/agent.h"
#include "verbs_provider/rdma_cm/uverbs_structs.h"

namespace uroce::verbs::rdma_cm {
namespace {

constexpr uint32_t kMulticastQpn = 0xff'ffff;
constexpr uint8_t kMulticastHopLimit = 1;

}  // namespace

int Agent::Join(Id& id, uint64_t uid, const SocketAddress& group, uint32_t& handle) {
  const bool is_resolved =
      id.state == IdState::kAddressResolved || id.state == IdState::kRouteResolved;
  if (!id.has_device || !id.is_datagram()) return EINVAL;
  if (!is_resolved && id.state != IdState::kAddressBound) return EINVAL;
  if (const int error = ChooseQkey(id, 0)) return error;

  // cma_iboe_set_mgid: the group's GID is its IP address.
  transport::AddressVector address;
  address.destination_gid = group.IsAny() ? transport::Gid{} : group.gid;
  address.hop_limit = kMulticastHopLimit;
  address.traffic_class = id.type_of_service;
  const auto& gids = device_->facts().gids;
  if (id.path) {
    address.source_gid_index = id.path->address.source_gid_index;
  } else if (const auto own = std::find(gids.begin(), gids.end(), id.address().gid);
             own != gids.end()) {
    address.source_gid_index = static_cast<uint8_t>(own - gids.begin());
  } else {
    for (size_t i = gids.size(); i-- > 0;) {
      const bool fits = gids[i].IsIpv4Mapped() == address.destination_gid.IsIpv4Mapped();
      if (fits && !gids[i].IsZero()) {
        address.source_gid_index = static_cast<uint8_t>(i);
      }
    }
  }

  auto member = std::make_unique<Multicast>();
  Multicast* const joined = member.get();
  joined->uid = uid;
  joined->id = &id;
  joined->handle = handle = multicasts_.Add(std::move(member));

  QueuedEvent event;
  event.id = &id;
  event.multicast = joined;
  event.response.uid = uid;
  event.response.id = joined->handle;
  event.response.event = static_cast<uint32_t>(UserEvent::kMulticastJoin);
  event.response.param.ud.qp_num = kMulticastQpn;
  event.response.param.ud.qkey = id.qkey;
  event.response.param.ud.ah_attr = ToUser(address);
  id.channel->Push(std::move(event));
  return 0;
}

int Agent::Leave(const Channel& channel, uint32_t handle, uint32_t& events_reported) {
  Multicast* const member = multicasts_.Find(handle);
  if (member == nullptr) return ENOENT;
  if (member->id->channel != &channel) return EINVAL;
  if (member->id->state == IdState::kDeviceRemoved) return ENXIO;
  events_reported = Forget(*member);
  return 0;
}

// Returns how many events of `member` were reported.
uint32_t Agent::Forget(const Multicast& member) {
  member.id->channel->Take([&](const QueuedEvent& event) { return event.multicast == &member; });
  return multicasts_.Remove(member.handle)->events_reported;
}

void Agent::LeaveAll(Id& id) {
  std::vector<const Multicast*> members;
  multicasts_.ForEach([&](const Multicast& member) {
    if (member.id == &id) members.push_back(&member);
  });
  for (const Multicast* member : members) (void)Forget(*member);
}

}  // namespace uroce::verbs::rdma_cm
