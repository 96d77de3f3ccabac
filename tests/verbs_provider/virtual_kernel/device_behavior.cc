// The behaviour of the device, as an application sees it through the stock libibverbs.
// preloaded_test.sh runs it under the preload library and the test provider.

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/close_range.h>
#include <linux/netlink.h>
#include <poll.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using ::testing::HasSubstr;

ibv_context* OpenDevice() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_context* context = nullptr;
  for (int at = 0; at < count; ++at) {
    if (strcmp(ibv_get_device_name(list[at]), "uroce0") == 0) context = ibv_open_device(list[at]);
  }
  ibv_free_device_list(list);
  return context;
}

std::set<int> OpenDescriptors() {
  std::set<int> descriptors;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(directory)) descriptors.insert(fd);
  }
  closedir(directory);
  return descriptors;
}

bool IsReadable(int fd) {
  pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&poll_fd, 1, 0) == 1;
}

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    context_ = OpenDevice();
    ASSERT_NE(context_, nullptr) << strerror(errno);
  }
  void TearDown() override { EXPECT_EQ(ibv_close_device(context_), 0); }
  ibv_context* context_ = nullptr;
};

TEST_F(DeviceTest, IdentityIsTheDescriptions) {
  EXPECT_EQ(ibv_get_device_guid(context_->device), htobe64(0x02aabbfffe000001));
  EXPECT_EQ(ibv_get_device_index(context_->device), 900'000'900);
  EXPECT_STREQ(context_->device->dev_name, "uverbs900");
  EXPECT_EQ(context_->device->node_type, IBV_NODE_CA);
  EXPECT_EQ(context_->device->transport_type, IBV_TRANSPORT_IB);
  EXPECT_EQ(context_->num_comp_vectors, 2);
}

TEST_F(DeviceTest, TablesAreTheDescriptions) {
  ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(context_, 1, 1, &gid), 0);
  EXPECT_EQ(gid.raw[12], 127);
  ibv_gid_entry entries[8];
  EXPECT_EQ(ibv_query_gid_table(context_, entries, 8, 0), 2);
  EXPECT_EQ(entries[1].gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V2));
  ibv_gid_entry entry;
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 0, &entry, 0), 0);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 3, &entry, 0), ENODATA);
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(context_, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, htobe16(0xffff)), 0);
  EXPECT_LT(ibv_get_pkey_index(context_, 1, htobe16(0x8001)), 0);
}

