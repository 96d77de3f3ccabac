#include "verbs_provider/virtual_kernel/rdma_cm/rdma_cm_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

struct uroce_rdma_cm {
  void* file;
  uroce_rdma_cm_events events;
};

namespace uroce::verbs::virtual_kernel {
namespace {

// A provider that only counts its events.
struct FakeProvider {
  std::atomic<int> events = 0;
  std::atomic<int> closed = 0;
  std::atomic<int> asked = 0;
  std::atomic<uroce_rdma_cm*> other = nullptr;
  int open_error = 0;
};
FakeProvider provider;

int Open(void* file, uroce_rdma_cm_events events, uroce_rdma_cm** channel) {
  if (provider.open_error != 0) return provider.open_error;
  *channel = new uroce_rdma_cm{file, events};
  return 0;
}

int Write(uroce_rdma_cm* /*channel*/, uroce_rdma_cm* other, const void* command, size_t bytes) {
  provider.other = other;
  ++provider.asked;
  rdma_ucm_cmd_hdr header;
  if (bytes < sizeof header) return EINVAL;
  std::memcpy(&header, command, sizeof header);
  if (header.cmd != RDMA_USER_CM_CMD_GET_EVENT) return 0;
  if (header.out == 0) return ENOSPC;
  if (provider.events == 0) return EAGAIN;
  --provider.events;
  return 0;
}

void Close(uroce_rdma_cm* channel) {
  ++provider.closed;
  delete channel;
}

constexpr RdmaCmFunctions kFunctions{Open, Write, Close};

struct GetEventCommand {
  rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_GET_EVENT, sizeof(rdma_ucm_get_event),
                          sizeof(rdma_ucm_event_resp)};
  rdma_ucm_get_event body{};
};

class RdmaCmFileTest : public testing::Test {
 protected:
  void SetUp() override {
    provider.events = provider.closed = provider.asked = provider.open_error = 0;
    fd_ = OpenFile();
  }
  void TearDown() override {
    if (fd_ >= 0) CloseFile(fd_);
  }
  static int OpenFile(int flags = O_RDWR | O_CLOEXEC) {
    const int fd = RdmaCmFile::Open(flags, kFunctions);
    EXPECT_GE(fd, 0);
    return fd;
  }
  static void CloseFile(int fd) {
    FdTable::Instance().Remove(fd);
    close(fd);
  }
  static std::shared_ptr<RdmaCmFile> Find(int fd) {
    return FdTable::Instance().Find<RdmaCmFile>(fd);
  }
  // Adds events, as the provider does when something happens.
  void Raise(int delta) {
    provider.events += delta;
    Events(fd_, delta);
  }
  static void Events(int fd, int delta);
  ssize_t GetEvent() {
    const GetEventCommand command;
    return Find(fd_)->Write(&command, sizeof command);
  }
  bool IsReadable() const {
    pollfd wanted{fd_, POLLIN, 0};
    return poll(&wanted, 1, 0) == 1;
  }

