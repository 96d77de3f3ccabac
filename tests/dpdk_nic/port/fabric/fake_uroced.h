#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/message_channel.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/wire_messages.h"
#include "dpdk_nic/port/fabric/fabric_port.h"
#include "dpdk_nic/port/ring/ring_link.h"

namespace uroce::nic {

// Stands in for uroced: gives out blocks and passes links on. Works only inside Serve and Attach,
// on the caller's thread. The test chooses the other answers.
class FakeUroced {
 public:
  // `like` is the Welcome of every client, but for the block.
  explicit FakeUroced(const std::string& fabric, control::Welcome like = LocalFabric());
  static control::Welcome LocalFabric();
  // A fabric with a NIC that has the address 10.0.0.1.
  static control::Welcome WiredFabric();

  struct Client {
    explicit Client(UniqueFd socket) : channel(std::move(socket)) {}
    control::MessageChannel channel;
    control::Resume said{};  // a Hello counts as a Resume of no block
    control::Block block = 0;
    uint32_t offers_sent = 0;
    std::unique_ptr<RingLink> uplink;
    std::vector<control::Block> requests;  // for links
    std::vector<control::Declare> declared;
    std::vector<transport::Qpn> forgotten;
    std::vector<transport::Gid> joined;
    std::vector<transport::Gid> left;
    std::vector<transport::Gid> resolved;
    std::vector<control::OpenXrcDomain> opened;
    std::vector<uint64_t> closed;
    PortDrops drops;
  };

  // Handles all connections and messages that have arrived.
  void Serve();
  // Serves while `port` attaches.
  void Attach(FabricPort& port);

  Client& client(control::Block block);
  bool has_client(control::Block block) const;

  // Gives this block to the next process.
  void GiveOutNext(control::Block block) { next_block_ = block; }
  // Refuses the next Hello with this sentence.
  void RefuseWith(const std::string& sentence) { refusal_ = sentence; }
  // The answer to a request for a link; 0 passes the link on.
  std::function<control::ErrnoValue(control::Block asker, control::Block other)> link_error;
  // Whether requests stay unanswered; their descriptors are kept.
  bool ignores_links = false;
  // The descriptors of requests that it ignored: memory, socket, memory ...
  const std::vector<UniqueFd>& kept() const { return kept_; }
  std::function<control::ErrnoValue(const control::Declare&)> declare_error;
  uint32_t path_mtu_bytes = 0;  // of its answers to declarations
  std::function<control::ErrnoValue(const transport::Gid&)> join_error;
  std::function<control::ErrnoValue(const control::Listen&)> listen_error;
  control::ErrnoValue xrc_error = 0;  // of its answers to openings of XRC domains

 private:
  void OnHello(Client& client, const control::Resume& said);
  void OnMessage(Client& client, control::MessageChannel::Incoming& message);
  void OnLinkRequest(Client& client, const control::LinkRequest& request,
                     control::MessageChannel::Incoming& message);
  control::ErrnoValue Link(Client& client, const control::LinkRequest& request,
                           control::MessageChannel::Incoming& message);

  std::optional<control::FabricListener> listener_;
  const control::Welcome like_;
  std::string refusal_;
  std::list<Client> clients_;
  std::vector<UniqueFd> kept_;
  control::Block next_block_ = 5;
};

}  // namespace uroce::nic
