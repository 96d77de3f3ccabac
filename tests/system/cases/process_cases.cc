// Processes as daemons, real-time programs and coroutine libraries have them. Each test runs in a
// process of its own, which has not opened the device before.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/system/cases/child.h"
#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr int kMinuteMs = 60'000;

// The device of a process, opened when the process is ready for it.
class Traffic {
 public:
  ibv_context* context() const { return host_.context.get(); }
  int channel_fd() const { return pair_.channel->fd; }

  // Sends a message, which arrives with its event.
  void Exchange() {
    ASSERT_EQ(ibv_req_notify_cq(pair_.receive_cq.get(), 0), 0);
    ASSERT_EQ(PostReceive(pair_.b.get(), host_.Sge(32'768, 4096), 1), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host_.Sge(0, 4096)).Post(pair_.a.get()), 0);
    EXPECT_EQ(WaitForCompletion(pair_.send_cq.get()).status, IBV_WC_SUCCESS);
    pollfd waiting = {.fd = channel_fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&waiting, 1, kMinuteMs), 1);
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(pair_.channel.get(), &queue, &context), 0);
    ibv_ack_cq_events(queue, 1);
    EXPECT_EQ(WaitForCompletion(pair_.receive_cq.get()).status, IBV_WC_SUCCESS);
  }
  // Sends `count` messages, without events.
  bool Stream(int count) {
    for (int i = 0; i < count; ++i) {
      if (PostReceive(pair_.b.get(), host_.Sge(32'768, 4096), 1) != 0 ||
          SendRequest(IBV_WR_SEND, host_.Sge(0, 4096)).Post(pair_.a.get()) != 0 ||
          WaitForCompletion(pair_.send_cq.get()).status != IBV_WC_SUCCESS ||
          WaitForCompletion(pair_.receive_cq.get()).status != IBV_WC_SUCCESS) {
        return false;
      }
    }
    return true;
  }
  // Creates and destroys what a connection needs.
  bool MakeObjects() {
    const Cq cq = host_.CreateCq(16);
    ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
    const Qp a(ibv_create_qp(host_.pd.get(), &attr));
    const Qp b(ibv_create_qp(host_.pd.get(), &attr));
    ConnectLoopback(a.get(), b.get());
    const Mr mr(ibv_reg_mr(host_.pd.get(), host_.data(), 8192, Host::kAllAccess));
    return mr != nullptr;
  }

 private:
  Host host_;
  AnnouncedPair pair_{host_};
};

// dingofs #976, Ceph #13525: programs close every descriptor that they did not open.
TEST(Descriptors, ClosedBeforeTheDeviceIsOpened) {
  EXPECT_EQ(ExitStatusOf([] {
              close_range(3, ~0u, 0);
              Traffic().Exchange();
            }),
            0);
}

TEST(Descriptors, ClosedByADaemonWhoseParentHasLeft) {
  int output[2];
  ASSERT_EQ(pipe(output), 0);
  EXPECT_EQ(ExitStatusOf([&] {
              if (fork() != 0) _exit(0);
              setsid();
              dup2(output[1], 3);
              close_range(4, ~0u, 0);
              Traffic().Exchange();
              const char result = ::testing::Test::HasFailure() ? '-' : '+';
              EXPECT_EQ(write(3, &result, 1), 1);
              _exit(0);
            }),
            0);
  close(output[1]);
  char result = 0;
  EXPECT_EQ(read(output[0], &result, 1), 1) << "the daemon has died";
  EXPECT_EQ(result, '+');
  close(output[0]);
}

// Servers with thousands of connections: the device's descriptors do not fit into an fd_set.
TEST(Descriptors, BeyondThoseOfAnFdSet) {
  EXPECT_EQ(ExitStatusOf([] {
              rlimit limit;
              getrlimit(RLIMIT_NOFILE, &limit);
              limit.rlim_cur = limit.rlim_max;
              setrlimit(RLIMIT_NOFILE, &limit);
              for (int i = 0; i < 1500; ++i) {
                if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) std::exit(77);
              }
              Traffic traffic;
              EXPECT_GT(traffic.channel_fd(), 1500);
              traffic.Exchange();
            }),
            0);
}

// A daemon that has closed its standard descriptors, and a library in it that prints to them. The
// numbers belong to the device now. As of the kernel's uverbs files, stray text changes nothing.
TEST(Descriptors, StrayTextOnStandardDescriptorsChangesNothing) {
  Child daemon([](const Line& line) {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    Traffic traffic;
    char text[200];
    std::memset(text, 'E', sizeof text);
    for (int fd = 0; fd < 3; ++fd) {
      EXPECT_LE(write(fd, text, sizeof text), 0) << fd;
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
      [[maybe_unused]] const ssize_t count = read(fd, text, sizeof text);
    }
    for (int i = 0; i < 3; ++i) traffic.Exchange();
    EXPECT_TRUE(traffic.MakeObjects());
    ExpectNoAsyncEvent(traffic.context());
    line.Tell(::testing::Test::HasFailure());
  });
  EXPECT_FALSE(daemon.line().Hear<bool>());
}

// corosync, SPDK and real-time programs lock their memory before anything else. Reserved memory is
// not populated for it.
TEST(LockedMemory, GrowsByTensOfMegabytesOnly) {
  EXPECT_EQ(ExitStatusOf([] {
              if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) std::exit(77);
              Traffic().Exchange();
              FILE* const status = fopen("/proc/self/status", "r");
              char line[200];
              long locked_kb = -1;
              while (fgets(line, sizeof line, status) != nullptr) {
                sscanf(line, "VmLck: %ld", &locked_kb);
              }
              fclose(status);
              EXPECT_GT(locked_kb, 0);
              EXPECT_LT(locked_kb, 100'000);
            }),
            0);
}

// Runs a function on a thread with a stack of 16 KiB, the smallest that POSIX allows.
bool OnSmallThread(const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16 * 1024);
  pthread_t thread;
  const auto run = [](void* function) -> void* {
    (*static_cast<const std::function<void()>*>(function))();
    return nullptr;
  };
  const int error =
      pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&body));
  pthread_attr_destroy(&attributes);
  return error == 0 && pthread_join(thread, nullptr) == 0;
}

