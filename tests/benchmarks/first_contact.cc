// Measures the first datagram between two processes of a host: all processes send to all others for
// the first time, at the same moment. Reports the time from the post of a datagram to its
// completion at the receiver, which polls. A second round, in which no pair is new, shows the
// scheduler's share. Uses libibverbs alone.
//
//   usage: uroce run -- first_contact [PROCESSES [GID-INDEX]]      (16, 1)
#include <infiniband/verbs.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace {

constexpr int kMaxProcesses = 64;
constexpr uint32_t kQkey = 0x1234'5678;
constexpr size_t kGrhBytes = 40;
constexpr uint64_t kTimeout_ns = 10'000'000'000;  // datagrams not received by then count as lost

struct Address {
  ibv_gid gid;
  uint32_t qpn;
};

// One datagram from each process to each.
struct Round {
  std::atomic<int> set;  // processes that have all addresses and are idle
  std::array<std::array<uint64_t, kMaxProcesses>, kMaxProcesses> latency_ns;  // 0: lost
  std::array<uint64_t, kMaxProcesses> longest_post_ns;
};

constexpr std::array<const char*, 2> kRounds = {"first", "second"};

// Memory that the processes share.
struct Shared {
  std::atomic<int> ready;  // processes that have an address
  std::atomic<int> failed;
  std::array<Address, kMaxProcesses> addresses;
  std::array<Round, kRounds.size()> rounds;
};

uint64_t Now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

template <class T>
T* Check(T* result, const char* what) {
  if (result != nullptr) return result;
  std::fprintf(stderr, "first_contact: %s: %s\n", what, strerror(errno));
  _exit(1);
}

void Check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "first_contact: %s: %s\n", what, strerror(error));
  _exit(1);
}

void WaitForAll(const std::atomic<int>& count, int processes, const Shared& shared) {
  while (count.load() < processes && shared.failed.load() == 0) sched_yield();
}

