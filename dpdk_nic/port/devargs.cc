#include "dpdk_nic/port/devargs.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>

#include "transport/wire/frame_builder.h"

namespace uroce::nic {
namespace {

using Driver = Devargs::Driver;

constexpr std::string_view kUdpDevice = "udp";  // there is only one, so it has no number

struct DriverKeys {
  std::string_view prefix;  // of device names: net_memif0, net_memif1, ...
  Driver driver;
  std::vector<std::string_view> keys;
};

const std::vector<DriverKeys>& KnownDrivers() {
  static const std::vector<DriverKeys> drivers = {
      {"net_memif",
       Driver::kMemif,
       {"role", "socket", "socket-abstract", "id", "bsize", "rsize", "mac", "secret"}},
      {"net_af_packet",
       Driver::kAfPacket,
       {"iface", "qpairs", "blocksz", "framesz", "framecnt", "qdisc_bypass"}},
      {"net_af_xdp", Driver::kAfXdp, {"iface", "start_queue", "busy_budget", "force_copy"}},
      {"net_ring", Driver::kRing, {}},
      {"net_null", Driver::kNull, {"size", "copy", "no-rx"}},
      {kUdpDevice, Driver::kUdp, {"address"}},
  };
  return drivers;
}

std::span<const std::string_view> KeysOf(Driver driver) {
  for (const DriverKeys& known : KnownDrivers()) {
    if (known.driver == driver) return known.keys;
  }
  return {};
}

std::string Join(std::span<const std::string_view> words) {
  std::string joined;
  for (std::string_view word : words) {
    if (!joined.empty()) joined += ", ";
    joined += word;
  }
  return joined;
}

// Whether `text` is of the form of `pattern`, where h stands for a hexadecimal digit.
bool HasForm(std::string_view text, std::string_view pattern) {
  if (text.size() != pattern.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool fits = pattern[i] == 'h' ? isxdigit(static_cast<unsigned char>(text[i])) != 0
                                        : text[i] == pattern[i];
    if (!fits) return false;
  }
  return true;
}

// Bus, device and function; with or without the domain. Functions are 0 to 7.
bool IsPciAddress(std::string_view text) {
  const bool has_form = HasForm(text, "hh:hh.h") || HasForm(text, "hhhh:hh:hh.h");
  return has_form && text.back() >= '0' && text.back() <= '7';
}

// Whether `text` is a whole decimal number from `low` to `high`.
bool IsNumberIn(std::string_view text, uint64_t low, uint64_t high) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() && value >= low &&
         value <= high;
}

bool Fail(std::string* error, std::string sentence) {
  *error = std::move(sentence);
  return false;
}

constexpr size_t kMaxSocketPathBytes = 107;  // sun_path without its terminator
// Frames are copied in and out of the ring's buffers; one frame must fit in one buffer. Buffers
// that are used one after the other must not be neighbours in memory: the hardware prefetcher would
// run from one into the next, which the peer is writing.
constexpr char kMemifBufferBytes[] = "6400";
constexpr char kMemifLog2RingSlots[] = "9";

}  // namespace

ErrorOr<Devargs> Devargs::Parse(std::string_view text) {
  Devargs devargs;
  Error error;
  const size_t device_end = std::min(text.find(','), text.size());
  if (!devargs.ParseDevice(text.substr(0, device_end), &error.sentence)) return error;
  std::string_view rest = text.substr(device_end);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find(','), rest.size());
    if (!devargs.ParseOption(rest.substr(0, end), &error.sentence)) return error;
    rest.remove_prefix(end);
  }
  switch (devargs.driver_) {
    case Driver::kMemif:
      if (!devargs.CheckMemif(&error.sentence)) return error;
      break;
    case Driver::kAfPacket:
    case Driver::kAfXdp:
      if (!devargs.CheckInterface(&error.sentence)) return error;
      break;
    case Driver::kNull:
      devargs.SetDefault("no-rx", "1");  // the driver would make up frames without end
      break;
    case Driver::kRing:
    case Driver::kPci:
    case Driver::kUdp:
      break;
  }
  return devargs;
}

