#include "dpdk_nic/port/faults/impairments.h"

#include <charconv>
#include <locale>
#include <optional>
#include <sstream>
#include <string>

namespace uroce::nic {
namespace {

// Delayed frames are kept in memory, so the delay is bounded.
constexpr double kMaxDelayUs = 100'000;

constexpr std::string_view kExample =
    "write it like 'drop=1%,duplicate=1%,reorder=1%,corrupt=1%,delay=50us,seed=7'";

Error Wrong(std::string_view part, std::string_view reason) {
  return {"the impairment '" + std::string(part) + "' " + std::string(reason) + ": " +
          std::string(kExample)};
}

// The number before `unit`; nullopt unless the text is exactly that.
std::optional<double> NumberWithUnit(std::string_view text, std::string_view unit) {
  if (!text.ends_with(unit)) return std::nullopt;
  text.remove_suffix(unit.size());
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  double number = 0;
  if (!(stream >> std::noskipws >> number) || !stream.eof()) return std::nullopt;
  return number;
}

double* ProbabilityNamed(std::string_view name, Impairments& impairments) {
  if (name == "drop") return &impairments.drop;
  if (name == "duplicate") return &impairments.duplicate;
  if (name == "reorder") return &impairments.reorder;
  if (name == "corrupt") return &impairments.corrupt;
  return nullptr;
}

// Reads one part, "name=value". Returns what is wrong with it.
std::optional<Error> ParsePart(std::string_view part, Impairments& impairments) {
  const size_t equals = part.find('=');
  if (equals == std::string_view::npos) return Wrong(part, "has no '='");
  const std::string_view name = part.substr(0, equals);
  const std::string_view value = part.substr(equals + 1);

  if (double* probability = ProbabilityNamed(name, impairments)) {
    const auto percent = NumberWithUnit(value, "%");
    if (!percent || !(*percent >= 0 && *percent <= 100)) {
      return Wrong(part, "is not a percentage from 0% to 100%");
    }
    *probability = *percent / 100;
    return std::nullopt;
  }
  if (name == "delay") {
    const auto us = NumberWithUnit(value, "us");
    if (!us || !(*us >= 0 && *us <= kMaxDelayUs)) {
      return Wrong(part, "is not a time from 0us to 100000us");
    }
    impairments.delay = {static_cast<int64_t>(*us * 1'000)};
    return std::nullopt;
  }
  if (name == "seed") {
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, impairments.seed);
    if (error != std::errc{} || stop != end) return Wrong(part, "is not a whole number");
    return std::nullopt;
  }
  return Wrong(part, "is not known");
}

}  // namespace

ErrorOr<Impairments> ParseImpairments(std::string_view spec) {
  Impairments impairments;
  while (!spec.empty()) {
    const size_t comma = spec.find(',');
    if (auto error = ParsePart(spec.substr(0, comma), impairments)) return *error;
    if (comma == std::string_view::npos) break;
    spec.remove_prefix(comma + 1);
  }
  if (impairments.drop + impairments.duplicate + impairments.reorder + impairments.corrupt > 1) {
    return Error{"the impairments add up to more than 100%: each frame meets only one of them"};
  }
  return impairments;
}

}  // namespace uroce::nic