// A fork() neither loses nor shares anything of the device. A real kernel may answer otherwise.
TEST_F(DeviceTest, ForkNeedsNoPreparation) {
  if (access("/sys/module/ib_core", F_OK) == 0) GTEST_SKIP() << "the real kernel answers";
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

TEST_F(DeviceTest, CommandDescriptorLooksLikeTheDeviceNode) {
  struct stat by_path;
  struct stat by_fd;
  ASSERT_EQ(stat("/dev/infiniband/uverbs900", &by_path), 0);
  ASSERT_EQ(fstat(context_->cmd_fd, &by_fd), 0);
  EXPECT_TRUE(S_ISCHR(by_fd.st_mode));
  EXPECT_EQ(by_fd.st_rdev, by_path.st_rdev);
  struct statx extended;
  ASSERT_EQ(statx(context_->cmd_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &extended), 0);
  EXPECT_EQ(makedev(extended.stx_rdev_major, extended.stx_rdev_minor), by_path.st_rdev);
}

TEST_F(DeviceTest, VerbsWithoutAnOpAreNotSupported) {
  ibv_pd* pd = ibv_alloc_pd(context_);
  ASSERT_NE(pd, nullptr);
  ibv_srq_init_attr attr = {};
  attr.attr.max_wr = 1;
  attr.attr.max_sge = 1;
  errno = 0;
  EXPECT_EQ(ibv_create_srq(pd, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(DeviceTest, ExtendedQueuePairIsRecognizedByTheLibrary) {
  ibv_qp_init_attr_ex attr = {};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  ibv_qp* extended = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(extended, nullptr);
  EXPECT_EQ(static_cast<void*>(ibv_qp_to_qp_ex(extended)), extended);
  EXPECT_EQ(ibv_destroy_qp(extended), 0);

  // Not PD alone: that would be an ibv_create_qp().
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  ibv_qp* plain = ibv_create_qp_ex(context_, &attr);
  EXPECT_EQ(ibv_qp_to_qp_ex(plain), nullptr);
  EXPECT_EQ(ibv_destroy_qp(plain), 0);
}

TEST_F(DeviceTest, AsynchronousEventIsDelivered) {
  EXPECT_TRUE(IsReadable(context_->async_fd));
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(event.element.port_num, 1);
  ibv_ack_async_event(&event);
  EXPECT_FALSE(IsReadable(context_->async_fd));
}

TEST_F(DeviceTest, DeviceOpensManyTimesWithoutLeakingDescriptors) {
  const std::set<int> before = OpenDescriptors();
  for (int round = 0; round < 50; ++round) ASSERT_EQ(ibv_close_device(OpenDevice()), 0);
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(DeviceTest, FailureOfTheProviderIsItsErrnoAndLeaksNothing) {
  const std::set<int> before = OpenDescriptors();
  setenv("TEST_PROVIDER_REFUSES", "1", 1);
  errno = 0;
  EXPECT_EQ(OpenDevice(), nullptr);
  unsetenv("TEST_PROVIDER_REFUSES");
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(DeviceTest, ThreadsOpenAndCloseAtTheSameTime) {
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&failures] {
      for (int round = 0; round < 100; ++round) {
        ibv_context* context = OpenDevice();
        ibv_comp_channel* channel = context == nullptr ? nullptr : ibv_create_comp_channel(context);
        if (channel == nullptr || ibv_destroy_comp_channel(channel) != 0) ++failures;
        if (context == nullptr || ibv_close_device(context) != 0) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

class ChannelTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    channel_ = ibv_create_comp_channel(context_);
    ASSERT_NE(channel_, nullptr);
    cq_ = ibv_create_cq(context_, 16, this, channel_, 0);
    ASSERT_NE(cq_, nullptr);
  }
  void TearDown() override {
    if (cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    }
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    DeviceTest::TearDown();
  }
  void RaiseEvent() { ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0); }
  void ExpectEvent() {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), 0);
    EXPECT_EQ(cq, cq_);
    EXPECT_EQ(cq_context, this);
    ibv_ack_cq_events(cq, 1);
  }

  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

TEST_F(ChannelTest, EventReachesEpollAndIsConsumed) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event interest = {};
  interest.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, channel_->fd, &interest), 0);
  epoll_event ready;
  EXPECT_EQ(epoll_wait(epoll, &ready, 1, 0), 0);
  RaiseEvent();
  EXPECT_EQ(epoll_wait(epoll, &ready, 1, 0), 1);
  ExpectEvent();
  EXPECT_EQ(epoll_wait(epoll, &ready, 1, 0), 0);
  close(epoll);
}

TEST_F(ChannelTest, NonBlockingReadOfNothingIsEagain) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* cq;
  void* cq_context;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ChannelTest, DestroyedCqTakesItsUnreadEventsWithIt) {
  ibv_cq* other = ibv_create_cq(context_, 16, nullptr, channel_, 0);
  RaiseEvent();
  ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
  EXPECT_EQ(ibv_destroy_cq(other), 0);
  ExpectEvent();
  EXPECT_FALSE(IsReadable(channel_->fd));
}

TEST_F(ChannelTest, DestroyWaitsForTheAcknowledgement) {
  RaiseEvent();
  ibv_cq* cq;
  void* cq_context;
  ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &cq_context), 0);
  std::atomic<bool> acknowledged = false;
  std::thread acknowledger([&] {
    usleep(20'000);  // long enough for the destroy to be waiting, most of the time
    acknowledged = true;
    ibv_ack_cq_events(cq, 1);
  });
  EXPECT_EQ(ibv_destroy_cq(cq_), 0);
  EXPECT_TRUE(acknowledged);
  cq_ = nullptr;
  acknowledger.join();
}

TEST_F(ChannelTest, ChannelInUseIsNotDestroyed) {
  EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
}

TEST_F(ChannelTest, CopyOfTheDescriptorReadsTheSameEvents) {
  const int copies[] = {dup(channel_->fd), fcntl(channel_->fd, F_DUPFD_CLOEXEC, 100)};
  for (int copy : copies) {
    RaiseEvent();
    uint64_t element = 0;
    ASSERT_EQ(read(copy, &element, sizeof(element)), static_cast<ssize_t>(sizeof(element)));
    EXPECT_EQ(element, reinterpret_cast<uintptr_t>(cq_));
    ibv_ack_cq_events(cq_, 1);
    EXPECT_EQ(close(copy), 0);
  }
  RaiseEvent();
  ExpectEvent();
}

