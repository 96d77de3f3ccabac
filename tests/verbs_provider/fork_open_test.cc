// fork() while another thread opens and closes the device.
#include <dirent.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string_view>
#include <thread>

namespace uroce::verbs::testing {
namespace {

constexpr int kForks = 40;
constexpr unsigned int kMuchTooLongSeconds = 120;

bool OpensTheDevice(ibv_device* device) {
  DIR* const directory = opendir("/dev/infiniband");
  ibv_context* const context = ibv_open_device(device);
  return context != nullptr && ibv_close_device(context) == 0 && closedir(directory) == 0;
}

TEST(ForkOpenTest, ChildOpensTheDeviceWhateverAnotherThreadDidWithIt) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ibv_device* device = nullptr;
  for (int i = 0; i < count; ++i) {
    if (std::string_view(ibv_get_device_name(list[i])) == "uroce0") device = list[i];
  }
  ASSERT_NE(device, nullptr);

  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) ASSERT_TRUE(OpensTheDevice(device));
  });
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kMuchTooLongSeconds);
      _exit(OpensTheDevice(device) ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << (WIFSIGNALED(status) ? "the child hung" : "it cannot open the device");
    if (status != 0) break;
  }
  done = true;
  other.join();
  ibv_free_device_list(list);
}

}  // namespace
}  // namespace uroce::verbs::testing
