// Links without a port: unexpected messages of uroced, and descriptors that fail.
#include "dpdk_nic/port/fabric/fabric_links.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include <cerrno>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/control/client.h"
#include "dpdk_nic/port/fabric/fabric_requests.h"
#include "tests/dpdk_nic/control/fabric_names.h"
#include "tests/dpdk_nic/port/fabric/fake_uroced.h"

namespace uroce::nic {
namespace {

using control::Block;
using control::Declare;
using transport::Qpn;
using transport::Route;
using transport::Time;
using PathState = PacketPort::PathState;

// An attached client, and the messages that uroced has received from it.
class AttachedClientTest : public ::testing::Test {
 protected:
  AttachedClientTest() {
    while (client_.state() != control::ControlClient::State::kAttached) Exchange();
  }
  void Exchange() {
    uroced_.Serve();
    client_.Serve();
  }
  FakeUroced::Client& heard() { return uroced_.client(client_.welcome().block); }

  const std::string fabric_ = UniqueFabricName();
  const UniqueFd published_state_{memfd_create("test", MFD_CLOEXEC)};
  FakeUroced uroced_{fabric_};
  control::ControlClient client_{{.fabric = fabric_, .published_state_fd = published_state_.get()}};
};

class FabricLinksTest : public AttachedClientTest {
 protected:
  static constexpr Block kPeer = 900;
  static constexpr Route kToPeer = transport::RouteToBlock(kPeer);

  void SendFrame() {
    links_.Acquire(kToPeer)[0] = 1;
    links_.Commit(62);
  }
  void OfferLink() {
    auto offer = RingLink::Create();
    links_.OnOffer({.block = kPeer}, std::move(offer->memory), std::move(offer->socket));
    offers_.push_back(std::move(offer->link));
  }

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  FabricLinks links_{client_, epoll_, LinkThread::Mode::kInline, transport::IcrcUse::kWaived};
  std::vector<std::unique_ptr<RingLink>> offers_;
};

TEST_F(FabricLinksTest, RequestedLinkThatCannotBeWatchedFails) {
  epoll_.reset();
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kRefused);
  SendFrame();
  EXPECT_EQ(links_.counters().transmit_dropped_no_link, 1u);
}

TEST_F(FabricLinksTest, OfferedLinkThatCannotBeWatchedFails) {
  epoll_.reset();
  OfferLink();
  EXPECT_FALSE(offers_.back()->peer_alive());
  SendFrame();
  EXPECT_EQ(links_.counters().transmit_dropped_no_link, 1u);
}

TEST_F(FabricLinksTest, LinkThatItsPeerClosesIsNoEndOfThePeer) {
  OfferLink();
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kReady);
  offers_.back()->Leave();
  offers_.clear();
  links_.OnReadable(static_cast<uint32_t>(kToPeer));
  links_.Serve(Now());
  EXPECT_EQ(links_.TakeGonePeer(), std::nullopt);
}

// Its request was passed on, and the process ended before it opened the link, or could not.
TEST_F(FabricLinksTest, PeerThatNeverOpenedTheLinkIsNotKnownToHaveEnded) {
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kPending);
  Exchange();
  links_.OnAnswer({.block = kPeer, .error = 0});
  links_.OnReadable(static_cast<uint32_t>(kToPeer));
  links_.Serve(Now());
  EXPECT_EQ(links_.TakeGonePeer(), std::nullopt);
}

TEST_F(FabricLinksTest, PeerThatPunchesHolesInsteadOfOpeningIsCutOff) {
  uroced_.ignores_links = true;  // keeps the descriptors
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kPending);
  Exchange();
  links_.OnAnswer({.block = kPeer, .error = 0});
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kReady);
  links_.Serve(Now());
  EXPECT_EQ(links_.counters().receive_malformed, 0u);
  ASSERT_EQ(
      fallocate(uroced_.kept().front().get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4'096),
      0);
  links_.Serve(Now());
  EXPECT_EQ(links_.counters().receive_malformed, 1u);
  EXPECT_NE(links_.Prepare(kToPeer), PathState::kReady);
}

TEST_F(FabricLinksTest, AnswerToAnEarlierRequestIsNotTakenForTheLast) {
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kPending);
  OfferLink();  // instead of an answer to the request
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kReady);
  offers_.clear();  // the peer closes the link again
  links_.OnReadable(static_cast<uint32_t>(kToPeer));
  links_.Serve(Now());
  while (links_.Prepare(kToPeer) == PathState::kUnreachable) {
  }
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kPending) << "asks anew";
  links_.OnAnswer({.block = kPeer, .error = EHOSTUNREACH});  // to the first request
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kPending);
  links_.OnAnswer({.block = kPeer, .error = 0});  // to the second
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kReady);
  links_.OnAnswer({.block = kPeer, .error = EHOSTUNREACH});  // to none
  EXPECT_EQ(links_.Prepare(kToPeer), PathState::kReady);
}

