#include "dpdk_nic/port/faults/fault_scenario.h"

#include <algorithm>
#include <array>
#include <boost/property_tree/json_parser.hpp>
#include <boost/property_tree/ptree.hpp>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "transport/wire/frame_builder.h"
#include "transport/wire/opcode.h"
#include "transport/wire/printer.h"

namespace uroce::nic {
namespace {

using boost::property_tree::ptree;
using Kind = FaultAction::Kind;
using Part = FaultAction::Part;
using Problem = std::optional<Error>;

constexpr size_t kMaxFileBytes = 1 << 20;
// Every packet is compared with every rule.
constexpr size_t kMaxRules = 1'000;
// Frames held back are kept in memory, so neither can be without end.
constexpr uint64_t kMaxDelayUs = 100'000;
constexpr uint64_t kMaxFramesToPass = 256;

struct ActionName {
  std::string_view name;
  Kind kind;
  std::string_view parameter;  // the key that belongs to it alone
};

constexpr std::array kActions = {
    ActionName{"drop", Kind::kDrop, ""},          ActionName{"duplicate", Kind::kDuplicate, ""},
    ActionName{"delay", Kind::kDelay, "us"},      ActionName{"reorder", Kind::kReorder, "frames"},
    ActionName{"ecn", Kind::kMarkCongestion, ""}, ActionName{"corrupt", Kind::kCorrupt, "at"},
};

// One rule being read: what is there, and how to complain about it.
class RuleReader {
 public:
  RuleReader(const ptree& tree, std::string where) : tree_(tree), where_(std::move(where)) {}

  Problem Read(FaultRule& rule);

 private:
  Error Wrong(const std::string& what) const { return {where_ + ": " + what}; }
  // The text of a value, whose type the parser does not keep. nullptr if the key is missing.
  const std::string* Find(const char* key) const;

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

