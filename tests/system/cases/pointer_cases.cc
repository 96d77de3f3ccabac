// The files of the kernel's interface as programs misuse them: with pointers to no memory, and by
// calls that librdmacm does not make.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

namespace uroce::verbs::testing {
namespace {

template <class Body>
struct Command {
  Command(uint32_t number, uint16_t room) : header{number, sizeof(Body), room} {}

  rdma_ucm_cmd_hdr header;
  Body body{};
};

class RdmaCmFile : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_GE(fd_, 0) << "no rdma_cm"; }
  void TearDown() override { close(fd_); }

  static void* Wrong() {
    void* volatile hidden = reinterpret_cast<void*>(8);  // from the compiler, which knows better
    return hidden;
  }
  static uint64_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

  const int fd_ = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
};

TEST_F(RdmaCmFile, TakesACommandInEachPiece) {
  rdma_ucm_create_id_resp ids[2] = {};
  std::vector<Command<rdma_ucm_create_id>> commands(
      2, Command<rdma_ucm_create_id>(RDMA_USER_CM_CMD_CREATE_ID, sizeof ids[0]));
  std::vector<iovec> pieces;
  for (size_t i = 0; i < commands.size(); ++i) {
    commands[i].body.ps = RDMA_PS_TCP;
    commands[i].body.response = Address(&ids[i]);
    pieces.push_back({&commands[i], sizeof commands[i]});
  }
  ids[0].id = ids[1].id = UINT32_MAX;
  EXPECT_EQ(writev(fd_, pieces.data(), 2), static_cast<ssize_t>(2 * sizeof commands[0]));
  EXPECT_NE(ids[0].id, UINT32_MAX);
  EXPECT_NE(ids[1].id, ids[0].id);
  pieces[1].iov_base = Wrong();
  EXPECT_EQ(writev(fd_, pieces.data(), 2), static_cast<ssize_t>(sizeof commands[0]));
}

TEST_F(RdmaCmFile, KnowsWrongPointers) {
  const auto is_bad_address = [](ssize_t result) { return result == -1 && errno == EFAULT; };
  Command<rdma_ucm_create_id> command(RDMA_USER_CM_CMD_CREATE_ID, sizeof(rdma_ucm_create_id_resp));
  command.body.ps = RDMA_PS_TCP;
  command.body.response = Address(Wrong());
  EXPECT_TRUE(is_bad_address(write(fd_, &command, sizeof command)));
  EXPECT_TRUE(is_bad_address(write(fd_, Wrong(), sizeof command)));
  const iovec piece = {Wrong(), sizeof command};
  EXPECT_TRUE(is_bad_address(writev(fd_, &piece, 1)));
  EXPECT_TRUE(is_bad_address(writev(fd_, static_cast<iovec*>(Wrong()), 1)));
  const volatile int hidden = -1;
  EXPECT_EQ(writev(fd_, &piece, hidden), -1);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace uroce::verbs::testing