  int fd_ = -1;
};

// The channel of the last file that was opened; each test opens one.
uroce_rdma_cm* last_channel = nullptr;
int OpenAndRemember(void* file, uroce_rdma_cm_events events, uroce_rdma_cm** channel) {
  const int error = Open(file, events, channel);
  last_channel = *channel;
  return error;
}

void RdmaCmFileTest::Events(int /*fd*/, int delta) {
  last_channel->events(last_channel->file, delta);
}

class RdmaCmEventsTest : public RdmaCmFileTest {
 protected:
  void SetUp() override {
    RdmaCmFileTest::SetUp();
    CloseFile(fd_);
    provider.closed = 0;
    static constexpr RdmaCmFunctions kRemembering{OpenAndRemember, Write, Close};
    fd_ = RdmaCmFile::Open(O_RDWR | O_CLOEXEC, kRemembering);
  }
};

TEST_F(RdmaCmEventsTest, IsReadableWhileThereAreEvents) {
  EXPECT_FALSE(IsReadable());
  Raise(2);
  EXPECT_TRUE(IsReadable());
  EXPECT_EQ(GetEvent(), static_cast<ssize_t>(sizeof(GetEventCommand)));
  EXPECT_TRUE(IsReadable());
  EXPECT_EQ(GetEvent(), static_cast<ssize_t>(sizeof(GetEventCommand)));
  EXPECT_FALSE(IsReadable());
}

TEST_F(RdmaCmEventsTest, WithdrawnEventsAreNotReadable) {
  Raise(3);
  Raise(-3);
  EXPECT_FALSE(IsReadable());
}

TEST_F(RdmaCmEventsTest, NonBlockingReadFailsWithEagain) {
  ASSERT_EQ(fcntl(fd_, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(GetEvent(), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(provider.asked, 0);
}

TEST_F(RdmaCmEventsTest, BlockingReadWaits) {
  std::thread reader([&] { EXPECT_EQ(GetEvent(), static_cast<ssize_t>(sizeof(GetEventCommand))); });
  Raise(1);
  reader.join();
  EXPECT_EQ(provider.events, 0);
}

// The event's id is destroyed after the event has woken the reader.
TEST_F(RdmaCmEventsTest, ReaderWaitsAgainWhenTheEventIsGone) {
  Events(fd_, 1);  // a token without an event
  std::thread reader([&] { EXPECT_EQ(GetEvent(), static_cast<ssize_t>(sizeof(GetEventCommand))); });
  while (provider.asked == 0) std::this_thread::yield();
  Raise(1);
  reader.join();
  EXPECT_EQ(provider.asked, 2);
}

// A thread of rping waits for events while another one closes the channel.
TEST_F(RdmaCmEventsTest, CommandThatHasBegunOutlivesTheDescriptor) {
  const auto file = Find(fd_);
  CloseFile(std::exchange(fd_, -1));
  Raise(1);
  const GetEventCommand command;
  EXPECT_EQ(file->Write(&command, sizeof command), static_cast<ssize_t>(sizeof command));
}

TEST_F(RdmaCmEventsTest, WaitingThreadCanBeCancelled) {
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void* fd) -> void* {
                  const GetEventCommand command;
                  Find(*static_cast<int*>(fd))->Write(&command, sizeof command);
                  return nullptr;
                },
                &fd_),
            0);
  pthread_cancel(thread);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

TEST_F(RdmaCmEventsTest, MalformedRequestForAnEventDoesNotWait) {
  GetEventCommand command;
  command.header.out = 0;
  EXPECT_EQ(Find(fd_)->Write(&command, sizeof command), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(Find(fd_)->Write(&command, 4), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RdmaCmFileTest, CommandInMemoryThatIsNotThereIsAFault) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const gone =
      mmap(nullptr, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  ASSERT_NE(gone, MAP_FAILED);
  for (const void* command : {static_cast<const void*>(nullptr), static_cast<const void*>(gone)}) {
    EXPECT_EQ(Find(fd_)->Write(command, sizeof(GetEventCommand)), -1);
    EXPECT_EQ(errno, EFAULT);
  }
  EXPECT_EQ(provider.asked, 0);
  munmap(gone, page_bytes);
}

TEST_F(RdmaCmFileTest, NothingBehindTheCommandIsRead) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                           /*fd=*/-1, /*offset=*/0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages, page_bytes, PROT_READ | PROT_WRITE), 0);
  GetEventCommand command;
  command.header.in += 1;
  command.header.out = 0;  // ENOSPC without waiting
  uint8_t* const last = static_cast<uint8_t*>(pages) + page_bytes - sizeof command;
  std::memcpy(last, &command, sizeof command);
  EXPECT_EQ(Find(fd_)->Write(last, sizeof command + 1), -1);
  EXPECT_EQ(errno, ENOSPC);
  munmap(pages, 2 * page_bytes);
}

TEST_F(RdmaCmFileTest, CopyKeepsTheFileOpen) {
  const int copy = dup(fd_);
  FdTable::Instance().Insert(copy, Find(fd_));
  CloseFile(fd_);
  fd_ = -1;
  EXPECT_EQ(provider.closed, 0);
  CloseFile(copy);
  EXPECT_EQ(provider.closed, 1);
}

// select() of librspreload before release 63 finds a socket by its channel's descriptor only if the
// descriptor is greater than all of the application's own.
TEST_F(RdmaCmFileTest, DescriptorIsAboveThoseOfTheApplicationAndBelowFdSetSize) {
  EXPECT_GE(fd_, 512);
  EXPECT_LT(fd_, FD_SETSIZE);
  EXPECT_EQ(fcntl(fd_, F_GETFD), FD_CLOEXEC);
  const int inherited = OpenFile(O_RDWR | O_NONBLOCK);
  EXPECT_EQ(fcntl(inherited, F_GETFD), 0);
  EXPECT_NE(fcntl(inherited, F_GETFL) & O_NONBLOCK, 0);
  CloseFile(inherited);
}

TEST_F(RdmaCmFileTest, DescriptorIsTheLowestWhenThereAreFew) {
  rlimit few{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &few), 0);
  const rlim_t before = std::exchange(few.rlim_cur, 512);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const int low = OpenFile();
  EXPECT_LT(low, 512);
  CloseFile(low);
  few.rlim_cur = before;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
}

TEST_F(RdmaCmFileTest, MigrationNamesTheOtherFile) {
  const int other = OpenFile();
  struct {
    rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_MIGRATE_ID, sizeof(rdma_ucm_migrate_id), 4};
    rdma_ucm_migrate_id body{};
  } command;
  command.body.fd = static_cast<uint32_t>(other);
  EXPECT_EQ(Find(fd_)->Write(&command, sizeof command), static_cast<ssize_t>(sizeof command));
  EXPECT_NE(provider.other, nullptr);
  CloseFile(other);
  EXPECT_EQ(Find(fd_)->Write(&command, sizeof command), static_cast<ssize_t>(sizeof command));
  EXPECT_EQ(provider.other, nullptr);
}

TEST_F(RdmaCmFileTest, ProviderMayRefuse) {
  provider.open_error = ENOMEM;
  EXPECT_EQ(RdmaCmFile::Open(O_RDWR, kFunctions), -1);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
