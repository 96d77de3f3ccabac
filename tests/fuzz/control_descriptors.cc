#include "tests/fuzz/control_descriptors.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/fuzz/require.h"

namespace uroce::nic::control {
namespace {

constexpr size_t kMostDescriptors = 16;  // in a message that breaks the rules
constexpr size_t kControlBytes = CMSG_SPACE(kMostDescriptors * sizeof(int));

struct Known {
  std::array<UniqueFd, kKnownDescriptors> fds;
  std::array<ino_t, kKnownDescriptors> inodes{};

  Known() {
    for (size_t i = 0; i < fds.size(); ++i) {
      fds[i].reset(memfd_create("known", MFD_CLOEXEC));
      struct stat status;
      UROCE_REQUIRE(fstat(fds[i].get(), &status) == 0);
      inodes[i] = status.st_ino;
    }
  }
};

// Made once for all inputs.
const Known& TheKnown() {
  static const Known known;
  return known;
}

}  // namespace

int KnownDescriptor(size_t index) { return TheKnown().fds[index].get(); }

size_t IndexOf(const UniqueFd& fd) {
  struct stat status;
  UROCE_REQUIRE(fstat(fd.get(), &status) == 0);
  size_t index = 0;
  while (index < kKnownDescriptors && TheKnown().inodes[index] != status.st_ino) ++index;
  return index;
}

std::vector<bool> OpenDescriptors() {
  TheKnown();
  // More descriptors than one input opens: two backlogs and some sockets.
  std::array<pollfd, 256> looked{};
  for (size_t i = 0; i < looked.size(); ++i) looked[i].fd = static_cast<int>(i);
  UROCE_REQUIRE(poll(looked.data(), looked.size(), 0) >= 0);
  std::vector<bool> open;
  for (const pollfd& fd : looked) open.push_back((fd.revents & POLLNVAL) == 0);
  return open;
}

size_t SendRaw(int socket, std::span<const uint8_t> bytes, std::span<const size_t> descriptors) {
  UROCE_REQUIRE(descriptors.size() <= kMostDescriptors);
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    for (size_t i = 0; i < descriptors.size(); ++i) {
      const int fd = KnownDescriptor(descriptors[i]);
      memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  const ssize_t sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? 0 : static_cast<size_t>(sent);
}

bool ReceiveRaw(int socket, size_t bytes, RawBytes& out) {
  out.bytes.resize(bytes);
  out.descriptors.clear();
  iovec part{out.bytes.data(), out.bytes.size()};
  alignas(cmsghdr) std::array<char, kControlBytes> control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t received = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  out.bytes.resize(received < 0 ? 0 : static_cast<size_t>(received));
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); received > 0 && c != nullptr;
       c = CMSG_NXTHDR(&header, c)) {
    for (size_t at = CMSG_LEN(0); at < c->cmsg_len; at += sizeof(int)) {
      int fd;
      memcpy(&fd, reinterpret_cast<char*>(c) + at, sizeof fd);
      out.descriptors.push_back(IndexOf(UniqueFd(fd)));
    }
  }
  return received > 0 || (received < 0 && errno == EAGAIN);
}

}  // namespace uroce::nic::control
