// Measures how many messages of 64 bytes the threads of one program exchange, in millions a second.
// Each thread has a cpu of its own and two reliable queue pairs that are connected to each other.
// Every message is verified.
//
//   thread_pairs write|send own|tied THREADS SECONDS
//
// own: each thread has a completion queue of its own, and threads share nothing but the context and
// the protection domain. tied: what a thread's second queue pair receives completes in the queue of
// the next thread (send).

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tools/bench_tools/cpus.h"

namespace {

constexpr uint32_t kDepth = 64;
constexpr uint32_t kPost = 16;                    // requests per call
constexpr uint64_t kReceive = uint64_t{1} << 63;  // in wr_id: a receive

using Message = std::array<uint64_t, 8>;

template <class T>
T* Made(T* object, const char* call) {
  if (object == nullptr) throw std::runtime_error(std::string(call) + ": " + strerror(errno));
  return object;
}

void Check(int error, const char* call) {
  if (error != 0) throw std::runtime_error(std::string(call) + ": " + strerror(error));
}

ibv_context* OpenDevice() {
  int count = 0;
  ibv_device** const devices = Made(ibv_get_device_list(&count), "ibv_get_device_list");
  if (count == 0) throw std::runtime_error("there is no RDMA device");
  return Made(ibv_open_device(devices[0]), "ibv_open_device");
}

void Connect(ibv_qp* qp, uint32_t peer, const ibv_gid& gid) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  Check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "ibv_modify_qp");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.hop_limit = 1;
  Check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        "ibv_modify_qp");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  Check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
        "ibv_modify_qp");
}

struct Pair {
  ibv_cq* cq = nullptr;
  ibv_qp* sender = nullptr;
  ibv_qp* receiver = nullptr;
  ibv_mr* memory = nullptr;
  std::array<Message, kDepth> sent{};
  std::array<Message, kDepth> received{};
  uint64_t posted = 0;
  uint64_t completed = 0;
  uint64_t arrived = 0;  // counted by the thread in whose queue they complete
};

