#include "dpdk_nic/port/faults/fault_scenario.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "transport/wire/frame_builder.h"
#include "transport/wire/opcode.h"
#include "transport/wire/printer.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::json;
using Kind = FaultAction::Kind;
using Part = FaultAction::Part;
using Problem = std::optional<Error>;

constexpr size_t kMaxFileBytes = 1 << 20;
// Every packet is compared with every rule.
constexpr size_t kMaxRules = 1'000;
// Frames held back are kept in memory, so both delay and reordering are bounded.
constexpr uint64_t kMaxDelayUs = 100'000;
constexpr uint64_t kMaxFramesToPass = 256;

struct ActionName {
  std::string_view name;
  Kind kind;
  std::string_view parameter;  // the key that only this action has
};

constexpr std::array kActions = {
    ActionName{"drop", Kind::kDrop, ""},          ActionName{"duplicate", Kind::kDuplicate, ""},
    ActionName{"delay", Kind::kDelay, "us"},      ActionName{"reorder", Kind::kReorder, "frames"},
    ActionName{"ecn", Kind::kMarkCongestion, ""}, ActionName{"corrupt", Kind::kCorrupt, "at"},
};

// Reads one rule. `where` names the rule in errors.
class RuleReader {
 public:
  RuleReader(const Json& rule, std::string where) : rule_(rule), where_(std::move(where)) {}

  Problem Read(FaultRule& rule);

 private:
  Error Wrong(const std::string& what) const { return {where_ + ": " + what}; }
  // A value as it is written, without quotes. nullopt if the key is missing.
  std::optional<std::string> Find(std::string_view key) const;

  Problem CheckKeys() const;
  Problem ReadNumber(const char* key, uint64_t low, uint64_t high, std::optional<uint64_t>& out);
  Problem ReadDirection(FaultMatch& match) const;
  Problem ReadQpn(FaultMatch& match);
  Problem ReadPsn(FaultMatch& match);
  Problem ReadOpcode(FaultMatch& match) const;
  Problem ReadNth(FaultMatch& match);
  Problem ReadAction(FaultAction& action);
  Problem ReadParameter(const ActionName& named, FaultAction& action);
  Problem ReadPart(FaultAction& action);

  const Json& rule_;
  const std::string where_;
};

// Decimal, or hexadecimal with 0x; nullopt unless the text is exactly that.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, hexadecimal ? 16 : 10);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// The opcodes whose names are `name` or continue it: RC_SEND means every SEND of RC.
std::bitset<256> OpcodesNamed(std::string_view name) {
  std::bitset<256> found;
  for (size_t code = 0; code < found.size(); ++code) {
    const auto opcode = transport::ParseOpcode(static_cast<uint8_t>(code));
    if (!opcode) continue;
    found[code] = (transport::ToString(*opcode) + "_").starts_with(std::string(name) + "_");
  }
  return found;
}

std::optional<std::string> RuleReader::Find(std::string_view key) const {
  const auto found = rule_.find(key);
  if (found == rule_.end()) return std::nullopt;
  return found->is_string() ? found->get<std::string>() : found->dump();
}

Problem RuleReader::CheckKeys() const {
  constexpr std::string_view kKeys[] = {"comment",    "direction", "qpn", "psn",
                                        "psn_offset", "opcode",    "nth", "action",
                                        "us",         "frames",    "at"};
  for (const auto& [key, value] : rule_.items()) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      return Wrong("unknown key '" + key +
                   "': use direction, qpn, psn, psn_offset, opcode, nth, action, us, frames, at, "
                   "comment");
    }
    if (value.is_structured()) return Wrong("'" + key + "' is a list or an object: give one value");
  }
  return std::nullopt;
}

Problem RuleReader::ReadNumber(const char* key, uint64_t low, uint64_t high,
                               std::optional<uint64_t>& out) {
  const auto text = Find(key);
  if (!text) return std::nullopt;
  out = ParseNumber(*text);
  if (out && *out >= low && *out <= high) return std::nullopt;
  return Wrong(std::string("'") + key + "' is '" + *text + "': give a whole number from " +
               std::to_string(low) + " to " + std::to_string(high) +
               ", hexadecimal in quotes as \"0x1f\"");
}