  const ptree& tree_;
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

const std::string* RuleReader::Find(const char* key) const {
  const auto found = tree_.find(key);
  return found == tree_.not_found() ? nullptr : &found->second.data();
}

Problem RuleReader::CheckKeys() const {
  constexpr std::string_view kKeys[] = {"comment",    "direction", "qpn", "psn",
                                        "psn_offset", "opcode",    "nth", "action",
                                        "us",         "frames",    "at"};
  for (const auto& [key, value] : tree_) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      return Wrong("unknown key '" + key +
                   "': use direction, qpn, psn, psn_offset, opcode, nth, action, us, frames, at, "
                   "comment");
    }
    if (tree_.count(key) > 1) return Wrong("'" + key + "' is there twice: keep one of them");
    if (!value.empty()) return Wrong("'" + key + "' is a list or an object: give one value");
  }
  return std::nullopt;
}

Problem RuleReader::ReadNumber(const char* key, uint64_t low, uint64_t high,
                               std::optional<uint64_t>& out) {
  const std::string* text = Find(key);
  if (text == nullptr) return std::nullopt;
  out = ParseNumber(*text);
  if (out && *out >= low && *out <= high) return std::nullopt;
  return Wrong(std::string("'") + key + "' is '" + *text + "': give a whole number from " +
               std::to_string(low) + " to " + std::to_string(high) +
               ", hexadecimal in quotes as \"0x1f\"");
}

Problem RuleReader::ReadDirection(FaultMatch& match) const {
  const std::string* text = Find("direction");
  if (text == nullptr) return std::nullopt;
  if (*text != "sent" && *text != "received") {
    return Wrong("'direction' is '" + *text + "': choose 'sent' or 'received'");
  }
  match.direction = *text == "sent" ? FaultDirection::kSent : FaultDirection::kReceived;
  return std::nullopt;
}

Problem RuleReader::ReadQpn(FaultMatch& match) {
  if (const std::string* text = Find("qpn"); text != nullptr && *text == "any") return std::nullopt;
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
  const std::string* text = Find("opcode");
  if (text == nullptr) return std::nullopt;
  match.opcodes = OpcodesNamed(*text);
  if (match.opcodes.any()) return std::nullopt;
  return Wrong("unknown opcode '" + *text +
               "': write it like RC_SEND_MIDDLE, RC_READ_RESPONSE or RC_ACKNOWLEDGE");
}

Problem RuleReader::ReadNth(FaultMatch& match) {
  if (const std::string* text = Find("nth"); text != nullptr && *text == "every") {
    match.nth.reset();
    return std::nullopt;
  }
  std::optional<uint64_t> nth;
  if (auto problem = ReadNumber("nth", 1, UINT32_MAX, nth)) return problem;
  if (nth) match.nth = static_cast<uint32_t>(*nth);
  return std::nullopt;
}

Problem RuleReader::ReadAction(FaultAction& action) {
  const std::string* text = Find("action");
  const auto named = std::find_if(kActions.begin(), kActions.end(), [text](const ActionName& a) {
    return text != nullptr && a.name == *text;
  });
  if (named == kActions.end()) {
    return Wrong((text == nullptr ? "has no 'action'" : "unknown action '" + *text + "'") +
                 ": choose drop, duplicate, delay, reorder, ecn or corrupt");
  }
  action.kind = named->kind;
  for (const ActionName& other : kActions) {
    if (other.kind == named->kind || Find(other.parameter.data()) == nullptr) continue;
    return Wrong("'" + std::string(other.parameter) + "' belongs to the action '" +
                 std::string(other.name) + "': leave it out");
  }
  if (named->parameter.empty()) return std::nullopt;
  if (Find(named->parameter.data()) == nullptr) {
    return Wrong("the action '" + *text + "' needs '" + std::string(named->parameter) +
                 "': see dpdk_nic/port/faults/FAULTS.md");
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
  const std::string& text = *Find("at");
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
  const bool is_object = !tree_.empty() && !tree_.front().first.empty();
  if (!is_object) return Wrong("is not an object: write it like {\"action\": \"drop\"}");
  if (auto problem = CheckKeys()) return problem;
  if (auto problem = ReadDirection(rule.match)) return problem;
  if (auto problem = ReadQpn(rule.match)) return problem;
  if (auto problem = ReadPsn(rule.match)) return problem;
  if (auto problem = ReadOpcode(rule.match)) return problem;
  if (auto problem = ReadNth(rule.match)) return problem;
  return ReadAction(rule.action);
}

ErrorOr<FaultScenario> ReadRules(const ptree& rules, const std::string& name) {
  FaultScenario scenario;
  for (const auto& [key, tree] : rules) {
    const std::string where = name + ", rule " + std::to_string(scenario.rules.size() + 1);
    if (!key.empty()) return Error{name + ": 'rules' is an object: give a list of rules"};
    FaultRule& rule = scenario.rules.emplace_back();
    if (auto problem = RuleReader(tree, where).Read(rule)) return *problem;
  }
  if (scenario.empty()) return Error{name + " has no rules: give a list as 'rules'"};
  if (scenario.rules.size() > kMaxRules) {
    return Error{name + " has more than " + std::to_string(kMaxRules) + " rules: give fewer"};
  }
  return scenario;
}

}  // namespace

ErrorOr<FaultScenario> ParseFaultScenario(std::string_view json, const std::string& name) {
  ptree tree;
  try {
    std::istringstream stream{std::string(json)};
    boost::property_tree::read_json(stream, tree);
  } catch (const boost::property_tree::json_parser_error& error) {
    return Error{name + ", line " + std::to_string(error.line()) + ": " + error.message() +
                 ": correct the JSON there"};
  }
  for (const auto& [key, value] : tree) {
    if (key.empty()) return Error{name + " is a list: write it like {\"rules\": [...]}"};
    if (key != "rules" && key != "comment") {
      return Error{name + ": unknown key '" + key + "': use rules and comment"};
    }
    if (tree.count(key) > 1)
      return Error{name + ": '" + key + "' is there twice: keep one of them"};
  }
  const auto rules = tree.find("rules");
  if (rules == tree.not_found()) return Error{name + " has no rules: give a list as 'rules'"};
  return ReadRules(rules->second, name);
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
