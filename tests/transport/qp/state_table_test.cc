// Every transition of every service with every attribute left out or added: generated from the
// tables in state_rows.cc (IBA 11.2.5.2).

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/transport/qp/sample_queue_pair.h"
#include "tests/transport/qp/state_rows.h"

namespace uroce::transport {
namespace {

using M = QpAttributeMask;

constexpr uint32_t kEveryBit = 0xffff'ffff & ~M::kState;

using Case = std::tuple<QpType, QpState, QpState>;

class StateTableTest : public testing::TestWithParam<Case> {
 protected:
  StateTableTest() {
    if (row_ == nullptr) return;
    required_ = BitsOf(row_->required);
    optional_ = BitsOf(row_->optional);
  }
  QpAttributes Wanted() const {
    QpAttributes wanted = AttributesOf(Sample::kSecond);
    wanted.current_state = from_;
    return wanted;
  }

  void ExpectRefused(SampleQueuePair& qp, uint32_t mask, const QpAttributes& wanted) const {
    const std::string before = qp.Query();
    EXPECT_EQ(qp.Modify(wanted, to_, mask), Status::kInvalidArgument) << "mask " << mask;
    EXPECT_EQ(qp.Query(), before) << "a refused call changed something, mask " << mask;
  }

  void ExpectDone(uint32_t mask) const {
    SampleQueuePair qp(type_, from_);
    QpAttributes expected = qp->Query();
    for (const Attribute& attribute : AllAttributes()) {
      if ((mask & attribute.bit) != 0) attribute.copy(Wanted(), expected);
    }
    expected.state = expected.current_state = to_;
    if (to_ == QpState::kReset) expected = SampleQueuePair(type_, QpState::kReset)->Query();
    EXPECT_EQ(qp.Modify(Wanted(), to_, mask), Status::kOk) << "mask " << mask;
    EXPECT_EQ(qp.Query(), Describe(expected)) << "mask " << mask;
  }

  QpType type_ = std::get<0>(GetParam());
  QpState from_ = std::get<1>(GetParam());
  QpState to_ = std::get<2>(GetParam());
  const StateRow* row_ = FindRow(type_, from_, to_);
  uint32_t required_ = 0;
  uint32_t optional_ = 0;
};

TEST_P(StateTableTest, TheRequiredAttributesAreEnough) {
  if (row_ != nullptr) ExpectDone(required_);
}

TEST_P(StateTableTest, EachOptionalAttributeIsTakenAloneAndTogether) {
  for (const uint32_t attribute : SingleBits(optional_)) ExpectDone(required_ | attribute);
  if (optional_ != 0) ExpectDone(required_ | optional_);
}

TEST_P(StateTableTest, EachRequiredAttributeIsMissed) {
  if (required_ == 0) return;
  SampleQueuePair qp(type_, from_);
  for (const uint32_t attribute : SingleBits(required_)) {
    ExpectRefused(qp, required_ & ~attribute, Wanted());
    ExpectRefused(qp, (required_ & ~attribute) | optional_, Wanted());
  }
}

// Bits that name no attribute at all are refused too.
TEST_P(StateTableTest, EachOtherAttributeIsRefused) {
  SampleQueuePair qp(type_, from_);
  const uint32_t others = kEveryBit & ~required_ & ~optional_;
  for (const uint32_t attribute : SingleBits(others)) {
    ExpectRefused(qp, required_ | attribute, Wanted());
    ExpectRefused(qp, required_ | optional_ | attribute, Wanted());
  }
}

TEST_P(StateTableTest, ATransitionThatIsNotThereIsRefusedWithAnyAttributes) {
  if (row_ != nullptr) return;
  SampleQueuePair qp(type_, from_);
  ExpectRefused(qp, 0, Wanted());
  for (const QpState from : kAllStates) {  // nor with the attributes of another transition
    for (const QpState to : kAllStates) {
      const StateRow* row = FindRow(type_, from, to);
      if (row != nullptr) ExpectRefused(qp, BitsOf(row->required), Wanted());
    }
  }
}

// cur_qp_state is the state that the application expects (IBA 11.2.5.2).
TEST_P(StateTableTest, AWrongCurrentStateIsRefused) {
  if ((optional_ & M::kCurrentState) == 0) return;
  SampleQueuePair qp(type_, from_);
  for (const QpState state : kAllStates) {
    QpAttributes wanted = Wanted();
    wanted.current_state = state;
    if (state != from_) ExpectRefused(qp, required_ | M::kCurrentState, wanted);
  }
}

// Without a state the queue pair keeps its state.
TEST_P(StateTableTest, ACallWithoutAStateIsOneFromTheStateToItself) {
  if (from_ != to_) return;
  SampleQueuePair qp(type_, from_);
  QpAttributes expected = qp->Query();
  for (const Attribute& attribute : AllAttributes()) {
    if ((optional_ & attribute.bit) != 0) attribute.copy(Wanted(), expected);
  }
  EXPECT_EQ(qp->Modify(Wanted(), optional_),
            row_ != nullptr ? Status::kOk : Status::kInvalidArgument);
  EXPECT_EQ(qp.Query(), Describe(expected));
}

TEST_P(StateTableTest, UndefinedStateIsRefused) {
  SampleQueuePair qp(type_, from_);
  const std::string before = qp.Query();
  for (const int state : {7, 8, 255}) {
    EXPECT_EQ(qp.Modify(Wanted(), static_cast<QpState>(state), 0), Status::kInvalidArgument);
    EXPECT_EQ(qp.Query(), before);
  }
}

std::vector<Case> EveryTransition() {
  std::vector<Case> all;
  for (const QpType type :
       {QpType::kReliableConnection, QpType::kUnreliableConnection, QpType::kUnreliableDatagram,
        QpType::kXrcSend, QpType::kXrcReceive, QpType::kRawPacket}) {
    const bool has_send_queue_error = type == QpType::kUnreliableConnection ||
                                      type == QpType::kUnreliableDatagram ||
                                      type == QpType::kRawPacket;
    for (const QpState from : kAllStates) {
      // RC and XRC never enter SQE (IBA 10.3.1.6).
      if (!has_send_queue_error && from == QpState::kSendQueueError) continue;
      for (const QpState to : kAllStates) all.push_back({type, from, to});
    }
  }
  return all;
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const auto& [type, from, to] = info.param;
  return std::string(Name(type)) + '_' + std::string(Name(from)) + '_' + std::string(Name(to));
}

INSTANTIATE_TEST_SUITE_P(EveryTransition, StateTableTest, testing::ValuesIn(EveryTransition()),
                         NameOf);

}  // namespace
}  // namespace uroce::transport
