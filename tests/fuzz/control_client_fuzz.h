#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/control_address.h"
#include "tests/fuzz/control_stream.h"
#include "tests/fuzz/record.h"

namespace uroce::nic::control {

// A ControlClient with a uroced that comes and goes and sends anything.
class ControlClientFuzz {
 public:
  ControlClientFuzz();
  void Step(transport::Record record);
  void Finish();

 private:
  void StartOrEndUroced();
  void Accept();
  void HangUp();
  void Say(std::span<const uint8_t> bytes, std::span<const size_t> descriptors);
  template <Message T>
  void SayMessage(const T& message, size_t first_descriptor = 1);
  void SayWelcome(Block block, uint32_t gid_count, size_t claim = 1);
  void SayAnyWelcome(transport::Record& record);
  void SayAnything(transport::Record& record);
  void Hear();
  void HearAll();

  void Serve();
  void RequireAnswerWas(ControlClient::State state);
  // False if there was nothing to take.
  bool Take();
  void ServeAndTakeAll();
  void Send(transport::Record& record);
  void WaitAndServe();
  // Whether the connection has a fault for which the client must leave it.
  bool HasCauseToLeave() const;

  const std::string fabric_;
  std::optional<FabricListener> listener_;
  MessageChannel uroced_{UniqueFd()};  // uroced's end of the client's connection
  MessageChannel::Incoming incoming_;
  bool hung_up_ = true;          // there is no connection, or uroced has ended it
  bool deaf_ = false;            // uroced has stopped reading
  bool knows_deafness_ = false;  // the client has tried to send since then
  ControlStream to_client_;
  ControlStream to_uroced_;

  ControlClient client_;
  const int wait_fd_;
  Block block_ = 0;  // of the client; 0: none yet
  uint32_t attachments_ = 0;
  size_t claim_ = 0;  // known descriptor that came with the last Welcome
};

}  // namespace uroce::nic::control