class Process {
 public:
  Process(Shared& shared, int number, int processes, int gid_index)
      : shared_(shared), number_(number), processes_(processes) {
    ibv_device** devices = Check(ibv_get_device_list(nullptr), "no list of devices");
    context_ = Check(ibv_open_device(Check(devices[0], "no device")), "ibv_open_device");
    pd_ = Check(ibv_alloc_pd(context_), "ibv_alloc_pd");
    cq_ = Check(ibv_create_cq(context_, 2 * kReceives, nullptr, nullptr, 0), "ibv_create_cq");
    memory_.resize(kReceives * kSlotBytes);
    mr_ = Check(ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE),
                "ibv_reg_mr");
    CreateQueuePair();
    Address& own = shared_.addresses[static_cast<size_t>(number)];
    own.qpn = qp_->qp_num;
    Check(ibv_query_gid(context_, 1, gid_index, &own.gid), "ibv_query_gid");
    gid_index_ = static_cast<uint8_t>(gid_index);
  }

  void Run() {
    ++shared_.ready;
    WaitForAll(shared_.ready, processes_, shared_);
    std::vector<ibv_ah*> handles(static_cast<size_t>(processes_));
    for (int i = 0; i < processes_; ++i) {
      ibv_ah_attr attributes{};
      attributes.is_global = 1;
      attributes.port_num = 1;
      attributes.grh.dgid = AddressOf(i).gid;
      attributes.grh.sgid_index = gid_index_;
      attributes.grh.hop_limit = 64;
      handles[static_cast<size_t>(i)] = Check(ibv_create_ah(pd_, &attributes), "ibv_create_ah");
    }
    for (uint32_t round = 0; round < kRounds.size(); ++round) {
      std::atomic<int>& set = shared_.rounds[round].set;
      ++set;
      WaitForAll(set, processes_, shared_);
      for (int i = 1; i < processes_; ++i) {
        const int to = (number_ + i) % processes_;
        Send(round, handles[static_cast<size_t>(to)], AddressOf(to).qpn);
        Poll();
      }
      const uint64_t give_up = Now_ns() + kTimeout_ns;
      while (received_ < processes_ - 1 && Now_ns() < give_up) Poll();
      received_ = 0;
    }
  }

 private:
  static constexpr size_t kSlotBytes = 64;
  static constexpr int kReceives = kMaxProcesses * static_cast<int>(kRounds.size());
  struct Message {
    uint64_t sent_at_ns;
    uint32_t from;
    uint32_t round;
  };

  const Address& AddressOf(int process) const {
    return shared_.addresses[static_cast<size_t>(process)];
  }

  void CreateQueuePair() {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_UD;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = kReceives,
                .max_recv_wr = kReceives,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = sizeof(Message)};
    qp_ = Check(ibv_create_qp(pd_, &init), "ibv_create_qp");
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qkey = kQkey;
    Check(ibv_modify_qp(qp_, &attributes,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
          "to INIT");
    for (size_t i = 0; i < kReceives; ++i) {
      ibv_sge sge{reinterpret_cast<uintptr_t>(&memory_[i * kSlotBytes]), kSlotBytes, mr_->lkey};
      ibv_recv_wr request{.wr_id = i, .next = nullptr, .sg_list = &sge, .num_sge = 1};
      ibv_recv_wr* bad;
      Check(ibv_post_recv(qp_, &request, &bad), "ibv_post_recv");
    }
    attributes.qp_state = IBV_QPS_RTR;
    Check(ibv_modify_qp(qp_, &attributes, IBV_QP_STATE), "to RTR");
    attributes.qp_state = IBV_QPS_RTS;
    Check(ibv_modify_qp(qp_, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
  }

  void Send(uint32_t round, ibv_ah* to, uint32_t qpn) {
    const auto from = static_cast<uint32_t>(number_);
    Message message{.sent_at_ns = Now_ns(), .from = from, .round = round};
    ibv_sge sge{reinterpret_cast<uintptr_t>(&message), sizeof message, 0};
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    request.wr.ud = {.ah = to, .remote_qpn = qpn, .remote_qkey = kQkey};
    ibv_send_wr* bad;
    Check(ibv_post_send(qp_, &request, &bad), "ibv_post_send");
    uint64_t& longest = shared_.rounds[round].longest_post_ns[from];
    longest = std::max(longest, Now_ns() - message.sent_at_ns);
  }

  void Poll() {
    ibv_wc completion;
    while (ibv_poll_cq(cq_, 1, &completion) == 1) {
      if (completion.status != IBV_WC_SUCCESS) Check(EIO, ibv_wc_status_str(completion.status));
      if (completion.opcode != IBV_WC_RECV) continue;
      const uint64_t now_ns = Now_ns();
      Message message;
      memcpy(&message, &memory_[completion.wr_id * kSlotBytes + kGrhBytes], sizeof message);
      shared_.rounds[message.round].latency_ns[message.from][static_cast<size_t>(number_)] =
          now_ns - message.sent_at_ns;
      ++received_;
    }
  }

  Shared& shared_;
  const int number_;
  const int processes_;
  uint8_t gid_index_ = 0;
  ibv_context* context_;
  ibv_pd* pd_;
  ibv_cq* cq_;
  ibv_mr* mr_;
  ibv_qp* qp_ = nullptr;
  std::vector<uint8_t> memory_;
  int received_ = 0;
};

// Returns whether no datagram was lost.
bool Report(const char* name, const Round& round, size_t processes) {
  std::vector<double> latencies_us;
  for (size_t from = 0; from < processes; ++from) {
    for (size_t to = 0; to < processes; ++to) {
      const uint64_t latency_ns = round.latency_ns[from][to];
      if (latency_ns != 0) latencies_us.push_back(static_cast<double>(latency_ns) / 1'000);
    }
  }
  std::sort(latencies_us.begin(), latencies_us.end());
  const size_t count = latencies_us.size();
  const size_t lost = processes * (processes - 1) - count;
  if (count == 0) return false;
  std::printf(
      "%s: pairs %zu lost %zu median_us %.0f p90_us %.0f worst_us %.0f longest_post_us %.0f\n",
      name, count + lost, lost, latencies_us[count / 2], latencies_us[count * 9 / 10],
      latencies_us.back(),
      static_cast<double>(
          *std::max_element(round.longest_post_ns.begin(), round.longest_post_ns.end())) /
          1'000);
  return lost == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int processes = argc > 1 ? std::atoi(argv[1]) : 16;
  const int gid_index = argc > 2 ? std::atoi(argv[2]) : 1;
  if (processes < 2 || processes > kMaxProcesses) {
    std::fprintf(stderr, "usage: first_contact [PROCESSES [GID-INDEX]]\n");
    return 2;
  }
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Shared& shared = *new (memory) Shared{};
  for (int i = 0; i < processes; ++i) {
    if (fork() != 0) continue;
    Process(shared, i, processes, gid_index).Run();
    _exit(0);
  }
  for (int i = 0; i < processes; ++i) {
    int status;
    wait(&status);
    if (status != 0) ++shared.failed;
  }
  if (shared.failed.load() != 0) return 1;
  bool all_arrived = true;
  for (size_t i = 0; i < kRounds.size(); ++i) {
    all_arrived &= Report(kRounds[i], shared.rounds[i], static_cast<size_t>(processes));
  }
  return all_arrived ? 0 : 1;
}
