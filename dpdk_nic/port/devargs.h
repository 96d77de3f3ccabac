#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dpdk_nic/base/error_or.h"

namespace uroce::nic {

// The description of a port: "udp,address=10.0.0.1", or a DPDK port as in
// "net_memif0,role=server,socket=/run/user/1000/link" or "0000:3b:00.0". DPDK's drivers silently
// take defaults for keys they do not know, so the keys of every driver that the library carries are
// checked here.
class Devargs {
 public:
  enum class Driver { kMemif, kAfPacket, kAfXdp, kRing, kNull, kPci, kUdp };

  // Parses and checks; fills in what DPDK leaves open or chooses badly. For af_packet and af_xdp
  // that depends on the interface, so the caller fills it in (SetDefault).
  static ErrorOr<Devargs> Parse(std::string_view text);

  Driver driver() const { return driver_; }
  // "net_memif0", "udp" or the PCI address.
  const std::string& device() const { return device_; }

  // The value of `key`, or nullptr.
  const std::string* Find(std::string_view key) const;
  void SetDefault(std::string_view key, std::string value);

  // The options for the driver, as DPDK takes them: "role=server,socket=...".
  std::string DriverOptions() const;

  // uroce's own key, for every driver but udp; nullopt if it is not given.
  std::optional<bool> hugepages() const { return hugepages_; }

 private:
  bool ParseDevice(std::string_view device, std::string* error);
  bool ParseOption(std::string_view option, std::string* error);
  bool TakeHugepages(std::string_view value, std::string* error);
  bool CheckMemif(std::string* error);
  bool CheckInterface(std::string* error) const;

  Driver driver_ = Driver::kNull;
  std::string device_;
  std::vector<std::pair<std::string, std::string>> options_;
  std::optional<bool> hugepages_;
};

}  // namespace uroce::nic
