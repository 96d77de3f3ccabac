// net_memif between two processes, either of which may die and return.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"

namespace uroce::nic {
namespace {

class MemifTest : public testing::TestWithParam<std::string> {
 protected:
  ~MemifTest() override { unlink(socket_.c_str()); }

  std::string OurDevargs() const { return Devargs(GetParam()); }
  std::string PeerDevargs() const { return Devargs(GetParam() == "server" ? "client" : "server"); }
  std::string Devargs(const std::string& role) const {
    return "net_memif0,role=" + role + ",socket=" + socket_;
  }

  const std::string socket_ = UniqueSocketPath();
};

// A client looks for its server only while it is polled.
bool LinkComesUp(PacketPort* port) {
  return PollUntil([&] {
    EXPECT_TRUE(port->Receive().bytes.empty());
    return port->link_up();
  });
}

TEST_P(MemifTest, EveryFrameComesBackUnharmed) {
  OpenedPort opened = OpenDpdkPort(OurDevargs());
  ASSERT_NE(opened.port, nullptr) << opened.error;
  EXPECT_FALSE(opened.port->link_up());
  Peer peer(PeerDevargs());
  ASSERT_TRUE(LinkComesUp(opened.port.get()));

  EXPECT_TRUE(AllComeBack(opened.port.get(), 20'000));
  EXPECT_EQ(opened.port->counters().transmit_dropped_no_link, 0u);
}

TEST_P(MemifTest, FramesWithoutAPeerAreTakenDroppedAndCounted) {
  OpenedPort opened = OpenDpdkPort(OurDevargs());
  ASSERT_NE(opened.port, nullptr) << opened.error;
  Traffic traffic(opened.port.get(), 60, 60);
  for (int i = 0; i < 100; ++i) traffic.Send();
  EXPECT_EQ(traffic.sent(), 3'200u);
  EXPECT_EQ(opened.port->counters().transmit_dropped_no_link, 3'200u);
}

TEST_P(MemifTest, PeerDiesAndReturnsUnderTraffic) {
  OpenedPort opened = OpenDpdkPort(OurDevargs());
  ASSERT_NE(opened.port, nullptr) << opened.error;
  Traffic traffic(opened.port.get(), 60, 4'224);
  for (int life = 0; life < 6; ++life) {
    Peer peer(PeerDevargs());
    const uint64_t before = traffic.received();
    ASSERT_TRUE(PollUntil([&] {
      traffic.Send();
      traffic.Receive();
      return traffic.received() > before + 2'000;
    })) << "in life "
        << life;
    peer.Kill();
    ASSERT_TRUE(PollUntil([&] {
      traffic.Send();
      traffic.Receive();
      return !opened.port->link_up();
    })) << "in life "
        << life;
  }
  EXPECT_EQ(traffic.corrupt(), 0u);
  EXPECT_EQ(traffic.out_of_order(), 0u);
  EXPECT_GT(opened.port->counters().transmit_dropped_no_link, 0u);
}

// The last frames of a connection are acknowledgements. If they are lost, the requester fails.
TEST_P(MemifTest, LastFramesOfAPeerThatLeavesArrive) {
  OpenedPort opened = OpenDpdkPort(OurDevargs());
  ASSERT_NE(opened.port, nullptr) << opened.error;
  for (int life = 0; life < 20; ++life) {
    constexpr uint64_t kFrames = 200;
    Traffic traffic(opened.port.get(), 60, 4'224);
    Peer peer(PeerDevargs(), {.frames = kFrames});
    EXPECT_TRUE(PollUntil([&] {
      traffic.Receive();
      return traffic.received() == kFrames;
    })) << "in life "
        << life;
    EXPECT_EQ(traffic.corrupt(), 0u);
    ASSERT_TRUE(PollUntil([&] {
      traffic.Receive();
      return !opened.port->link_up();
    }));
  }
}

TEST_P(MemifTest, WeLeaveAndReturnWhileThePeerStays) {
  Peer peer(PeerDevargs());
  for (int life = 0; life < 5; ++life) {
    OpenedPort opened = OpenDpdkPort(OurDevargs());
    ASSERT_NE(opened.port, nullptr) << opened.error;
    Traffic traffic(opened.port.get(), 60, 4'224);
    ASSERT_TRUE(PollUntil([&] {
      traffic.Send();
      traffic.Receive();
      return traffic.received() > 1'000;
    })) << "in life "
        << life;
    EXPECT_EQ(traffic.corrupt(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Roles, MemifTest, testing::Values("server", "client"),
                         [](const auto& role) { return role.param; });

class MemifSocketTest : public testing::Test {
 protected:
  // Returns a listening socket. After close() its file stays behind.
  int Listen() const {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd, 1), 0);
    return fd;
  }
  ~MemifSocketTest() override { unlink(path_.c_str()); }

  const std::string path_ = UniqueSocketPath();
  const std::string server_ = "net_memif0,role=server,socket=" + path_;
};

TEST_F(MemifSocketTest, LeftBehindByADeadServerIsReplaced) {
  close(Listen());
  ASSERT_EQ(access(path_.c_str(), F_OK), 0);
  EXPECT_NE(OpenDpdkPort(server_).port, nullptr);
}

TEST_F(MemifSocketTest, OfALivingServerIsRespected) {
  const int fd = Listen();
  const OpenedPort opened = OpenDpdkPort(server_);
  EXPECT_EQ(opened.port, nullptr);
  EXPECT_EQ(opened.error, "another process serves " + path_ +
                              " already; use role=client or another socket= for net_memif0");
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
  close(fd);
}

// The driver alone would abort the process: it frees a connection that its interrupt thread still
// watches.
TEST_F(MemifSocketTest, CallersThatHangUpAtOnceDoNoHarm) {
  OpenedPort server = OpenDpdkPort(server_);
  ASSERT_NE(server.port, nullptr) << server.error;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  for (int i = 0; i < 500; ++i) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(fd);
  }
  Peer peer("net_memif0,role=client,socket=" + path_);
  EXPECT_TRUE(LinkComesUp(server.port.get()));
}

TEST_F(MemifSocketTest, ExistingNonSocketFileIsKeptAndReported) {
  fclose(fopen(path_.c_str(), "w"));
  EXPECT_EQ(OpenDpdkPort(server_).error,
            path_ + " exists and is not a socket; choose another socket= for net_memif0");
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
}

TEST_F(MemifSocketTest, InAMissingDirectoryIsExplained) {
  EXPECT_EQ(OpenDpdkPort("net_memif0,role=client,socket=/nonexistent/x").error,
            "socket=/nonexistent/x of net_memif0 cannot be made in /nonexistent: No such file or "
            "directory");
}

TEST_F(MemifSocketTest, IsGoneWhenTheServerClosed) {
  { const OpenedPort opened = OpenDpdkPort(server_); }
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace uroce::nic
