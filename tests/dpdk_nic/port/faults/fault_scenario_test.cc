#include "dpdk_nic/port/faults/fault_scenario.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace uroce::nic {
namespace {

using Kind = FaultAction::Kind;
using Part = FaultAction::Part;
using transport::Psn;
using transport::Qpn;

// The one rule of a scenario that has the keys of `rule`.
FaultRule Rule(const std::string& rule) {
  const auto scenario = ParseFaultScenario(R"({"rules": [{)" + rule + "}]}", "faults.json");
  EXPECT_TRUE(scenario.ok()) << scenario.error();
  return scenario.ok() ? scenario.value().rules.at(0) : FaultRule{};
}

std::string ErrorOf(const std::string& json) {
  const auto scenario = ParseFaultScenario(json, "faults.json");
  return scenario.ok() ? "no error" : scenario.error();
}
std::string ErrorOfRule(const std::string& rule) {
  return ErrorOf(R"({"rules": [{)" + rule + "}]}");
}

TEST(FaultScenarioTest, OmittedFieldsMatchEveryPacketSentForTheFirstTime) {
  const FaultRule rule = Rule(R"("action": "drop")");
  EXPECT_EQ(rule.match.direction, FaultDirection::kSent);
  EXPECT_FALSE(rule.match.qpn);
  EXPECT_FALSE(rule.match.psn);
  EXPECT_FALSE(rule.match.psn_offset);
  EXPECT_TRUE(rule.match.opcodes.all());
  EXPECT_EQ(rule.match.nth, 1u);
  EXPECT_EQ(rule.action.kind, Kind::kDrop);
}

TEST(FaultScenarioTest, EveryKeyIsRead) {
  const FaultRule rule = Rule(
      R"("direction": "received", "qpn": "0x11", "psn": 16777215, "opcode": "RC_ACKNOWLEDGE",
         "nth": 2, "comment": "the first ACK", "action": "delay", "us": 250)");
  EXPECT_EQ(rule.match.direction, FaultDirection::kReceived);
  EXPECT_EQ(rule.match.qpn, Qpn{0x11});
  EXPECT_EQ(rule.match.psn, Psn(0xffffff));
  EXPECT_EQ(rule.match.opcodes.count(), 1u);
  EXPECT_TRUE(rule.match.opcodes[0x11]);
  EXPECT_EQ(rule.match.nth, 2u);
  EXPECT_EQ(rule.action.kind, Kind::kDelay);
  EXPECT_EQ(rule.action.delay.ns, 250'000);
}

TEST(FaultScenarioTest, AnyAndEveryAreWords) {
  const FaultRule rule =
      Rule(R"("qpn": "any", "nth": "every", "psn_offset": 7, "action": "duplicate")");
  EXPECT_FALSE(rule.match.qpn);
  EXPECT_FALSE(rule.match.nth);
  EXPECT_EQ(rule.match.psn_offset, 7u);
  EXPECT_EQ(rule.action.kind, Kind::kDuplicate);
}

TEST(FaultScenarioTest, TheBeginningOfAnOpcodeNameMeansAllOfThem) {
  // First, middle, last, last with immediate, only, only with immediate, and two with invalidate.
  EXPECT_EQ(Rule(R"("opcode": "RC_SEND", "action": "drop")").match.opcodes.count(), 8u);
  EXPECT_EQ(Rule(R"("opcode": "RC_SEND_LAST", "action": "drop")").match.opcodes.count(), 3u);
  EXPECT_EQ(Rule(R"("opcode": "RC_READ_RESPONSE", "action": "drop")").match.opcodes.count(), 4u);
  EXPECT_EQ(Rule(R"("opcode": "RC_ACKNOWLEDGE", "action": "drop")").match.opcodes.count(), 1u);
}

TEST(FaultScenarioTest, EveryActionIsRead) {
  EXPECT_EQ(Rule(R"("action": "reorder", "frames": 3)").action.frames, 3u);
  EXPECT_EQ(Rule(R"("action": "ecn")").action.kind, Kind::kMarkCongestion);
  EXPECT_EQ(Rule(R"("action": "corrupt", "at": "bth")").action.part, Part::kBth);
  EXPECT_EQ(Rule(R"("action": "corrupt", "at": "payload")").action.part, Part::kPayload);
  EXPECT_EQ(Rule(R"("action": "corrupt", "at": "icrc")").action.part, Part::kIcrc);
  const FaultAction byte = Rule(R"("action": "corrupt", "at": 60)").action;
  EXPECT_EQ(byte.part, Part::kOffset);
  EXPECT_EQ(byte.offset, 60u);
}

TEST(FaultScenarioTest, RulesKeepTheirOrder) {
  const auto scenario = ParseFaultScenario(
      R"({"comment": "two", "rules": [{"psn": 1, "action": "drop"}, {"psn": 2, "action": "ecn"}]})",
      "faults.json");
  ASSERT_TRUE(scenario.ok()) << scenario.error();
  ASSERT_EQ(scenario.value().rules.size(), 2u);
  EXPECT_EQ(scenario.value().rules[0].match.psn, Psn(1));
  EXPECT_EQ(scenario.value().rules[1].match.psn, Psn(2));
}

TEST(FaultScenarioTest, ErrorNamesTheFileAndTheRuleOrLine) {
  EXPECT_EQ(ErrorOf(R"({"rules": [{"action": "drop"}, {"psm": 1, "action": "drop"}]})"),
            "faults.json, rule 2: unknown key 'psm': use direction, qpn, psn, psn_offset, opcode, "
            "nth, action, us, frames, at, comment");
  EXPECT_EQ(ErrorOfRule(R"("psn": 16777216, "action": "drop")"),
            "faults.json, rule 1: 'psn' is '16777216': give a whole number from 0 to 16777215, "
            "hexadecimal in quotes as \"0x1f\"");
  EXPECT_EQ(ErrorOf("{\n\"rules\": [\n{\"action\" \"drop\"}]}"),
            "faults.json: parse error at line 3, column 16: syntax error while parsing object "
            "separator - unexpected string literal; expected ':': correct the JSON there");
}

TEST(FaultScenarioTest, WrongValuesAreRefused) {
  for (const char* rule : {
           R"("qpn": 16777216, "action": "drop")",
           R"("qpn": "all", "action": "drop")",
           R"("qpn": -1, "action": "drop")",
           R"("qpn": [1, 2], "action": "drop")",
           R"("psn": true, "action": "drop")",
           R"("psn": 1.5, "action": "drop")",
           R"("psn": "0x", "action": "drop")",
           R"("psn": "", "action": "drop")",
           R"("psn": 1, "psn": 2, "action": "drop")",
           R"("psn": 1, "psn_offset": 1, "action": "drop")",
           R"("psn_offset": "0x1000000", "action": "drop")",
           R"("direction": "both", "action": "drop")",
           R"("opcode": "RC_SND", "action": "drop")",
           R"("opcode": "RC_SEN", "action": "drop")",
           R"("nth": 0, "action": "drop")",
           R"("nth": 4294967296, "action": "drop")",
           R"("nth": "first", "action": "drop")",
           R"("psn": 1)",
           R"("action": "lose")",
           R"("action": {"drop": 1})",
           R"("action": "delay")",
           R"("action": "delay", "us": 0)",
           R"("action": "delay", "us": 100001)",
           R"("action": "delay", "us": 5, "frames": 1)",
           R"("action": "drop", "us": 5)",
           R"("action": "reorder")",
           R"("action": "reorder", "frames": 0)",
           R"("action": "reorder", "frames": 257)",
           R"("action": "corrupt")",
           R"("action": "corrupt", "at": "header")",
           R"("action": "corrupt", "at": 4224)",
       }) {
    const std::string error = ErrorOfRule(rule);
    EXPECT_TRUE(error.starts_with("faults.json, rule 1: ")) << rule << ": " << error;
    EXPECT_NE(error.rfind(": "), error.find(": ")) << "says no remedy: " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(FaultScenarioTest, WrongFilesAreRefused) {
  for (const char* json : {"", "{}", "[]", "7", "{\"rules\": []}", "{\"rules\": 7}",
                           "{\"rules\": {\"action\": \"drop\"}}", "[{\"action\": \"drop\"}]",
                           "{\"rules\": [7]}", "{\"rules\": [[\"action\"]]}", "{\"rules\": [{}]}",
                           "{\"rules\": [{\"action\": \"drop\"}], \"seed\": 1}",
                           "{\"rules\": [{\"action\": \"drop\"}]} {}",
                           "{\"rules\": [{\"action\": \"drop\"}], \"rules\": []}"}) {
    const std::string error = ErrorOf(json);
    EXPECT_TRUE(error.starts_with("faults.json")) << json << ": " << error;
    EXPECT_NE(error.find(": "), std::string::npos) << "says no remedy: " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  std::string many = "{\"rules\": [{\"action\": \"drop\"}";
  for (int i = 0; i < 1'000; ++i) many += ", {\"action\": \"drop\"}";
  EXPECT_EQ(ErrorOf(many + "]}"), "faults.json has more than 1000 rules: give fewer");
}

TEST(FaultScenarioTest, TheExampleOfTheDocumentationIsRight) {
  std::ifstream file("tools/docs/faults.md");
  ASSERT_TRUE(file);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  constexpr std::string_view kFence = "```json\n";
  const size_t begin = page.find(kFence) + kFence.size();
  const auto scenario =
      ParseFaultScenario(page.substr(begin, page.find("```", begin) - begin), "faults.md");
  ASSERT_TRUE(scenario.ok()) << scenario.error();
  ASSERT_EQ(scenario.value().rules.size(), 3u);
  EXPECT_EQ(scenario.value().rules[1].match.nth, 2u);
  EXPECT_EQ(scenario.value().rules[2].action.delay.ns, 300'000);
}

TEST(FaultScenarioTest, AFileIsRead) {
  const std::string path = testing::TempDir() + "scenario.json";
  std::ofstream(path) << R"({"rules": [{"action": "ecn"}]})";
  const auto scenario = ReadFaultScenario(path);
  ASSERT_TRUE(scenario.ok()) << scenario.error();
  EXPECT_EQ(scenario.value().rules.size(), 1u);

  std::ofstream(path) << std::string((1 << 20) + 1, ' ');
  EXPECT_EQ(ReadFaultScenario(path).error(), path + " is longer than a mebibyte: give fewer rules");
  std::remove(path.c_str());
  for (const std::string& unreadable : {path, testing::TempDir()}) {
    const auto none = ReadFaultScenario(unreadable);
    ASSERT_FALSE(none.ok());
    EXPECT_TRUE(none.error().starts_with(unreadable + " cannot be read (")) << none.error();
  }
}

}  // namespace
}  // namespace uroce::nic
