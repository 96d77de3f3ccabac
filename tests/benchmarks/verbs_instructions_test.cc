// Counts the instructions per message from libibverbs to libibverbs. Two queue pairs belong to one
// process, so a post runs through the whole stack twice, up to the completion.
#include <infiniband/verbs.h>

#include <array>
#include <string>

#include "tests/benchmarks/instruction_counter.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

using benchmarks::InstructionCounter;
using benchmarks::Require;

constexpr int kBatch = 16;
constexpr int kRounds = 4;
constexpr size_t kUpper = 32'768;  // offset in the buffer at which messages arrive

class Connection {
 public:
  Connection()
      : host_(1 << 16),
        cq_(host_.CreateCq(4 * kBatch)),
        receive_cq_(host_.CreateCq(4 * kBatch)),
        a_(Create()),
        b_(Create()) {
    ConnectLoopback(a_.get(), b_.get(), {.mtu = IBV_MTU_4096});
  }

  // `list`: requests per call of ibv_post_send. One of each kBatch is signaled.
  void Measure(const std::string& name, ibv_wr_opcode opcode, uint32_t length, int list) {
    if (opcode == IBV_WR_SEND) {
      for (int i = 0; i < kBatch; ++i) {
        Require(PostReceive(b_.get(), host_.Sge(kUpper, length), 1) == 0);
      }
    }
    std::array<ibv_sge, kBatch> pieces;
    std::array<ibv_send_wr, kBatch> requests{};
    for (int i = 0; i < kBatch; ++i) {
      ibv_send_wr& request = requests[i];
      pieces[i] = host_.Sge(0, length);
      request.sg_list = &pieces[i];
      request.num_sge = 1;
      request.opcode = opcode;
      request.send_flags = i == kBatch - 1 ? IBV_SEND_SIGNALED : 0;
      request.wr.rdma = {.remote_addr = host_.address(kUpper), .rkey = host_.mr->rkey};
      request.next = i % list == list - 1 ? nullptr : &request + 1;
    }
    ibv_send_wr* bad;
    InstructionCounter::Begin(name + "/post", kBatch);
    for (int i = 0; i < kBatch; i += list)
      Require(ibv_post_send(a_.get(), &requests[i], &bad) == 0);
    InstructionCounter::End();

    ibv_wc completion;
    InstructionCounter::Begin(name + "/poll", 1);
    Require(ibv_poll_cq(cq_.get(), 1, &completion) == 1);
    InstructionCounter::End();
    Require(completion.status == IBV_WC_SUCCESS);
    while (ibv_poll_cq(receive_cq_.get(), 1, &completion) == 1) {
    }
  }

 private:
  Qp Create() {
    ibv_qp_init_attr attributes = RcAttributes(cq_.get(), receive_cq_.get());
    return Qp(ibv_create_qp(host_.pd.get(), &attributes));
  }

  Host host_;
  Cq cq_, receive_cq_;
  Qp a_, b_;
};

void MeasureAll() {
  Connection connection;
  for (int round = 0; round < kRounds; ++round) {
    connection.Measure("write-64", IBV_WR_RDMA_WRITE, 64, 1);
    connection.Measure("write-64-list-of-16", IBV_WR_RDMA_WRITE, 64, kBatch);
    connection.Measure("send-2", IBV_WR_SEND, 2, 1);
    connection.Measure("write-4096", IBV_WR_RDMA_WRITE, 4'096, 1);
  }
}

TEST(VerbsInstructionsTest, AreAsManyAsTheyWere) {
  benchmarks::ExpectInstructions("tests/benchmarks/verbs_instructions.golden", MeasureAll);
}

}  // namespace
}  // namespace uroce::verbs::testing
