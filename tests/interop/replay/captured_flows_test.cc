// Our responder and our requester get the frames that rxe got, and must answer as rxe did.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/interop/replay/known_differences.h"
#include "tests/interop/replay/requester_replay.h"
#include "tests/interop/replay/responder_replay.h"
#include "transport/wire/printer.h"

namespace uroce::transport::interop {
namespace {

// If frames were dropped between the machines, each machine has its own capture, which lacks the
// view of the other machine.
constexpr MacAddress kServer{0x52, 0x54, 0, 0, 0, 0x0a};
constexpr std::string_view kServersView = ".tapA.pcap";

bool IsSeenHere(const std::string& capture, const FlowEnd& end) {
  if (capture.ends_with(kServersView)) return end.mac == kServer;
  const std::string servers = capture.substr(0, capture.rfind('.')) + std::string(kServersView);
  const bool has_two_views = std::ranges::count(CaptureNames(), servers) != 0;
  // Neither machine owns a group's address.
  return !has_two_views || end.mac != kServer;
}

class CapturedFlowsTest : public testing::TestWithParam<std::string> {
 protected:
  const std::string& name() const { return GetParam(); }

  const Capture capture_ = ReadCapture(PathOf(GetParam()));
  const std::vector<Flow> flows_ = FindFlows(capture_);
};

TEST_P(CapturedFlowsTest, EveryFrameBelongsToOneFlow) {
  for (const CapturedFrame& frame : capture_) {
    if (frame.verdict != DropReason::kNone || frame.IsManagement()) continue;
    const auto owners = std::ranges::count_if(
        flows_, [&](const Flow& flow) { return flow.HasRequest(frame) || flow.HasAnswer(frame); });
    EXPECT_EQ(owners, 1) << "frame " << frame.number << ": " << frame.packet;
  }
}

TEST_P(CapturedFlowsTest, OurResponderAnswersAsRxeDid) {
  std::vector<Difference> found;
  for (const Flow& flow : flows_) {
    if (!IsSeenHere(name(), flow.responder)) continue;
    ResponderReplay replay(capture_, flow);
    replay.Run();
    for (const std::string& failure : replay.failures()) ADD_FAILURE() << failure;
    std::ranges::copy(Compare(replay.ours(), replay.theirs()), std::back_inserter(found));
  }
  std::vector<Difference> known;
  for (const KnownDifference& difference : kKnownDifferences) {
    if (difference.capture != name()) continue;
    known.push_back({.frame = difference.frame,
                     .ours = std::string(difference.ours),
                     .theirs = std::string(difference.theirs)});
  }
  EXPECT_EQ(found, known);
}

TEST_P(CapturedFlowsTest, OurRequesterSendsAsRxeDidAndCompletes) {
  for (const Flow& flow : flows_) {
    if (!IsSeenHere(name(), flow.requester)) continue;
    RequesterReplay replay(capture_, flow);
    replay.Run();
    for (const std::string& failure : replay.failures()) ADD_FAILURE() << failure;
    EXPECT_EQ(Compare(replay.ours(), replay.theirs()), std::vector<Difference>{});
    ASSERT_GT(replay.posted(), 0u);
    const auto listed = std::ranges::find_if(kUnfinished, [&](const Unfinished& unfinished) {
      return unfinished.capture == name() && unfinished.completed == replay.completed();
    });
    const bool is_listed = listed != std::end(kUnfinished);
    EXPECT_EQ(replay.posted(), is_listed ? listed->posted : replay.completed());
    EXPECT_EQ(replay.end(), is_listed ? listed->end : CompletionStatus::kSuccess);
  }
}

TEST(UnfinishedTest, EveryListedFlowIsUnfinished) {
  for (const Unfinished& unfinished : kUnfinished) {
    const Capture capture = ReadCapture(PathOf(std::string(unfinished.capture)));
    size_t found = 0;
    for (const Flow& flow : FindFlows(capture)) {
      RequesterReplay replay(capture, flow);
      replay.Run();
      found += replay.posted() == unfinished.posted && replay.completed() == unfinished.completed;
    }
    EXPECT_EQ(found, 1u) << unfinished.capture;
  }
}

// The comparison must be able to fail: a surplus answer, a missing one, and one with another byte
// are differences.
TEST(CompareTest, NoticesDifferences) {
  const Capture capture = ReadCapture(PathOf("05-rc-read-8k.pcap"));
  const Flow flow = FindFlows(capture).front();
  ResponderReplay replay(capture, flow);
  replay.Run();
  const std::vector<Answer>& right = replay.theirs();
  ASSERT_TRUE(Compare(replay.ours(), right).empty());

  std::vector<Answer> less = right;
  less.erase(less.begin() + 3);
  EXPECT_EQ(Compare(less, right),
            (std::vector<Difference>{{right[3].frame, kNothing, right[3].text}}));
  EXPECT_EQ(Compare(right, less),
            (std::vector<Difference>{{right[3].frame, right[3].text, kNothing}}));
  std::vector<Answer> other = right;
  other[3].payload[100] ^= 1;
  EXPECT_EQ(
      Compare(other, right),
      (std::vector<Difference>{{right[3].frame, right[3].text + ", other bytes", right[3].text}}));
}

INSTANTIATE_TEST_SUITE_P(Rxe, CapturedFlowsTest, testing::ValuesIn(CaptureNames()),
                         [](const auto& capture) {
                           std::string name = capture.param;
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

}  // namespace

}  // namespace uroce::transport::interop