Problem RuleReader::ReadDirection(FaultMatch& match) const {
  const auto text = Find("direction");
  if (!text) return std::nullopt;
  if (*text != "sent" && *text != "received") {
    return Wrong("'direction' is '" + *text + "': choose 'sent' or 'received'");
  }
  match.direction = *text == "sent" ? FaultDirection::kSent : FaultDirection::kReceived;
  return std::nullopt;
}

Problem RuleReader::ReadQpn(FaultMatch& match) {
  if (const auto text = Find("qpn"); text == "any") return std::nullopt;
  std::optional<uint64_t> qpn;
  if (auto problem = ReadNumber("qpn", 0, transport::kMaxQpn, qpn)) return problem;
  if (qpn) match.qpn = transport::Qpn{static_cast<uint32_t>(*qpn)};
  return std::nullopt;
}

Problem RuleReader::ReadPsn(FaultMatch& match) {
  std::optional<uint64_t> psn;
  std::optional<uint64_t> offset;
  if (auto problem = ReadNumber("psn", 0, transport::Psn::kMask, psn)) return problem;
  if (auto problem = ReadNumber("psn_offset", 0, transport::Psn::kMask, offset)) return problem;
  if (psn && offset) return Wrong("'psn' and 'psn_offset' exclude each other: keep one of them");
  if (psn) match.psn = transport::Psn(static_cast<uint32_t>(*psn));
  if (offset) match.psn_offset = static_cast<uint32_t>(*offset);
  return std::nullopt;
}

Problem RuleReader::ReadOpcode(FaultMatch& match) const {
  const auto text = Find("opcode");
  if (!text) return std::nullopt;
  match.opcodes = OpcodesNamed(*text);
  if (match.opcodes.any()) return std::nullopt;
  return Wrong("unknown opcode '" + *text +
               "': write it like RC_SEND_MIDDLE, RC_READ_RESPONSE or RC_ACKNOWLEDGE");
}

Problem RuleReader::ReadNth(FaultMatch& match) {
  if (const auto text = Find("nth"); text == "every") {
    match.nth.reset();
    return std::nullopt;
  }
  std::optional<uint64_t> nth;
  if (auto problem = ReadNumber("nth", 1, UINT32_MAX, nth)) return problem;
  if (nth) match.nth = static_cast<uint32_t>(*nth);
  return std::nullopt;
}

Problem RuleReader::ReadAction(FaultAction& action) {
  const auto text = Find("action");
  const auto named = std::find_if(kActions.begin(), kActions.end(),
                                  [&](const ActionName& a) { return text == a.name; });
  if (named == kActions.end()) {
    return Wrong((!text ? "has no 'action'" : "unknown action '" + *text + "'") +
                 ": choose drop, duplicate, delay, reorder, ecn or corrupt");
  }
  action.kind = named->kind;
  for (const ActionName& other : kActions) {
    if (other.kind == named->kind || !Find(other.parameter)) continue;
    return Wrong("'" + std::string(other.parameter) + "' belongs to the action '" +
                 std::string(other.name) + "': leave it out");
  }
  if (named->parameter.empty()) return std::nullopt;
  if (!Find(named->parameter)) {
    return Wrong("the action '" + *text + "' needs '" + std::string(named->parameter) +
                 "': see 'man uroce-faults'");
  }
  return ReadParameter(*named, action);
}

Problem RuleReader::ReadParameter(const ActionName& named, FaultAction& action) {
  std::optional<uint64_t> number;
  switch (named.kind) {
    case Kind::kDelay:
      if (auto problem = ReadNumber("us", 1, kMaxDelayUs, number)) return problem;
      action.delay = transport::Microseconds(static_cast<int64_t>(*number));
      return std::nullopt;
    case Kind::kReorder:
      if (auto problem = ReadNumber("frames", 1, kMaxFramesToPass, number)) return problem;
      action.frames = static_cast<uint32_t>(*number);
      return std::nullopt;
    default:
      return ReadPart(action);
  }
}

