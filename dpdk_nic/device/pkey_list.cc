#include "dpdk_nic/device/pkey_list.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "transport/pkey.h"

namespace uroce::nic {
namespace {

using transport::PartitionOf;

std::optional<uint16_t> ParsePkey(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint16_t pkey = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, pkey, base);
  if (error != std::errc{} || stop != end || PartitionOf(pkey) == 0) return std::nullopt;
  return pkey;
}

}  // namespace

ErrorOr<std::vector<uint16_t>> ParsePkeys(std::string_view list) {
  std::vector<uint16_t> table{transport::kDefaultPkey};
  for (bool is_last = false; !is_last;) {
    const size_t comma = list.find(',');
    is_last = comma == std::string_view::npos;
    const auto pkey = ParsePkey(list.substr(0, comma));
    if (!pkey) {
      return Error{
          "give P_Keys with commas between them, such as 0x8001,0x0002: a partition from 1 to "
          "0x7ffe, and 0x8000 more of which the device is a full member"};
    }
    const bool is_known = std::any_of(table.begin(), table.end(), [&](uint16_t known) {
      return PartitionOf(known) == PartitionOf(*pkey);
    });
    if (is_known) {
      return Error{"name each partition once, and not 0x7fff, which every device is in"};
    }
    if (table.size() == transport::kMaxPkeys) {
      return Error{"give at most " + std::to_string(transport::kMaxPkeys - 1) + " P_Keys"};
    }
    table.push_back(*pkey);
    if (!is_last) list.remove_prefix(comma + 1);
  }
  return table;
}

}  // namespace uroce::nic
