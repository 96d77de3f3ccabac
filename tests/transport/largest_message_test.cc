// Messages of 2^31 bytes, the longest possible. At the smallest path MTU they take 2^23 packets:
// half of all PSNs, where "before" and "after" are about to change places (IBA 9.7.1).

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tests/transport/connected_pair.h"
#include "transport/limits.h"

namespace uroce::transport {
namespace {

constexpr size_t kStrideBytes = 2 << 20;

// kMaxMessageBytes of address space, all backed by the same 2 MiB.
class LargeBuffer {
 public:
  LargeBuffer() {
    const int fd = memfd_create("large-buffer", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, kStrideBytes) != 0) std::abort();
    void* base = mmap(nullptr, kMaxMessageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) std::abort();
    base_ = static_cast<uint8_t*>(base);
    for (uint64_t offset = 0; offset < kMaxMessageBytes; offset += kStrideBytes) {
      if (mmap(base_ + offset, kStrideBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
               0) == MAP_FAILED) {
        std::abort();
      }
    }
    close(fd);
  }
  ~LargeBuffer() { munmap(base_, kMaxMessageBytes); }

  uint8_t* base() const { return base_; }
  LKey RegisterWith(Endpoint& endpoint) const {
    return *endpoint.memory().Register({.pd = kTestPd,
                                        .iova = reinterpret_cast<uint64_t>(base_),
                                        .host_address = base_,
                                        .length = kMaxMessageBytes,
                                        .access = AccessFlags(kAllAccess)});
  }

 private:
  uint8_t* base_;
};

struct Case {
  SendOpcode opcode;
  Mtu mtu;
};

class LargestMessageTest : public testing::TestWithParam<Case> {};

TEST_P(LargestMessageTest, ArrivesWhole) {
  ConnectedPair pair(/*gid_index=*/1, GetParam().mtu);
  const LargeBuffer local, remote;
  const bool is_read = GetParam().opcode == SendOpcode::kRdmaRead;
  // The last stride written stays in memory. Each byte of the source encodes its offset in the
  // stride.
  uint8_t* const source = is_read ? remote.base() : local.base();
  const uint8_t* const target = is_read ? local.base() : remote.base();
  for (size_t i = 0; i < kStrideBytes; ++i) source[i] = static_cast<uint8_t>(i * 131 >> 7);

  const ScatterGatherEntry sge = {reinterpret_cast<uint64_t>(local.base()),
                                  static_cast<uint32_t>(kMaxMessageBytes),
                                  local.RegisterWith(pair.client.endpoint)};
  SendWorkRequest request;
  request.opcode = GetParam().opcode;
  request.signaled = true;
  request.remote_address = reinterpret_cast<uint64_t>(remote.base());
  request.rkey = RKey{remote.RegisterWith(pair.server.endpoint).value};
  request.sges = {&sge, 1};
  ASSERT_EQ(pair.client.qp->PostSend(request), Status::kOk);
  pair.Exchange();

  const auto done = pair.client.Poll();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[0].byte_length, 1u << 31);
  EXPECT_EQ(std::memcmp(source, target, kStrideBytes), 0);
  const uint64_t packets = kMaxMessageBytes / Bytes(GetParam().mtu);
  EXPECT_EQ(pair.client.qp->Query().sq_psn, kFirstPsn + static_cast<uint32_t>(packets));
  EXPECT_EQ(pair.server.qp->Query().rq_psn, kFirstPsn + static_cast<uint32_t>(packets));
  EXPECT_EQ(pair.client.endpoint.counters().retransmitted_packets, 0u);
}

INSTANTIATE_TEST_SUITE_P(Operations, LargestMessageTest,
                         testing::Values(Case{SendOpcode::kRdmaWrite, Mtu::k256},
                                         Case{SendOpcode::kRdmaRead, Mtu::k256},
                                         Case{SendOpcode::kRdmaRead, Mtu::k4096}));

}  // namespace
}  // namespace uroce::transport
