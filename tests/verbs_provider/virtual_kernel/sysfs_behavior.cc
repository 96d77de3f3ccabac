// The files of the device, as programs look for them with the calls of libc. preloaded_test.sh runs
// this under the preload library and the test provider.

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

namespace {

class SysfsTest : public testing::Test {
 protected:
  // The provider of these tests has a device once it is registered with libibverbs.
  static void SetUpTestSuite() { ibv_free_device_list(ibv_get_device_list(nullptr)); }
};

std::string ReadFile(const char* path) {
  char text[256] = {};
  FILE* file = fopen(path, "re");
  if (file == nullptr) return "";
  const size_t size = fread(text, 1, sizeof(text), file);
  fclose(file);
  return {text, size};
}

TEST_F(SysfsTest, SysfsReadsLikeAFileSystem) {
  const char* guid = "/sys/class/infiniband/uroce0/node_guid";
  EXPECT_EQ(ReadFile(guid), "02aa:bbff:fe00:0001\n");
  EXPECT_EQ(access(guid, R_OK), 0);
  EXPECT_EQ(access(guid, W_OK), -1);
  EXPECT_EQ(open(guid, O_RDWR), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(open("/sys/class/infiniband/uroce0/nothing", O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ReadFile("/sys/class/infiniband//uroce0/ports/1/./state"), "4: ACTIVE\n");

  const int directory = open("/sys/class/infiniband/uroce0/ports/1", O_RDONLY | O_DIRECTORY);
  ASSERT_GE(directory, 0);
  const int state = openat(directory, "state", O_RDONLY);
  char text[16] = {};
  EXPECT_EQ(read(state, text, sizeof(text)), 10);
  EXPECT_STREQ(text, "4: ACTIVE\n");
  EXPECT_EQ(openat(directory, "nothing", O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  close(state);
  close(directory);

  char link[64];
  EXPECT_EQ(readlink(guid, link, sizeof(link)), -1);
  EXPECT_EQ(errno, EINVAL);
}

// Every way that libc has from a path to its content.
std::string ContentBy(int way, const std::string& path) {
  char text[64] = {};
  int fd = -1;
  FILE* file = nullptr;
  switch (way) {
    case 0:
      fd = open(path.c_str(), O_RDONLY);
      break;
    case 1:
      fd = open64(path.c_str(), O_RDONLY);
      break;
    case 2:
      fd = openat(AT_FDCWD, path.c_str(), O_RDONLY);
      break;
    case 3:
      file = fopen(path.c_str(), "r");
      break;
    case 4:
      file = freopen(path.c_str(), "r", fopen("/dev/null", "r"));
      break;
    default:
      file = fopen64(path.c_str(), "re");
      break;
  }
  if (file != nullptr) {
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
  } else if (fd >= 0) {
    EXPECT_GE(read(fd, text, sizeof text - 1), 0);
    close(fd);
  }
  return text;
}

constexpr char kState[] = "4: ACTIVE\n";
const std::string kSpellings[] = {
    "/sys/class/infiniband/uroce0/ports/1/state",
    "//sys//class///infiniband/uroce0//ports/1/state",
    "/./sys/./class/infiniband/./uroce0/ports/1/./state",
    "/sys/../sys/class/net/../infiniband/uroce0/ports/../ports/1/state",
    "/usr/../sys/class/infiniband/uroce0/ports/1/state",
    "/sys/class/infiniband/uroce0/device/infiniband/uroce0/ports/1/state",
    "/sys/class/infiniband/uroce0/subsystem/uroce0/ports/1/state",
    "/sys/devices/uroce0/infiniband/uroce0/ports/1/state",
    "/sys/class/infiniband_verbs/uverbs900/device/infiniband/uroce0/ports/1/state",
    "/sys/class/net/lo/device/infiniband/uroce0/ports/1/state",
};

TEST_F(SysfsTest, FileIsReadByAnySpellingAndAnyCall) {
  for (const std::string& path : kSpellings) {
    for (int way = 0; way < 6; ++way) EXPECT_EQ(ContentBy(way, path), kState) << path << ' ' << way;
    struct stat status;
    struct statx extended;
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
    EXPECT_EQ(fstatat(AT_FDCWD, path.c_str(), &status, 0), 0) << path;
    EXPECT_EQ(statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS, &extended), 0) << path;
    EXPECT_TRUE(S_ISREG(status.st_mode));
    EXPECT_EQ(access(path.c_str(), R_OK), 0) << path;
    EXPECT_EQ(euidaccess(path.c_str(), R_OK), 0) << path;
    EXPECT_EQ(faccessat(AT_FDCWD, path.c_str(), R_OK, 0), 0) << path;
    for (char* const resolved :
         {realpath(path.c_str(), nullptr), canonicalize_file_name(path.c_str())}) {
      EXPECT_STREQ(resolved, "/sys/devices/uroce0/infiniband/uroce0/ports/1/state") << path;
      free(resolved);
    }
  }
}

TEST_F(SysfsTest, FileIsReadRelativeToDirectoriesOfTheKernel) {
  const struct {
    const char* directory;
    const char* path;
  } rows[] = {{"/", "sys/class/infiniband/uroce0/ports/1/state"},
              {"/sys", "class/infiniband/uroce0/ports/1/state"},
              {"/sys/class", "infiniband/uroce0/ports/1/state"},
              {"/sys/class", "../class/./infiniband//uroce0/ports/1/state"},
              {"/sys/class/net", "lo/device/infiniband/uroce0/ports/1/state"},
              {"/sys/class/infiniband", "uroce0/ports/1/state"},
              {"/sys/class/infiniband", "../infiniband/uroce0/ports/1/state"},
              {"/sys/class/infiniband/uroce0", "ports/1/state"},
              {"/sys/class/infiniband/uroce0/device", "infiniband/uroce0/ports/1/state"}};
  for (const auto& [directory, path] : rows) {
    const int fd = open(directory, O_RDONLY | O_DIRECTORY);
    ASSERT_GE(fd, 0) << directory;
    const int file = openat(fd, path, O_RDONLY);
    char text[16] = {};
    EXPECT_EQ(read(file, text, sizeof text), 10) << directory << ' ' << path;
    EXPECT_STREQ(text, kState);
    close(file);
    struct stat status;
    EXPECT_EQ(fstatat(fd, path, &status, 0), 0) << directory << ' ' << path;
    EXPECT_EQ(faccessat(fd, path, R_OK, 0), 0) << directory << ' ' << path;
    close(fd);
  }
  char before[4096];
  ASSERT_NE(getcwd(before, sizeof before), nullptr);
  ASSERT_EQ(chdir("/sys/class"), 0);
  EXPECT_EQ(ContentBy(0, "infiniband/uroce0/ports/1/state"), kState);
  EXPECT_EQ(chdir(before), 0);
}

TEST_F(SysfsTest, PathThroughTheDeviceToTheKernelsFilesIsTheKernels) {
  const struct {
    const char* path;
    const char* direct;
  } rows[] = {{"/sys/class/infiniband/../net", "/sys/class/net"},
              {"/sys/class/infiniband/uroce0/../../../../class/net", "/sys/class/net"},
              {"/sys/class/infiniband/uroce0/subsystem/../net", "/sys/class/net"}};
  for (const auto& [path, direct] : rows) {
    struct stat expected, found;
    ASSERT_EQ(stat(direct, &expected), 0);
    EXPECT_EQ(stat(path, &found), 0) << path;
    EXPECT_EQ(found.st_ino, expected.st_ino) << path;
  }
  const int fd = open("/sys/class/infiniband/uroce0", O_RDONLY | O_DIRECTORY);
  struct stat status;
  EXPECT_EQ(fstatat(fd, "../../../../class/net", &status, 0), 0);
  EXPECT_EQ(fstatat(fd, "nothing", &status, 0), -1);
  EXPECT_EQ(errno, ENOENT);
  close(fd);
}

TEST_F(SysfsTest, ClassHoldsASymbolicLink) {
  constexpr char kLink[] = "/sys/class/infiniband/uroce0";
  constexpr char kTarget[] = "../../devices/uroce0/infiniband/uroce0";
  struct stat status;
  EXPECT_EQ(lstat(kLink, &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(lstat("/sys/class/infiniband/uroce0/", &status), 0);
  EXPECT_TRUE(S_ISDIR(status.st_mode));
  EXPECT_EQ(fstatat(AT_FDCWD, kLink, &status, AT_SYMLINK_NOFOLLOW), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(stat(kLink, &status), 0);
  EXPECT_TRUE(S_ISDIR(status.st_mode));
  char text[64] = {};
  EXPECT_EQ(readlink(kLink, text, sizeof text), static_cast<ssize_t>(strlen(kTarget)));
  EXPECT_STREQ(text, kTarget);
  EXPECT_EQ(readlinkat(AT_FDCWD, kLink, text, 5), 5);
  EXPECT_EQ(open(kLink, O_RDONLY | O_NOFOLLOW), -1);
  EXPECT_EQ(errno, ELOOP);
  DIR* const stream = opendir("/sys/class/infiniband");
  ASSERT_NE(stream, nullptr);
  unsigned char type = DT_UNKNOWN;
  while (const dirent* entry = readdir(stream)) {
    if (strcmp(entry->d_name, "uroce0") == 0) type = entry->d_type;
  }
  EXPECT_EQ(type, DT_LNK);
  closedir(stream);
}

// Paths that nftw() and ftw() have called back for.
std::set<std::string> walked;

TEST_F(SysfsTest, TreesAreWalked) {
  const auto note = [](const char* path, const struct stat*, int, FTW*) {
    walked.insert(path);
    return 0;
  };
  walked.clear();
  EXPECT_EQ(nftw("/sys/class/infiniband/uroce0/", note, 16, FTW_PHYS), 0);
  EXPECT_TRUE(walked.contains("/sys/class/infiniband/uroce0/ports/1/gids/0"));
  EXPECT_TRUE(walked.contains("/sys/class/infiniband/uroce0/device"));
  EXPECT_FALSE(walked.contains("/sys/class/infiniband/uroce0/device/vendor"));
  walked.clear();
  EXPECT_EQ(nftw("/sys/class/infiniband", note, 16, 0), 0);
  EXPECT_TRUE(walked.contains("/sys/class/infiniband/uroce0/device/vendor"));
  walked.clear();
  const auto note_plainly = [](const char* path, const struct stat*, int) {
    walked.insert(path);
    return path == std::string("/sys/class/infiniband/uroce0/ports/1/gids/0") ? 7 : 0;
  };
  EXPECT_EQ(ftw("/sys/class/infiniband/uroce0/ports", note_plainly, 16), 7);
  EXPECT_TRUE(walked.contains("/sys/class/infiniband/uroce0/ports/1"));
}

TEST_F(SysfsTest, DirectoriesAreScannedRelativeToOthers) {
  const int fd = open("/sys/class", O_RDONLY | O_DIRECTORY);
  dirent** list = nullptr;
  const int count = scandirat(fd, "infiniband/uroce0/ports", &list, nullptr, alphasort);
  ASSERT_EQ(count, 3);
  EXPECT_STREQ(list[2]->d_name, "1");
  for (int i = 0; i < count; ++i) free(list[i]);
  free(list);
  close(fd);
}

constexpr char kAttribute[] = "/sys/class/infiniband/uroce0/node_guid";
constexpr char kDirectory[] = "/sys/class/infiniband/uroce0/ports/1";
constexpr char kNode[] = "/dev/infiniband/uverbs900";

TEST_F(SysfsTest, FlagsOfOpenAreHeeded) {
  const struct {
    const char* path;
    int flags;
    int error;
  } refused[] = {
      {kAttribute, O_CREAT | O_EXCL, EEXIST}, {kDirectory, O_CREAT | O_EXCL, EEXIST},
      {kAttribute, O_DIRECTORY, ENOTDIR},     {kNode, O_DIRECTORY, ENOTDIR},
      {kDirectory, O_WRONLY, EISDIR},         {kDirectory, O_RDWR, EISDIR},
      {kAttribute, O_WRONLY, EACCES},
  };
  for (const auto& [path, flags, error] : refused) {
    errno = 0;
    EXPECT_EQ(open(path, flags, 0600), -1) << path << ' ' << flags;
    EXPECT_EQ(errno, error) << path << ' ' << flags;
  }
  for (const char* path : {kAttribute, kDirectory, kNode}) {
    for (const int flag : {0, O_CLOEXEC}) {
      const int fd = open(path, O_RDONLY | flag);
      ASSERT_GE(fd, 0) << path;
      EXPECT_EQ(fcntl(fd, F_GETFD), flag == 0 ? 0 : FD_CLOEXEC) << path;
      close(fd);
    }
  }
}

TEST_F(SysfsTest, OnlyDirectoriesAreExecutable) {
  EXPECT_EQ(access(kDirectory, R_OK | X_OK), 0);
  for (const char* path : {kAttribute, kNode}) {
    EXPECT_EQ(access(path, X_OK), -1) << path;
    EXPECT_EQ(errno, EACCES) << path;
  }
}

// The path leads to the kernel's directory although the kernel has no directory of the device. `ls
// -la` looks at "..".
TEST_F(SysfsTest, PathThatLeadsOutOfTheDeviceIsTheKernels) {
  const struct {
    const char* path;
    const char* direct;
  } rows[] = {{"/dev/infiniband/..", "/dev"},
              {"/sys/class/infiniband/..", "/sys/class"},
              {"/sys/class/infiniband/uroce0/../../../../class", "/sys/class"}};
  for (const auto& [path, direct] : rows) {
    struct stat expected = {}, found = {}, opened = {};
    ASSERT_EQ(stat(direct, &expected), 0);
    EXPECT_EQ(stat(path, &found), 0) << path;
    EXPECT_EQ(found.st_dev, expected.st_dev) << path;
    EXPECT_EQ(found.st_ino, expected.st_ino) << path;
    const int fd = open(path, O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(fstat(fd, &opened), 0) << path;
    EXPECT_EQ(opened.st_ino, expected.st_ino) << path;
    DIR* stream = fdopendir(fd);
    ASSERT_NE(stream, nullptr) << path;
    EXPECT_NE(readdir(stream), nullptr) << path;
    EXPECT_EQ(closedir(stream), 0) << path;
    // The descriptor's number now belongs to another file.
    const int other = open("/dev/null", O_RDONLY);
    EXPECT_EQ(other, fd);
    EXPECT_EQ(openat(other, "infiniband/uroce0/node_guid", O_RDONLY), -1) << path;
    close(other);
  }
}

TEST_F(SysfsTest, SeekdirAndRewinddirSetTheReadPosition) {
  DIR* stream = opendir(kDirectory);
  ASSERT_NE(stream, nullptr);
  readdir(stream);
  const long position = telldir(stream);
  const std::string second = readdir(stream)->d_name;
  while (readdir(stream) != nullptr) {
  }
  seekdir(stream, position);
  EXPECT_EQ(readdir(stream)->d_name, second);
  rewinddir(stream);
  EXPECT_STREQ(readdir(stream)->d_name, ".");
  EXPECT_EQ(closedir(stream), 0);
}

TEST_F(SysfsTest, SysfsDirectoriesCanBeListed) {
  std::set<std::string> names;
  DIR* stream = opendir("/sys/class/infiniband/uroce0/ports/1/gids");
  ASSERT_NE(stream, nullptr);
  while (const dirent* entry = readdir(stream)) names.insert(entry->d_name);
  EXPECT_EQ(closedir(stream), 0);
  EXPECT_EQ(names, (std::set<std::string>{".", "..", "0", "1", "2", "3"}));
}

}  // namespace
