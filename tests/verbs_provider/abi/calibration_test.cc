#include "verbs_provider/abi/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace uroce::verbs::abi {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct OpInRelease {
  Op op;
  int since;
};

const std::vector<OpInRelease> kAllOps = {
#define UROCE_X(name, since) {Op::name, since},
    UROCE_VERBS_CONTEXT_OPS(UROCE_X)
#undef UROCE_X
};

// The layout that a perfect probe would see of this release.
Layout CompleteLayout(int release, size_t qp_ex_offset) {
  Layout layout;
  for (const OpInRelease& op : kAllOps) {
    if (op.since <= release) layout.slot[static_cast<size_t>(op.op)] = layout.slot_count++;
  }
  layout.qp_ex_offset = qp_ex_offset;
  return layout;
}

void Forget(Layout& layout, Op op) { layout.slot[static_cast<size_t>(op)] = kUnknownSlot; }
void Move(Layout& layout, Op op, int slot) { layout.slot[static_cast<size_t>(op)] = slot; }

// The op count and the slot of poll_cq, taken from the release itself.
struct Release {
  int release;
  size_t qp_ex_offset;
  int slot_count;
  int poll_cq;
};

class KnownReleaseTest : public testing::TestWithParam<Release> {};

TEST_P(KnownReleaseTest, IsRecognizedAndCompleted) {
  Layout layout = CompleteLayout(GetParam().release, GetParam().qp_ex_offset);
  EXPECT_EQ(layout.slot_count, GetParam().slot_count);
  Forget(layout, Op::import_mr);
  const int rereg_mr = layout.SlotOf(Op::rereg_mr);
  Forget(layout, Op::rereg_mr);

  EXPECT_THAT(CrossCheck(layout), IsEmpty());
  EXPECT_EQ(layout.release, GetParam().release);
  EXPECT_EQ(layout.SlotOf(Op::poll_cq), GetParam().poll_cq);
  EXPECT_EQ(layout.SlotOf(Op::rereg_mr), rereg_mr);
  EXPECT_NE(layout.SlotOf(Op::import_mr), kUnknownSlot);
}

INSTANTIATE_TEST_SUITE_P(AllReleases, KnownReleaseTest,
                         testing::Values(Release{33, 344, 72, 52}, Release{34, 344, 73, 52},
                                         Release{35, 344, 75, 53}, Release{36, 344, 76, 53},
                                         Release{44, 352, 76, 53}, Release{45, 360, 76, 53},
                                         Release{59, 360, 79, 55}, Release{62, 360, 81, 56},
                                         Release{64, 360, 83, 58}, Release{65, 360, 93, 62}),
                         [](const auto& test) { return "v" + std::to_string(test.param.release); });

TEST(CalibrationTest, OpThatTheReleaseDoesNotHaveStaysUnknown) {
  Layout layout = CompleteLayout(44, 352);
  ASSERT_THAT(CrossCheck(layout), IsEmpty());
  EXPECT_EQ(layout.SlotOf(Op::reg_mr_ex), kUnknownSlot);
}

TEST(CalibrationTest, ObservedSlotThatContradictsTheReleaseIsAConflict) {
  Layout layout = CompleteLayout(44, 352);
  // The slot still lies between its neighbours, so only the table reveals the error.
  Forget(layout, Op::post_srq_ops);
  Move(layout, Op::post_send, layout.SlotOf(Op::post_send) + 1);
  EXPECT_THAT(CrossCheck(layout),
              HasSubstr("post_send was found at slot 56, but release 44 has it at 55"));
  EXPECT_EQ(layout.release, 0);
}

TEST(CalibrationTest, OpsOutOfOrderAreAConflict) {
  Layout layout = CompleteLayout(44, 352);
  const int poll_cq = layout.SlotOf(Op::poll_cq);
  Move(layout, Op::poll_cq, layout.SlotOf(Op::post_send));
  Move(layout, Op::post_send, poll_cq);
  EXPECT_THAT(CrossCheck(layout), HasSubstr("comes before it in every release"));
}

TEST(CalibrationTest, TwoOpsAtOneSlotAreAConflict) {
  Layout layout = CompleteLayout(44, 352);
  Move(layout, Op::post_recv, layout.SlotOf(Op::post_send));
  EXPECT_THAT(CrossCheck(layout), HasSubstr("post_send was found at slot 55, but post_recv"));
}

TEST(CalibrationTest, SlotBeyondTheTableIsAConflict) {
  Layout layout = CompleteLayout(44, 352);
  Move(layout, Op::unimport_pd, 76);
  EXPECT_THAT(CrossCheck(layout), HasSubstr("unimport_pd was found at slot 76 of a table of 76"));
}

TEST(CalibrationTest, ExtendedQueuePairMaskElsewhereIsAConflict) {
  Layout layout = CompleteLayout(59, 352);
  EXPECT_THAT(CrossCheck(layout), HasSubstr("no release with 79 ops has the mask"));
}

// A future release, longer than any known one: the observed layout is used as it is.
TEST(CalibrationTest, UnknownReleaseUsesTheObservedLayout) {
  Layout layout = CompleteLayout(64, 360);
  for (int& slot : layout.slot) slot = slot == kUnknownSlot ? slot : slot + slot / 10;
  layout.slot_count = 95;
  Forget(layout, Op::import_mr);
  const int post_send = layout.SlotOf(Op::post_send);

  EXPECT_THAT(CrossCheck(layout), IsEmpty());
  EXPECT_EQ(layout.release, 0);
  EXPECT_EQ(layout.SlotOf(Op::post_send), post_send);
  EXPECT_EQ(layout.SlotOf(Op::import_mr), kUnknownSlot);
}

TEST(CalibrationTest, UnknownReleaseWithoutAnIndispensableOpIsRefused) {
  Layout layout = CompleteLayout(64, 360);
  layout.slot_count = 95;
  Forget(layout, Op::post_send);
  EXPECT_THAT(CrossCheck(layout), HasSubstr("post_send was not found"));
}

}  // namespace
}  // namespace uroce::verbs::abi