// The coroutine of one test, and where it returns to.
ucontext_t main_context;
ucontext_t coroutine_context;
const std::function<void()>* coroutine_body = nullptr;

// Runs a function on a stack of 8 KiB, as coroutine libraries do; below it is a page without
// access.
void OnCoroutine(const std::function<void()>& body) {
  constexpr size_t kPage = 4096;
  constexpr size_t kStackBytes = 8 * 1024;
  auto* const memory = static_cast<uint8_t*>(mmap(
      nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(memory, kPage, PROT_NONE), 0);
  getcontext(&coroutine_context);
  coroutine_context.uc_stack.ss_sp = memory + kPage;
  coroutine_context.uc_stack.ss_size = kStackBytes;
  coroutine_context.uc_link = &main_context;
  coroutine_body = &body;
  makecontext(
      &coroutine_context, [] { (*coroutine_body)(); }, 0);
  swapcontext(&main_context, &coroutine_context);
  munmap(memory, kPage + kStackBytes);
}

// brpc's bthreads, photon and seastar call verbs on stacks of a few KiB.
TEST(SmallStack, CarriesTheDataPathAndTheObjects) {
  Traffic traffic;
  bool streamed = false;
  bool made = false;
  const std::function<void()> stream = [&] { streamed = traffic.Stream(1000); };
  const std::function<void()> make = [&] { made = traffic.MakeObjects(); };
  EXPECT_TRUE(OnSmallThread(stream));
  EXPECT_TRUE(OnSmallThread(make));
  EXPECT_TRUE(streamed && made);
  streamed = made = false;
  OnCoroutine(stream);
  OnCoroutine(make);
  EXPECT_TRUE(streamed && made);
}

int Entries(const char* folder) {
  DIR* const directory = opendir(folder);
  int count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// TransferBench #239, exporters, plugins: the device is opened and closed again and again.
TEST(Contexts, OpenedAndClosedLeaveNothingBehind) {
  const auto cycle = [] {
    Host host;
    const Cq cq = host.CreateCq(16);
    ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
    const Qp qp(ibv_create_qp(host.pd.get(), &attr));
    ASSERT_NE(qp, nullptr);
  };
  for (int i = 0; i < 20; ++i) cycle();
  const int descriptors = Entries("/proc/self/fd");
  const int threads = Entries("/proc/self/task");
  for (int i = 0; i < 500; ++i) cycle();
  EXPECT_EQ(Entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(Entries("/proc/self/task"), threads);
}

// A context for each thread of a server. Their queue pairs reach each other; a key of another
// context's protection domain opens nothing.
TEST(Contexts, SixtyFourAtOnceReachEachOther) {
  constexpr size_t kContexts = 64;
  struct End {
    Host host;
    Cq cq = host.CreateCq(16);
    Qp qp;
  };
  std::array<End, kContexts> ends;
  for (End& end : ends) {
    ibv_qp_init_attr attr = RcAttributes(end.cq.get(), end.cq.get());
    end.qp.reset(ibv_create_qp(end.host.pd.get(), &attr));
    ASSERT_NE(end.qp, nullptr);
  }
  for (size_t i = 0; i < kContexts; i += 2) {
    End& from = ends[i];
    End& to = ends[i + 1];
    ConnectLoopback(from.qp.get(), to.qp.get());
    std::fill_n(from.host.data(), 1024, static_cast<uint8_t>(i + 1));
    SendRequest write(IBV_WR_RDMA_WRITE, from.host.Sge(0, 1024));
    ASSERT_EQ(write.Remote(to.host.address(4096), to.host.mr->rkey).Post(from.qp.get()), 0);
    EXPECT_EQ(WaitForCompletion(from.cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(to.host.data()[4096 + 1023], i + 1);
  }
  SendRequest foreign(IBV_WR_RDMA_WRITE, ends[0].host.Sge(0, 64));
  ASSERT_EQ(foreign.Remote(ends[3].host.address(), ends[3].host.mr->rkey).Post(ends[0].qp.get()),
            0);
  EXPECT_EQ(WaitForCompletion(ends[0].cq.get()).status, IBV_WC_REM_ACCESS_ERR);
}

// How many descriptors a program has that is started now.
int DescriptorsOfAProgram() {
  FILE* const output = popen("ls /proc/self/fd | wc -l", "r");
  int count = -1;
  EXPECT_EQ(fscanf(output, "%d", &count), 1);
  EXPECT_EQ(pclose(output), 0);
  return count;
}

// Ceph and UCX start programs while the device is open. uverbs files are closed on exec; a program
// that is started can open the device itself. The parent's traffic goes on.
TEST(Exec, ChildInheritsNoDescriptorAndHasTheDevice) {
  const int before = DescriptorsOfAProgram();
  Traffic traffic;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(DescriptorsOfAProgram(), before);
    EXPECT_TRUE(traffic.Stream(1));
  }
  EXPECT_EQ(std::system("ibv_devices | grep -q uroce0"), 0);
}

// Ceph #28012: a server opens the device as root and then becomes another user. What it has goes on
// working, and new objects can be made.
TEST(Privileges, DroppedAfterTheDeviceIsOpen) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(ExitStatusOf([] {
              constexpr uid_t kNobody = 65534;
              Traffic traffic;
              traffic.Exchange();
              ASSERT_EQ(setgroups(0, nullptr), 0);
              ASSERT_EQ(setgid(kNobody), 0);
              ASSERT_EQ(setuid(kNobody), 0);
              for (int i = 0; i < 3; ++i) traffic.Exchange();
              EXPECT_TRUE(traffic.MakeObjects());
            }),
            0);
}

}  // namespace
}  // namespace uroce::verbs::testing
