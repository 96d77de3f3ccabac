#include "dpdk_nic/control/control_address.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "dpdk_nic/control/stale_folders.h"
#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

constexpr uid_t kOtherUid = 1'234;

class ControlAddressTest : public ::testing::Test {
 protected:
  const std::string fabric_ = UniqueFabricName();
};

TEST_F(ControlAddressTest, NoAnswerWithoutListener) {
  EXPECT_FALSE(ConnectToFabric(fabric_).has_value());
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST_F(ControlAddressTest, ListenerIsFoundAndKnown) {
  const auto listener = FabricListener::Open(fabric_);
  ASSERT_TRUE(listener);
  const auto connection = ConnectToFabric(fabric_);
  ASSERT_TRUE(connection.has_value());
  EXPECT_EQ(connection->place.owner, geteuid());
  const UniqueFd accepted(accept(listener->fd(), nullptr, nullptr));
  for (int socket : {connection->socket.get(), accepted.get()}) {
    const auto peer = PeerCredentialsOf(socket);
    ASSERT_TRUE(peer.has_value());
    EXPECT_EQ(peer->pid, getpid());
    EXPECT_EQ(peer->uid, geteuid());
    EXPECT_EQ(peer->gid, getegid());
  }
  EXPECT_EQ(write(connection->socket.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(accepted.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_LT(read(connection->socket.get(), &byte, 1), 0);  // it does not block
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ControlAddressTest, FabricHasOneListenerAtATime) {
  auto listener = FabricListener::Open(fabric_);
  ASSERT_TRUE(listener);
  EXPECT_FALSE(FabricListener::Open(fabric_));
  EXPECT_EQ(errno, EADDRINUSE);
  const auto other = FabricListener::Open(UniqueFabricName());
  EXPECT_TRUE(other);

  listener.reset();
  EXPECT_FALSE(ConnectToFabric(fabric_).has_value());
  EXPECT_TRUE(FabricListener::Open(fabric_));
}

TEST_F(ControlAddressTest, ListenerLeavesNoFilesBehind) {
  FabricListener::Open(fabric_);
  EXPECT_FALSE(OpenFolderOf(fabric_));
}

TEST_F(ControlAddressTest, ForkedChildDoesNotKeepTheFabric) {
  auto listener = FabricListener::Open(fabric_);
  SocketPair end;
  const pid_t child = fork();
  if (child == 0) {
    end.a.reset();
    char byte;
    _exit(read(end.b.get(), &byte, 1) == 0 ? 0 : 1);  // when the parent lets it
  }
  listener.reset();
  EXPECT_TRUE(FabricListener::Open(fabric_));
  end.a.reset();
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(ControlAddressTest, NewListenerReplacesAKilledOne) {
  const pid_t child = fork();
  if (child == 0) {
    const auto listener = FabricListener::Open(fabric_);
    _exit(listener ? 0 : 1);  // without a destructor
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(ConnectToFabric(fabric_));
  EXPECT_EQ(errno, ECONNREFUSED);
  const auto next = FabricListener::Open(fabric_);
  EXPECT_TRUE(next);
  EXPECT_TRUE(ConnectToFabric(fabric_));
}

// A listener that closes removes the folder that the other threads are just creating.
TEST_F(ControlAddressTest, ListenersThatComeAndGoAtTheSameTimeFindTheirFolder) {
  const auto come_and_go = [this] {
    for (int i = 0; i < 200; ++i) {
      const auto listener = FabricListener::Open(fabric_);
      if (!listener && errno != EADDRINUSE) return 1;
      if (listener && !ConnectToFabric(fabric_)) return 2;
    }
    return 0;
  };
  std::array<pid_t, 3> children;
  for (pid_t& child : children) {
    child = fork();
    if (child == 0) _exit(come_and_go());
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

TEST_F(ControlAddressTest, ListenerThatNeverAcceptsIsBusyButThere) {
  const auto listener = FabricListener::Open(fabric_);
  ASSERT_EQ(listen(listener->fd(), 0), 0);
  const auto first = ConnectToFabric(fabric_);
  EXPECT_TRUE(first.has_value());
  EXPECT_FALSE(ConnectToFabric(fabric_).has_value());
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ControlAddressTest, ConnectionWithRetryWaitsForRoomInTheQueue) {
  const auto listener = FabricListener::Open(fabric_);
  ASSERT_EQ(listen(listener->fd(), 0), 0);
  const auto first = ConnectToFabric(fabric_);
  ASSERT_TRUE(first.has_value());
  std::optional<FabricConnection> second;
  std::thread newcomer([&] { second = ConnectToFabricWithRetry(fabric_); });
  EXPECT_TRUE(UniqueFd(accept(listener->fd(), nullptr, nullptr)));
  newcomer.join();
  EXPECT_TRUE(second.has_value());
}

TEST_F(ControlAddressTest, OnlyNamesOfFabricsAreTaken) {
  EXPECT_TRUE(IsFabricName("default"));
  EXPECT_TRUE(IsFabricName("A-z_0.9"));
  EXPECT_TRUE(IsFabricName(std::string(kMaxNameBytes, 'x')));
  for (const std::string& name : {std::string(), std::string("a/block/1"), std::string("a b"),
                                  std::string("a\0b", 3), std::string(kMaxNameBytes + 1, 'x')}) {
    EXPECT_FALSE(IsFabricName(name)) << name;
    errno = 0;
    EXPECT_FALSE(FabricListener::Open(name));
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_FALSE(ConnectToFabric(name).has_value());
    EXPECT_EQ(errno, EINVAL);
  }
}

// A runtime folder of the user; exists for as long as the object.
class RuntimeFolder {
 public:
  explicit RuntimeFolder(std::string path, mode_t mode = 0700) : path_(std::move(path)) {
    EXPECT_EQ(mkdir(path_.c_str(), mode), 0);
    setenv("XDG_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~RuntimeFolder() {
    unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(path_);
  }

 private:
  const std::string path_;
};

std::string TemporaryName() { return testing::TempDir() + "/" + UniqueFabricName(); }

// Folders of fabrics without a uroced, in the test's own place.
class StaleFolderTest : public ControlAddressTest {
 protected:
  StaleFolderTest() : place_(MakePlace({path_, geteuid(), 0700})) {}
  ~StaleFolderTest() override { std::filesystem::remove_all(path_); }

  // Leaves a folder as a uroced does that was killed long ago.
  void LeaveBehind(const std::string& name) {
    const std::string folder = path_ + "/" + name;
    ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
    for (const char* file : {"lock", "socket", "449"}) std::ofstream(folder + "/" + file);
    MakeOld(name);
  }
  void MakeOld(const std::string& name) {
    const timespec then{time(nullptr) - 2 * kStaleFolderAge.ns / 1'000'000'000, 0};
    const timespec times[] = {then, then};
    ASSERT_EQ(utimensat(place_.get(), name.c_str(), times, 0), 0);
  }
  bool IsThere(const std::string& name) { return std::filesystem::exists(path_ + "/" + name); }
  UniqueFd Open(const std::string& file) {
    return UniqueFd(openat(place_.get(), file.c_str(), O_RDWR | O_CLOEXEC));
  }

  const std::string path_ = TemporaryName();
  const UniqueFd place_;
};

TEST_F(StaleFolderTest, OldUnservedFolderIsRemoved) {
  LeaveBehind("old.1.v2");
  LeaveBehind("new.1.v2");
  std::ofstream(path_ + "/new.1.v2/450");  // makes the folder's time of change recent
  RemoveStaleFolders(place_.get());
  EXPECT_FALSE(IsThere("old.1.v2"));
  EXPECT_TRUE(IsThere("new.1.v2/lock"));
}

TEST_F(StaleFolderTest, ServedFolderIsKeptUnchanged) {
  LeaveBehind("served.1.v2");
  const UniqueFd lock = Open("served.1.v2/lock");
  ASSERT_EQ(TryLockToServe(lock.get()), LockResult::kLocked);
  RemoveStaleFolders(place_.get());
  for (const char* file : {"lock", "socket", "449"}) {
    EXPECT_TRUE(IsThere(std::string("served.1.v2/") + file)) << file;
  }
}

TEST_F(StaleFolderTest, FolderInWhichAProcessHasABlockStays) {
  LeaveBehind("used.1.v2");
  const UniqueFd claim = Open("used.1.v2/449");
  ASSERT_EQ(flock(claim.get(), LOCK_EX | LOCK_NB), 0);
  RemoveStaleFolders(place_.get());
  EXPECT_TRUE(IsThere("used.1.v2/449"));
}

TEST_F(StaleFolderTest, NonFabricEntriesAreKept) {
  LeaveBehind("strange.1.v2");
  std::ofstream(path_ + "/strange.1.v2/letter");
  MakeOld("strange.1.v2");
  ASSERT_EQ(symlink("strange.1.v2", (path_ + "/link").c_str()), 0);
  std::ofstream(path_ + "/file");
  MakeOld("file");
  RemoveStaleFolders(place_.get());
  for (const char* name : {"strange.1.v2/letter", "link", "file"}) EXPECT_TRUE(IsThere(name));
}

TEST_F(StaleFolderTest, LookingAtALockIsNotServing) {
  LeaveBehind("x.1.v2");
  const UniqueFd looking = Open("x.1.v2/lock"), serving = Open("x.1.v2/lock");
  ASSERT_EQ(flock(looking.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(TryLockToServe(serving.get()), LockResult::kLookedAt);
  ASSERT_EQ(flock(looking.get(), LOCK_UN), 0);
  EXPECT_EQ(TryLockToServe(serving.get()), LockResult::kLocked);
  EXPECT_EQ(TryLockToServe(looking.get()), LockResult::kServed);
}

// A listener that closes removes stale folders of its place.
TEST_F(StaleFolderTest, ListenerThatEndsSweepsItsPlace) {
  const bool is_root = geteuid() == 0;
  const std::string folder = "/tmp/" + fabric_ + "-sweep";
  EXPECT_EQ(RunAs(is_root ? kOtherUid : geteuid(),
                  [&] {
                    const RuntimeFolder runtime(folder);
                    auto listener = FabricListener::Open(fabric_);
                    if (!listener) return 1;
                    const std::string stale = folder + "/uroce/stale.1.v2";
                    if (mkdir(stale.c_str(), 0700) != 0) return 2;
                    const timespec times[] = {{1'000'000, 0}, {1'000'000, 0}};
                    if (utimensat(AT_FDCWD, stale.c_str(), times, 0) != 0) return 3;
                    listener.reset();
                    return std::filesystem::exists(stale) ? 4 : 0;
                  }),
            0);
}

TEST_F(ControlAddressTest, ListenerWaitsWhileTheFolderLockIsShared) {
  const pid_t child = fork();
  if (child == 0) {
    const auto killed = FabricListener::Open(fabric_);
    _exit(killed ? 0 : 1);  // leaves its folder behind
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  UniqueFd looking;
  {
    const UniqueFd folder = OpenFolderOf(fabric_);
    looking.reset(openat(folder.get(), "lock", O_RDWR | O_CLOEXEC));
  }
  ASSERT_EQ(flock(looking.get(), LOCK_SH | LOCK_NB), 0);
  std::optional<FabricListener> next;
  std::thread newcomer([&] { next = FabricListener::Open(fabric_); });
  ASSERT_EQ(flock(looking.get(), LOCK_UN), 0);
  newcomer.join();
  EXPECT_TRUE(next);
}

TEST_F(ControlAddressTest, LongestNamesFit) {
  std::string name = fabric_;
  name.resize(kMaxNameBytes, 'x');
  const std::string folder = "/tmp/" + fabric_ + std::string(200, 'x');
  const bool is_root = geteuid() == 0;
  EXPECT_EQ(RunAs(is_root ? kOtherUid : geteuid(),
                  [&] {
                    const RuntimeFolder runtime(folder);
                    const auto listener = FabricListener::Open(name);
                    const auto connection = ConnectToFabric(name);
                    const bool is_there =
                        connection && connection->place.folder == folder + "/uroce";
                    return listener && is_there ? 0 : 1;
                  }),
            0);
}

TEST_F(ControlAddressTest, RuntimeFolderOfTheUserAloneIsPreferred) {
  const auto first = [](const std::string& folder) {
    return PlacesToLook().front().folder == folder;
  };
  const std::string folder = TemporaryName();
  {
    const RuntimeFolder runtime(folder);
    EXPECT_TRUE(first(folder + "/uroce"));
    EXPECT_EQ(PlacesToLook().front().mode, 0700u);
  }
  {
    const RuntimeFolder runtime(folder, 0750);
    EXPECT_FALSE(first(folder + "/uroce")) << "a group can write or look there";
  }
  setenv("XDG_RUNTIME_DIR", "relative", 1);
  EXPECT_FALSE(first("relative/uroce"));
  unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(ControlAddressTest, PlaceIsAFolderThatItsOwnerAloneCanWriteTo) {
  const std::string folder = TemporaryName();
  const FabricPlace place{folder, geteuid(), 0700};
  EXPECT_FALSE(OpenPlace(place));
  EXPECT_EQ(errno, ENOENT);
  const mode_t before = umask(0777);
  EXPECT_TRUE(MakePlace(place));
  umask(before);
  EXPECT_TRUE(OpenPlace(place));
  EXPECT_TRUE(MakePlace(place)) << "a second time";
  EXPECT_FALSE(OpenPlace({folder, geteuid() + 1, 0700}));
  EXPECT_EQ(errno, EPERM);
  for (const mode_t mode : {0770, 0702, 0701, 0777}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    EXPECT_FALSE(OpenPlace(place)) << mode;
    EXPECT_FALSE(MakePlace(place)) << mode;
    EXPECT_EQ(errno, EPERM);
  }
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  EXPECT_TRUE(OpenPlace({folder, geteuid(), 0755}));
  ASSERT_EQ(rename(folder.c_str(), (folder + "-real").c_str()), 0);
  ASSERT_EQ(symlink((folder + "-real").c_str(), folder.c_str()), 0);
  EXPECT_FALSE(OpenPlace({folder, geteuid(), 0755})) << "a link to it";
  EXPECT_EQ(errno, EPERM);
  std::filesystem::remove(folder);
  std::filesystem::remove(folder + "-real");
}

TEST_F(ControlAddressTest, RootsListenerServesUsersWithoutTheirOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const mode_t before = umask(077);
  const auto listener = FabricListener::Open(fabric_);
  umask(before);
  for (const uid_t uid : {kNobodyUid, kOtherUid}) {
    EXPECT_EQ(RunAs(uid,
                    [this] {
                      const auto connection = ConnectToFabric(fabric_);
                      return connection && connection->place.owner == 0 ? 0 : 1;
                    }),
              0);
    EXPECT_EQ(RunAs(uid,
                    [this] {
                      const auto own = FabricListener::Open(fabric_);
                      const auto connection = ConnectToFabric(fabric_);
                      return connection && connection->place.owner == geteuid() ? 0 : 1;
                    }),
              0);
    EXPECT_EQ(RunAs(uid,
                    [this] {
                      // If the user's own uroced is too busy, root's is not tried instead.
                      const auto own = FabricListener::Open(fabric_);
                      listen(own->fd(), 0);
                      const auto first = ConnectToFabric(fabric_);
                      const auto second = ConnectToFabric(fabric_);
                      return first && !second && errno == EAGAIN ? 0 : 1;
                    }),
              0);
    EXPECT_EQ(RunAs(uid,
                    [this] {
                      const auto own = PlacesToLook().front();
                      return !ConnectToFabricAt(own, fabric_) && errno == ECONNREFUSED ? 0 : 1;
                    }),
              0);
  }
}

TEST_F(ControlAddressTest, RootsFabricFilesAreInaccessibleToOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const auto listener = FabricListener::Open(fabric_);
  const BlockClaims claims(listener->folder());
  const UniqueFd claim = claims.Give(5, 0);
  ASSERT_TRUE(claim);
  EXPECT_EQ(RunAs(kNobodyUid,
                  [this] {
                    const UniqueFd folder = OpenFolderOf(fabric_);
                    if (!folder) return 1;
                    for (const char* name : {"lock", "5"}) {
                      if (openat(folder.get(), name, O_RDONLY) >= 0) return 2;
                    }
                    if (openat(folder.get(), "6", O_CREAT | O_RDWR, 0600) >= 0) return 3;
                    if (unlinkat(folder.get(), "socket", 0) == 0) return 4;
                    return 0;
                  }),
            0);
}

// Another user has created the folders with the names of ours.
TEST_F(ControlAddressTest, PlaceThatAnotherUserTookIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const uid_t victim = 1'000'000 + static_cast<uid_t>(getpid());  // tests may run side by side
  const std::string folders[] = {"/tmp/uroce-" + std::to_string(victim),
                                 "/dev/shm/uroce-" + std::to_string(victim)};
  const auto take = [](const std::string& folder) {
    return RunAs(kNobodyUid, [&] { return MakePlace({folder, kNobodyUid, 0755}) ? 0 : 1; });
  };
  ASSERT_EQ(take(folders[0]), 0);
  EXPECT_EQ(RunAs(victim,
                  [&] {
                    const auto made = MakePlaceToServe();
                    return made && made->place.folder == folders[1] ? 0 : 1;
                  }),
            0);
  std::filesystem::remove(folders[1]);
  ASSERT_EQ(take(folders[1]), 0);
  EXPECT_EQ(RunAs(victim,
                  [this] {
                    if (ConnectToFabric(fabric_) || errno != EPERM) return 1;
                    if (FabricListener::Open(fabric_) || errno != EPERM) return 2;
                    const std::string sentence = WhyNotConnected(fabric_, EPERM);
                    return sentence.find("XDG_RUNTIME_DIR") != std::string::npos ? 0 : 3;
                  }),
            0);
  const auto roots = FabricListener::Open(fabric_);
  EXPECT_EQ(RunAs(victim,
                  [this] {
                    const auto connection = ConnectToFabric(fabric_);
                    return connection && connection->place.owner == 0 ? 0 : 1;
                  }),
            0);
  for (const std::string& folder : folders) std::filesystem::remove(folder);
}

// A client refuses a uroced that runs as another user than the owner of the place.
TEST_F(ControlAddressTest, ListenerOfAnotherUserIsNotTalkedTo) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const auto listener = FabricListener::Open(fabric_);
  ASSERT_TRUE(listener);
  ASSERT_EQ(seteuid(kNobodyUid), 0);
  const int listening = listen(listener->fd(), 8);  // the kernel reports the caller to clients
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_EQ(listening, 0);
  EXPECT_FALSE(ConnectToFabricAt(PlacesToServe().front(), fabric_));
  EXPECT_EQ(errno, EPERM);
}

TEST_F(ControlAddressTest, ConnectWithoutFreeDescriptorsFailsWithEmfile) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool is_connected = ConnectToFabric(fabric_).has_value();
  const int error = errno;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(is_connected);
  EXPECT_EQ(error, EMFILE);
  EXPECT_NE(WhyNotConnected(fabric_, error).find("ulimit -n"), std::string::npos);
}

}  // namespace
}  // namespace uroce::nic::control
