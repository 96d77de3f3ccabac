#pragma once

#include <memory>

#include "dpdk_nic/control/message_channel.h"
#include "tests/fuzz/control_stream.h"
#include "tests/fuzz/record.h"

namespace uroce::nic::control {

// A MessageChannel whose peer sends anything and reads at any time.
class ControlChannelFuzz {
 public:
  ControlChannelFuzz();
  void Step(transport::Record record);
  void Finish();

 private:
  void Connect();
  void Say(std::span<const uint8_t> bytes, std::span<const size_t> descriptors);
  void SayBytes(transport::Record& record);
  void SayMessage(transport::Record& record);
  // False if there was nothing to receive.
  bool Receive();
  template <Message T>
  bool Send(uint8_t filling, size_t first_descriptor);
  void SendMany(transport::Record& record);
  void Read(size_t bytes);

  UniqueFd peer_;
  MessageChannel channel_{UniqueFd()};
  MessageChannel::Incoming incoming_;
  ControlStream to_channel_;
  ControlStream to_peer_;
  bool closed_ = false;  // Receive has reported it
};

}  // namespace uroce::nic::control