class Run {
 public:
  Run(bool sends, bool tied, size_t threads) : sends_(sends), pairs_(threads) {
    ibv_context* const context = OpenDevice();
    ibv_pd* const domain = Made(ibv_alloc_pd(context), "ibv_alloc_pd");
    ibv_gid gid;
    Check(ibv_query_gid(context, 1, 0, &gid), "ibv_query_gid");
    for (Pair& pair : pairs_) {
      pair.cq = Made(ibv_create_cq(context, 4 * kDepth, nullptr, nullptr, 0), "ibv_create_cq");
      pair.memory = Made(
          ibv_reg_mr(domain, &pair, sizeof pair, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
          "ibv_reg_mr");
    }
    for (size_t i = 0; i < threads; ++i) {
      Pair& pair = pairs_[i];
      ibv_qp_init_attr attr{};
      attr.qp_type = IBV_QPT_RC;
      attr.cap = {kDepth, kDepth, 1, 1, 0};
      attr.send_cq = attr.recv_cq = pair.cq;
      pair.sender = Made(ibv_create_qp(domain, &attr), "ibv_create_qp");
      if (tied) attr.recv_cq = pairs_[(i + 1) % threads].cq;
      pair.receiver = Made(ibv_create_qp(domain, &attr), "ibv_create_qp");
      Connect(pair.sender, pair.receiver->qp_num, gid);
      Connect(pair.receiver, pair.sender->qp_num, gid);
      for (uint64_t slot = 0; slot < kDepth && sends; ++slot) PostReceive(i, slot);
    }
  }

  // Returns how many messages all threads have completed.
  uint64_t Measure(double seconds) {
    const std::vector<int> cpus = uroce::bench::AllowedCpus();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      threads.emplace_back([this, i, cpu = cpus[i % cpus.size()]] {
        uroce::bench::PinTo(cpu);
        try {
          while (!stop_) Turn(pairs_[i]);
        } catch (const std::exception& error) {
          std::fprintf(stderr, "thread_pairs: %s\n", error.what());
          failed_ = stop_ = true;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    if (failed_) throw std::runtime_error("a thread failed");
    uint64_t completed = 0;
    for (const Pair& pair : pairs_) completed += pair.completed;
    return completed;
  }

 private:
  void PostReceive(size_t of_pair, uint64_t slot) {
    Pair& pair = pairs_[of_pair];
    ibv_sge piece = {reinterpret_cast<uint64_t>(&pair.received[slot]), sizeof(Message),
                     pair.memory->lkey};
    ibv_recv_wr request{};
    request.wr_id = kReceive | of_pair << 32 | slot;
    request.sg_list = &piece;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    Check(ibv_post_recv(pair.receiver, &request, &bad), "ibv_post_recv");
  }

  void PostSends(Pair& pair) {
    std::array<ibv_sge, kPost> pieces;
    std::array<ibv_send_wr, kPost> requests{};
    for (uint32_t i = 0; i < kPost; ++i) {
      const uint64_t number = pair.posted + i;
      Message& message = pair.sent[number % kDepth];
      message.fill(number);
      pieces[i] = {reinterpret_cast<uint64_t>(&message), sizeof message, pair.memory->lkey};
      requests[i].wr_id = number;
      requests[i].next = i + 1 < kPost ? &requests[i + 1] : nullptr;
      requests[i].sg_list = &pieces[i];
      requests[i].num_sge = 1;
      requests[i].opcode = sends_ ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
      requests[i].send_flags = IBV_SEND_SIGNALED;
      requests[i].wr.rdma.remote_addr = reinterpret_cast<uint64_t>(&pair.received[number % kDepth]);
      requests[i].wr.rdma.rkey = pair.memory->rkey;
    }
    ibv_send_wr* bad = nullptr;
    Check(ibv_post_send(pair.sender, requests.data(), &bad), "ibv_post_send");
    pair.posted += kPost;
  }

  void Verify(const Message& message, uint64_t number) {
    const bool is_right = std::all_of(message.begin(), message.end(),
                                      [number](uint64_t word) { return word == number; });
    if (!is_right) throw std::runtime_error("message " + std::to_string(number) + " is wrong");
  }

  void Turn(Pair& pair) {
    if (pair.posted - pair.completed + kPost <= kDepth) PostSends(pair);
    std::array<ibv_wc, 16> completions;
    const int count =
        ibv_poll_cq(pair.cq, static_cast<int>(completions.size()), completions.data());
    if (count < 0) throw std::runtime_error("ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      const ibv_wc& done = completions[static_cast<size_t>(i)];
      if (done.status != IBV_WC_SUCCESS) throw std::runtime_error(ibv_wc_status_str(done.status));
      if ((done.wr_id & kReceive) == 0) {
        if (done.wr_id != pair.completed) throw std::runtime_error("a completion is missing");
        if (!sends_) Verify(pair.received[done.wr_id % kDepth], done.wr_id);
        ++pair.completed;
      } else {
        const size_t of_pair = (done.wr_id & ~kReceive) >> 32;
        Pair& other = pairs_[of_pair];
        Verify(other.received[done.wr_id % kDepth], other.arrived++);
        PostReceive(of_pair, done.wr_id % kDepth);
      }
    }
  }

  const bool sends_;
  std::vector<Pair> pairs_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
};

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 4 || (words[0] != "write" && words[0] != "send") ||
      (words[1] != "own" && words[1] != "tied") || (words[0] == "write" && words[1] == "tied")) {
    std::fputs("usage: thread_pairs write|send own|tied THREADS SECONDS\n", stderr);
    return 2;
  }
  const double seconds = std::stod(words[3]);
  Run run(words[0] == "send", words[1] == "tied", std::stoul(words[2]));
  std::printf("%.3f\n", static_cast<double>(run.Measure(seconds)) / seconds / 1e6);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "thread_pairs: %s\n", error.what());
  return 1;
}