bool Devargs::ParseDevice(std::string_view device, std::string* error) {
  device_ = device;
  for (const DriverKeys& known : KnownDrivers()) {
    if (!device.starts_with(known.prefix)) continue;
    const std::string_view number = device.substr(known.prefix.size());
    const bool is_udp = known.driver == Driver::kUdp;
    if (is_udp ? !number.empty() : !IsNumberIn(number, 0, 9'999)) continue;
    driver_ = known.driver;
    return true;
  }
  if (IsPciAddress(device_)) {
    const bool has_domain = std::count(device_.begin(), device_.end(), ':') == 2;
    if (!has_domain) device_ = "0000:" + device_;  // as DPDK names it
    driver_ = Driver::kPci;
    return true;
  }
  return Fail(error, "there is no port \"" + device_ +
                         "\"; use udp, net_memif0, net_af_packet0, net_af_xdp0, net_ring0, "
                         "net_null0 or a PCI address such as 0000:3b:00.0");
}

bool Devargs::ParseOption(std::string_view option, std::string* error) {
  const size_t equals = option.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == option.size()) {
    return Fail(error, "\"" + std::string(option) + "\" in the options of " + device_ +
                           " is not of the form key=value");
  }
  const std::string_view key = option.substr(0, equals);
  const std::string_view value = option.substr(equals + 1);
  if (key == "hugepages" && driver_ != Driver::kUdp) return TakeHugepages(value, error);
  if (Find(key) != nullptr) {
    return Fail(error, device_ + " is given " + std::string(key) + " twice");
  }
  const auto keys = KeysOf(driver_);
  const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
  if (!known && driver_ != Driver::kPci) {  // uroce does not know the keys of PCI drivers
    return Fail(error, device_ + " has no option \"" + std::string(key) + "\"; " +
                           (keys.empty() ? "it takes none" : "it takes " + Join(keys)));
  }
  options_.emplace_back(key, value);
  return true;
}

bool Devargs::TakeHugepages(std::string_view value, std::string* error) {
  if (value != "0" && value != "1") return Fail(error, "hugepages must be 0 or 1");
  hugepages_ = value == "1";
  return true;
}

bool Devargs::CheckMemif(std::string* error) {
  const std::string* role = Find("role");
  if (role == nullptr || (*role != "server" && *role != "client")) {
    return Fail(error, device_ + " needs role=server at one end and role=client at the other");
  }
  const std::string* socket = Find("socket");
  if (socket == nullptr) {
    return Fail(error, device_ + " needs socket=PATH, the same path at both ends");
  }
  if (socket->size() > kMaxSocketPathBytes) {
    return Fail(error, "the socket path of " + device_ + " is longer than " +
                           std::to_string(kMaxSocketPathBytes) + " bytes; choose a shorter one");
  }
  // A socket in the file system is found from other network namespaces too.
  SetDefault("socket-abstract", socket->front() == '/' ? "no" : "yes");
  const std::string& abstract = *Find("socket-abstract");
  if (abstract != "yes" && abstract != "no") {
    return Fail(error, "socket-abstract of " + device_ + " must be yes or no");
  }
  SetDefault("bsize", kMemifBufferBytes);
  SetDefault("rsize", kMemifLog2RingSlots);
  SetDefault("id", "0");
  if (!IsNumberIn(*Find("bsize"), transport::kMaxFrameBytes, 65'535)) {
    return Fail(error, "bsize of " + device_ + " must be from " +
                           std::to_string(transport::kMaxFrameBytes) +
                           " (the longest frame) to 65535");
  }
  if (!IsNumberIn(*Find("rsize"), 1, 14)) {
    return Fail(error, "rsize of " + device_ +
                           " is the binary logarithm of the ring's slots, "
                           "from 1 to 14");
  }
  if (!IsNumberIn(*Find("id"), 0, UINT32_MAX)) {
    return Fail(error, "id of " + device_ + " must be a number, the same at both ends");
  }
  return true;
}

bool Devargs::CheckInterface(std::string* error) const {
  if (Find("iface") == nullptr) return Fail(error, device_ + " needs iface=INTERFACE");
  const std::string* queue_pairs = Find("qpairs");
  if (queue_pairs != nullptr && *queue_pairs != "1") {
    return Fail(error, "uroce uses one queue pair of a port: leave qpairs out");
  }
  return true;
}

const std::string* Devargs::Find(std::string_view key) const {
  for (const auto& [name, value] : options_) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Devargs::SetDefault(std::string_view key, std::string value) {
  if (Find(key) == nullptr) options_.emplace_back(key, std::move(value));
}

std::string Devargs::DriverOptions() const {
  std::string text;
  for (const auto& [key, value] : options_) {
    if (!text.empty()) text += ",";
    text += key + "=" + value;
  }
  return text;
}

}  // namespace uroce::nic