class FabricRequestsTest : public AttachedClientTest {
 protected:
  static constexpr Qpn kLocal{7};
  static Declare To(uint32_t remote) { return {kLocal, {remote}, {}}; }
  PathState Request(uint32_t remote) { return requests_.Request(kLocal, To(remote), now_); }
  void GrantFirst() {
    EXPECT_EQ(Request(1), PathState::kPending);
    requests_.OnAnswer(kLocal, 0);
    EXPECT_EQ(Request(1), PathState::kReady);
  }
  size_t declared() {
    Exchange();
    return heard().declared.size();
  }
  size_t forgotten() {
    Exchange();
    return heard().forgotten.size();
  }

  FabricRequests<Qpn, Declare, control::Forget> requests_{client_};
  Time now_{1'000'000'000};
};

TEST_F(FabricRequestsTest, AnswerOfBeforeIsNotTakenForTheNext) {
  EXPECT_EQ(Request(1), PathState::kPending);
  requests_.Drop(kLocal);
  EXPECT_EQ(Request(2), PathState::kPending);
  EXPECT_EQ(declared(), 2u);
  EXPECT_EQ(heard().forgotten.size(), 1u);
  requests_.OnAnswer(kLocal, EBUSY);  // to the first
  EXPECT_EQ(Request(2), PathState::kPending);
  requests_.OnAnswer(kLocal, 0);
  EXPECT_EQ(Request(2), PathState::kReady);
}

TEST_F(FabricRequestsTest, UnsolicitedAnswerIsIgnored) {
  EXPECT_FALSE(requests_.OnAnswer(kLocal, 0));
  EXPECT_EQ(Request(1), PathState::kPending);
  EXPECT_TRUE(requests_.OnAnswer(kLocal, 0));
  EXPECT_FALSE(requests_.OnAnswer(kLocal, EBUSY));
  EXPECT_EQ(Request(1), PathState::kReady);
}

TEST_F(FabricRequestsTest, TheSameRequestAfterADropIsMadeAnew) {
  EXPECT_EQ(Request(1), PathState::kPending);
  requests_.Drop(kLocal);
  EXPECT_EQ(Request(1), PathState::kPending);
  EXPECT_EQ(declared(), 2u);
  EXPECT_EQ(forgotten(), 1u);
  requests_.OnAnswer(kLocal, 0);  // to the first
  GrantFirst();
}

TEST_F(FabricRequestsTest, RequestThatItsAskerGaveUpIsWithdrawn) {
  constexpr transport::Duration kShort = transport::Milliseconds(9'999);
  constexpr transport::Duration kLong = transport::Milliseconds(10'000);
  EXPECT_EQ(Request(1), PathState::kPending);
  requests_.OnAnswer(kLocal, 0);  // no second Request has asked for the answer
  requests_.Serve(now_ + kShort);
  EXPECT_EQ(forgotten(), 0u);
  requests_.Serve(now_ + kLong);
  EXPECT_EQ(forgotten(), 1u);
  EXPECT_EQ(declared(), 1u);
}

TEST_F(FabricRequestsTest, RefusalKeepsTheEarlierGrant) {
  GrantFirst();
  EXPECT_EQ(Request(2), PathState::kPending);
  requests_.OnAnswer(kLocal, EBUSY);
  EXPECT_EQ(Request(2), PathState::kRefused);
  EXPECT_EQ(Request(1), PathState::kReady);
  EXPECT_EQ(declared(), 2u);
}

TEST_F(FabricRequestsTest, RefusalDoesNotRestoreAWithdrawnGrant) {
  GrantFirst();
  EXPECT_EQ(Request(2), PathState::kPending);
  requests_.Drop(kLocal);
  EXPECT_EQ(Request(3), PathState::kPending);
  requests_.OnAnswer(kLocal, 0);      // to the second
  requests_.OnAnswer(kLocal, EBUSY);  // to the third
  EXPECT_EQ(Request(3), PathState::kRefused);
  EXPECT_EQ(Request(1), PathState::kPending);
  EXPECT_EQ(declared(), 4u);
}

TEST_F(FabricRequestsTest, RequestInUseIsKept) {
  GrantFirst();
  requests_.Serve(now_ + transport::Milliseconds(3'600'000));
  EXPECT_EQ(forgotten(), 0u);
}

}  // namespace
}  // namespace uroce::nic