// The provider finds the channel by its present descriptor.
TEST_F(ChannelTest, DescriptorThatMovedStillDelivers) {
  const auto move_to = [this](int copy) {
    ASSERT_GE(copy, 0);
    ASSERT_EQ(close(channel_->fd), 0);
    channel_->fd = copy;
    RaiseEvent();
    ExpectEvent();
  };
  move_to(dup(channel_->fd));
  move_to(fcntl(channel_->fd, F_DUPFD, 100));
  move_to(fcntl(channel_->fd, F_DUPFD_CLOEXEC, 200));
  const int target = open("/dev/null", O_RDONLY);
  move_to(dup2(channel_->fd, target));
  EXPECT_EQ(channel_->fd, target);
  move_to(dup3(channel_->fd, 300, O_CLOEXEC));
}

// Some programs close every descriptor that they did not open themselves.
TEST_F(ChannelTest, ClosingEverythingElseDoesNotBreakTheDevice) {
  const std::set<int> ours = {0, 1, 2, channel_->fd, context_->cmd_fd, context_->async_fd};
  for (int fd = 0; fd < 1024; ++fd) {
    if (ours.count(fd) == 0) close(fd);
  }
  RaiseEvent();
  ExpectEvent();
  ASSERT_EQ(close_range(static_cast<unsigned int>(*ours.rbegin()) + 1, ~0u, 0), 0);
  RaiseEvent();
  ExpectEvent();
}

// The child of vfork() shares our memory, but closes its own descriptors.
TEST_F(ChannelTest, ChildOfVforkDoesNotDisturbTheParent) {
  const pid_t child = vfork();
  if (child == 0) {
    close(channel_->fd);
    close_range(3, ~0u, 0);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  RaiseEvent();
  ExpectEvent();
}

TEST_F(ChannelTest, ChildOfForkCanCloseAnInheritedChannel) {
  const pid_t child = fork();
  if (child == 0) {
    const bool closed = close(channel_->fd) == 0 && fcntl(channel_->fd, F_GETFD) == -1;
    _exit(closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  RaiseEvent();
  ExpectEvent();
}

TEST_F(DeviceTest, ChildOfForkAndExecSeesTheDevice) {
  FILE* child = popen("ibv_devices", "r");
  ASSERT_NE(child, nullptr);
  std::string output;
  char line[256];
  while (fgets(line, sizeof(line), child) != nullptr) output += line;
  EXPECT_EQ(pclose(child), 0);
  EXPECT_THAT(output, HasSubstr("uroce0"));
}

// Addresses that no memory has, as a program hands them over by mistake.
TEST_F(DeviceTest, WrongPointersAreBadAddresses) {
  void* volatile hidden = reinterpret_cast<void*>(8);  // from the compiler, which knows better
  void* const wrong = hidden;
  EXPECT_EQ(ioctl(context_->cmd_fd, RDMA_VERBS_IOCTL, wrong), -1);
  EXPECT_EQ(errno, EFAULT);

  const int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
  ASSERT_GE(netlink, 0);
  const auto is_bad_address = [](ssize_t result) { return result == -1 && errno == EFAULT; };
  constexpr size_t kBytes = 64;
  iovec piece = {wrong, kBytes};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  auto* const address = static_cast<sockaddr*>(wrong);
  auto* const bytes = static_cast<socklen_t*>(wrong) + 1;
  socklen_t room = sizeof(sockaddr_nl);
  EXPECT_TRUE(is_bad_address(send(netlink, wrong, kBytes, 0)));
  EXPECT_TRUE(is_bad_address(write(netlink, wrong, kBytes)));
  EXPECT_TRUE(is_bad_address(writev(netlink, &piece, 1)));
  EXPECT_TRUE(is_bad_address(writev(netlink, static_cast<iovec*>(wrong), 1)));
  EXPECT_TRUE(is_bad_address(sendmsg(netlink, &message, 0)));
  EXPECT_TRUE(is_bad_address(sendmsg(netlink, static_cast<msghdr*>(wrong), 0)));
  EXPECT_TRUE(is_bad_address(recvmsg(netlink, static_cast<msghdr*>(wrong), MSG_DONTWAIT)));
  EXPECT_TRUE(is_bad_address(bind(netlink, address, sizeof(sockaddr_nl))));
  EXPECT_TRUE(is_bad_address(getsockname(netlink, address, &room)));
  EXPECT_TRUE(is_bad_address(getsockname(netlink, address, bytes)));
  EXPECT_EQ(close(netlink), 0);
}

}  // namespace
