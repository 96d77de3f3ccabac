#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dpdk_nic/port/dpdk/dpdk_library.h"

namespace uroce::nic {

// A port that the genuine library opened. The link layer is destroyed before the port.
struct OpenedPort {
  std::unique_ptr<PacketPort> port;
  std::unique_ptr<LinkLayer> link_layer;
  std::string error;  // set if there is no port
};

// The function that liburoce-dpdk.so exports; loads it as an application does.
OpenDpdkPortFunction TestedOpenFunction();

// Opens a port with that function.
OpenedPort OpenDpdkPort(const std::string& devargs, uint32_t mtu_bytes = 0,
                        const transport::Gid& ip = {});

// The program dpdk_peer in a process of its own. Killed with the object.
class Peer {
 public:
  struct Options {
    // Sends this many frames and exits; 0: sends every frame back that arrives.
    uint64_t frames = 0;
    // A file to enter first, such as /proc/1234/ns/net; none if empty.
    std::string network_namespace = {};
  };
  explicit Peer(const std::string& devargs) : Peer(devargs, Options{}) {}
  Peer(const std::string& devargs, const Options& options);
  ~Peer() { Kill(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Sends SIGKILL and waits for the end of the process.
  void Kill();

 private:
  pid_t pid_;
};

// Sends back the test frames of one burst. Drops other frames (a kernel's own).
void ReflectOnce(PacketPort* port);

// Numbered frames whose every byte follows from the number, out of one port and into another.
class Traffic {
 public:
  // Frames of `min_bytes` to `max_bytes` are sent.
  Traffic(PacketPort* port, size_t min_bytes, size_t max_bytes)
      : port_(port), min_bytes_(min_bytes), max_bytes_(max_bytes) {}

  // Sends up to 32 frames, as many as the port takes and at most `limit` in all.
  void Send(uint64_t limit = UINT64_MAX);
  // Takes the frames that have arrived and checks them.
  void Receive();

  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  uint64_t corrupt() const { return corrupt_; }
  uint64_t out_of_order() const { return out_of_order_; }  // a number not above the one before
  // Frames after the newest one received.
  uint64_t under_way() const { return received_ == 0 ? sent_ : sent_ - last_number_ - 1; }
  uint64_t lost() const {
    return received_ == 0 ? 0 : last_number_ - first_number_ + 1 - received_;
  }

 private:
  PacketPort* port_;
  size_t min_bytes_;
  size_t max_bytes_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t corrupt_ = 0;
  uint64_t out_of_order_ = 0;
  uint64_t first_number_ = 0;
  uint64_t last_number_ = 0;
};

// Calls `step` until it returns true; false if that does not happen within a generous time.
bool PollUntil(const std::function<bool()>& step,
               std::chrono::seconds patience = std::chrono::seconds(120));

// Whether `frames` frames of all lengths come back in order and unharmed.
bool AllComeBack(PacketPort* port, uint64_t frames);

// A path for a socket, of this process alone and short enough for an address.
std::string UniqueSocketPath();

}  // namespace uroce::nic