Problem RuleReader::ReadPart(FaultAction& action) {
  const std::string text = *Find("at");
  constexpr std::pair<std::string_view, Part> kParts[] = {
      {"bth", Part::kBth}, {"payload", Part::kPayload}, {"icrc", Part::kIcrc}};
  for (const auto& [name, part] : kParts) {
    if (text != name) continue;
    action.part = part;
    return std::nullopt;
  }
  const auto offset = ParseNumber(text);
  if (!offset || *offset >= transport::kMaxFrameBytes) {
    return Wrong("'at' is '" + text +
                 "': choose 'bth', 'payload' or 'icrc', or give the offset of a byte in the frame");
  }
  action.part = Part::kOffset;
  action.offset = *offset;
  return std::nullopt;
}

Problem RuleReader::Read(FaultRule& rule) {
  if (!rule_.is_object() || rule_.empty())
    return Wrong("is not an object: write it like {\"action\": \"drop\"}");
  if (auto problem = CheckKeys()) return problem;
  if (auto problem = ReadDirection(rule.match)) return problem;
  if (auto problem = ReadQpn(rule.match)) return problem;
  if (auto problem = ReadPsn(rule.match)) return problem;
  if (auto problem = ReadOpcode(rule.match)) return problem;
  if (auto problem = ReadNth(rule.match)) return problem;
  return ReadAction(rule.action);
}

// Finds a key that occurs twice in an object: the JSON parser silently keeps its last value.
class KeyCheck {
 public:
  explicit KeyCheck(const std::string& name) : name_(name) {}

  void OnEvent(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
      if (keys_.size() == 2) ++rule_;
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const std::string key = parsed;
      if (keys_.back().insert(key).second || problem_) return;
      const std::string where = keys_.size() == 1 ? "" : ", rule " + std::to_string(rule_);
      problem_ = Error{name_ + where + ": '" + key + "' is there twice: keep one of them"};
    }
  }
  const Problem& problem() const { return problem_; }

 private:
  const std::string& name_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  int rule_ = 0;
  Problem problem_;
};

ErrorOr<FaultScenario> ReadRules(const Json& rules, const std::string& name) {
  if (rules.is_object()) return Error{name + ": 'rules' is an object: give a list of rules"};
  if (!rules.is_array() || rules.empty()) {
    return Error{name + " has no rules: give a list as 'rules'"};
  }
  FaultScenario scenario;
  for (const Json& rule : rules) {
    const std::string where = name + ", rule " + std::to_string(scenario.rules.size() + 1);
    if (auto problem = RuleReader(rule, where).Read(scenario.rules.emplace_back())) return *problem;
  }
  if (scenario.rules.size() > kMaxRules) {
    return Error{name + " has more than " + std::to_string(kMaxRules) + " rules: give fewer"};
  }
  return scenario;
}

}  // namespace

ErrorOr<FaultScenario> ParseFaultScenario(std::string_view json, const std::string& name) {
  KeyCheck keys(name);
  Json file;
  try {
    file = Json::parse(json, [&](int, Json::parse_event_t event, const Json& parsed) {
      keys.OnEvent(event, parsed);
      return true;
    });
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 3, column 10: ..."
    const std::string_view text = error.what();
    return Error{name + ": " + std::string(text.substr(text.find(']') + 2)) +
                 ": correct the JSON there"};
  }
  if (keys.problem()) return *keys.problem();
  if (!file.is_object()) return Error{name + " is no object: write it like {\"rules\": [...]}"};
  for (const auto& [key, value] : file.items()) {
    if (key != "rules" && key != "comment") {
      return Error{name + ": unknown key '" + key + "': use rules and comment"};
    }
  }
  const auto rules = file.find("rules");
  if (rules == file.end()) return Error{name + " has no rules: give a list as 'rules'"};
  return ReadRules(*rules, name);
}

ErrorOr<FaultScenario> ReadFaultScenario(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string json(kMaxFileBytes + 1, '\0');
  if (!file || !file.read(json.data(), static_cast<std::streamsize>(json.size())).eof()) {
    const bool too_long = file.good();
    return Error{path + (too_long ? " is longer than a mebibyte: give fewer rules"
                                  : std::string(" cannot be read (") + std::strerror(errno) +
                                        "): name a scenario file")};
  }
  json.resize(static_cast<size_t>(file.gcount()));
  return ParseFaultScenario(json, path);
}

}  // namespace uroce::nic
