#include "dpdk_nic/engine/published_state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "transport/endpoint.h"

namespace uroce::nic {
namespace {

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

class PublishedStateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(published, nullptr);
    view = PublishedStateView::Open(Duplicate(published->fd()));
    ASSERT_NE(view, nullptr);
  }

  const std::unique_ptr<PublishedState> published = PublishedState::Create();
  std::unique_ptr<PublishedStateView> view;
};

TEST_F(PublishedStateTest, ReaderSeesTheFieldsThatTheTransportWorksOn) {
  transport::Endpoint endpoint({.gids = {transport::Gid::FromIpv4({127, 0, 0, 1})}},
                               published->endpoint());
  const auto cq = endpoint.CreateCompletionQueue(8, nullptr);
  transport::QueuePair* qp = nullptr;
  transport::QpInitAttributes init;
  init.send_cq = init.receive_cq = cq.get();
  ASSERT_EQ(endpoint.CreateQueuePair(init, &qp), transport::Status::kOk);
  const uint32_t index = qp->qpn().value - endpoint.config().first_qpn.value;
  const transport::QueuePairRecord& seen = view->endpoint().queue_pairs[index];
  EXPECT_EQ(seen.qpn, qp->qpn());
  EXPECT_EQ(seen.attributes.state, transport::QpState::kReset);

  using M = transport::QpAttributeMask;
  transport::QpAttributes attributes;
  attributes.state = transport::QpState::kInit;
  attributes.port_num = 1;
  ASSERT_EQ(qp->Modify(attributes, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags),
            transport::Status::kOk);
  EXPECT_EQ(seen.attributes.state, transport::QpState::kInit);

  const std::array<uint8_t, 60> garbage{};
  endpoint.OnFrame({}, garbage);
  EXPECT_EQ(view->endpoint().counters.received_packets, 1u);

  endpoint.DestroyQueuePair(qp);
  EXPECT_EQ(seen.qpn.value, 0u);
}

TEST_F(PublishedStateTest, SnapshotHasTheCountsOfQueuePairsThatAreAndThatWere) {
  transport::Endpoint endpoint({.gids = {transport::Gid::FromIpv4({127, 0, 0, 1})}},
                               published->endpoint());
  const auto cq = endpoint.CreateCompletionQueue(8, nullptr);
  transport::QpInitAttributes init;
  init.send_cq = init.receive_cq = cq.get();
  transport::QueuePair* first = nullptr;
  transport::QueuePair* second = nullptr;
  ASSERT_EQ(endpoint.CreateQueuePair(init, &first), transport::Status::kOk);
  ASSERT_EQ(endpoint.CreateQueuePair(init, &second), transport::Status::kOk);
  first->CountReceived(100);
  second->CountReceived(10);
  EXPECT_EQ(view->Read().counters.received_bytes, 110u);
  endpoint.DestroyQueuePair(first);
  const PublishedStateView::Snapshot after = view->Read();
  EXPECT_EQ(after.counters.received_bytes, 110u);
  EXPECT_EQ(after.counters.received_packets, 2u);
  ASSERT_EQ(after.queue_pairs.size(), 1u);
  EXPECT_EQ(after.queue_pairs[0].counters.received_bytes, 10u);
}

// Some counters of a port cost a system call.
TEST_F(PublishedStateTest, PortCountersAreDueOnceInAnInterval) {
  const transport::Time first = transport::Time{} + transport::Milliseconds(1);
  EXPECT_TRUE(published->are_port_counters_due(first));
  PortCounters counters;
  counters.transmit_dropped_no_link = 1;
  published->SetPortCounters(first, counters);
  EXPECT_EQ(view->Read().port.transmit_dropped_no_link, 1u);
  EXPECT_FALSE(published->are_port_counters_due(first + transport::Milliseconds(499)));
  EXPECT_TRUE(published->are_port_counters_due(first + PublishedState::kPortInterval));
}

// A process may stop, or be stopped, anywhere.
TEST_F(PublishedStateTest, ProcessThatStandsStillInAMoveIsRead) {
  published->endpoint()->moves = 1;
  published->endpoint()->counters.received_packets = 5;
  EXPECT_EQ(view->Read().counters.received_packets, 5u);
}

// Bytes of memory behind a descriptor.
int64_t AllocatedBytes(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? status.st_blocks * 512 : -1;
}

TEST_F(PublishedStateTest, QueuePairsAreFoundWithoutCostingMemory) {
  EXPECT_TRUE(view->QueuePairs().empty());
  EXPECT_EQ(AllocatedBytes(published->fd()), 0);

  for (const uint32_t index : {0u, 1u, 700u, 9'000u, transport::kMaxQps - 1}) {
    published->endpoint()->queue_pairs[index].qpn = {1'000'000 + index};
  }
  published->endpoint()->queue_pairs[1].qpn = {0};
  const int64_t before = AllocatedBytes(published->fd());
  std::vector<uint32_t> found;
  for (const auto& record : view->QueuePairs()) found.push_back(record.qpn.value - 1'000'000);
  EXPECT_EQ(found, (std::vector<uint32_t>{0, 700, 9'000, transport::kMaxQps - 1}));
  EXPECT_EQ(AllocatedBytes(published->fd()), before);
}

TEST_F(PublishedStateTest, PublishedStateIsSealedAgainstWritesAndShrinking) {
  EXPECT_EQ(mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_SHARED, published->fd(), 0),
            MAP_FAILED);
  EXPECT_EQ(pwrite(published->fd(), "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(published->fd(), 0), -1);
}

TEST_F(PublishedStateTest, ForkedChildChangesACopyOfItsOwn) {
  uint64_t& counter = published->endpoint()->counters.received_packets;
  counter = 1;
  const pid_t child = fork();
  if (child == 0) {
    published->AbandonAfterFork();
    const bool saw_it = counter == 1;
    counter = 2;
    _exit(saw_it ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(counter, 1u);
}

TEST_F(PublishedStateTest, UnsealedOrShortMemoryIsRefused) {
  UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), sizeof(ProcessState)), 0);
  EXPECT_EQ(PublishedStateView::Open(Duplicate(unsealed.get())), nullptr);
  EXPECT_EQ(errno, EPROTO);

  ASSERT_EQ(ftruncate(unsealed.get(), sizeof(ProcessState) / 2), 0);
  ASSERT_EQ(fcntl(unsealed.get(), F_ADD_SEALS,
                  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | /*F_SEAL_FUTURE_WRITE*/ 0x10),
            0);
  EXPECT_EQ(PublishedStateView::Open(std::move(unsealed)), nullptr);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(PublishedStateView::Open(UniqueFd(open("/dev/null", O_RDONLY))), nullptr);
}

}  // namespace
}  // namespace uroce::nic
