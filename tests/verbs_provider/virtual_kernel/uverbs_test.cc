#include "verbs_provider/virtual_kernel/uverbs/uverbs.h"

#include <gtest/gtest.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/verbs_provider/virtual_kernel/test_description.h"
#include "verbs_provider/virtual_kernel/base/fd_table.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// An RDMA_VERBS_IOCTL request under construction.
class Request {
 public:
  Request(uint16_t object, uint16_t method) : bytes_(sizeof(ib_uverbs_ioctl_hdr)) {
    header()->object_id = object;
    header()->method_id = method;
    header()->length = sizeof(ib_uverbs_ioctl_hdr);
  }

  Request& Number(uint16_t id, uint64_t value, uint16_t bytes) { return Add(id, bytes, value); }
  Request& Buffer(uint16_t id, void* data, size_t bytes) {
    return Add(id, static_cast<uint16_t>(bytes), reinterpret_cast<uintptr_t>(data));
  }

  int Execute() {
    uroce_device_description device = {};
    DescribeTestDevice(device);
    return UverbsIoctl(header(), device);
  }
  ib_uverbs_ioctl_hdr* header() { return reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes_.data()); }

 private:
  Request& Add(uint16_t id, uint16_t bytes, uint64_t value) {
    ib_uverbs_attr attribute = {};
    attribute.attr_id = id;
    attribute.len = bytes;
    attribute.data = value;
    const auto* begin = reinterpret_cast<const std::byte*>(&attribute);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(attribute));
    ++header()->num_attrs;
    header()->length = static_cast<uint16_t>(bytes_.size());
    return *this;
  }
  std::vector<std::byte> bytes_;
};

Request GidEntry(uint32_t port, uint32_t index, ib_uverbs_gid_entry* entry,
                 size_t bytes = sizeof(ib_uverbs_gid_entry), uint64_t flags = 0) {
  return Request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY)
      .Number(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, port, 4)
      .Number(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index, 4)
      .Number(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, flags, sizeof(flags))
      .Buffer(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry, bytes);
}

TEST(UverbsTest, GidEntryIsRoceV2WithItsInterface) {
  ib_uverbs_gid_entry entry = {};
  ASSERT_EQ(GidEntry(1, 1, &entry).Execute(), 0);
  const uint8_t expected[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(std::memcmp(entry.gid, expected, sizeof(expected)), 0);
  EXPECT_EQ(entry.gid_index, 1u);
  EXPECT_EQ(entry.port_num, 1u);
  EXPECT_EQ(entry.gid_type, 2u);
  EXPECT_EQ(entry.netdev_ifindex, 1u);
}

TEST(UverbsTest, GidEntryThatDoesNotExist) {
  ib_uverbs_gid_entry entry = {};
  EXPECT_EQ(GidEntry(1, 2, &entry).Execute(), ENODATA);  // an empty row
  EXPECT_EQ(GidEntry(1, 4, &entry).Execute(), EINVAL);
  EXPECT_EQ(GidEntry(2, 0, &entry).Execute(), EINVAL);
}

TEST(UverbsTest, FlagsAreRefused) {
  ib_uverbs_gid_entry entry = {};
  for (const uint64_t flags : {uint64_t{1}, uint64_t{1} << 63}) {
    EXPECT_EQ(GidEntry(1, 1, &entry, sizeof(entry), flags).Execute(), EINVAL) << flags;
  }
}

// A library that knows an older, shorter version of the struct offers less room.
TEST(UverbsTest, AnswerIsCutToTheRoomThereIsAndMarkedAsValid) {
  ib_uverbs_gid_entry entry;
  std::memset(&entry, 0xee, sizeof(entry));
  Request request = GidEntry(1, 1, &entry, offsetof(ib_uverbs_gid_entry, port_num));
  ASSERT_EQ(request.Execute(), 0);
  EXPECT_EQ(entry.gid_index, 1u);
  EXPECT_EQ(entry.port_num, 0xeeee'eeeeu);
  constexpr int kEntry = 3;
  for (int at = 0; at <= kEntry; ++at) {
    const bool is_valid = (request.header()->attrs[at].flags & UVERBS_ATTR_F_VALID_OUTPUT) != 0;
    EXPECT_EQ(is_valid, at == kEntry) << at;
  }
}

TEST(UverbsTest, GidTableHasTheRowsThatAreNotEmpty) {
  ib_uverbs_gid_entry entries[4] = {};
  uint64_t count = 0;
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
  request.Number(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, sizeof(entries[0]), 8)
      .Number(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0, 4)
      .Buffer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries, sizeof(entries))
      .Buffer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count, sizeof(count));
  ASSERT_EQ(request.Execute(), 0);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(entries[1].gid_index, 1u);
  EXPECT_EQ(entries[2].gid_type, 0u);
}

TEST(UverbsTest, GidTableThatDoesNotFitIsRefused) {
  ib_uverbs_gid_entry entry = {};
  uint64_t count = 0;
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
  request.Number(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, sizeof(entry), 8)
      .Buffer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, &entry, sizeof(entry))
      .Buffer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count, sizeof(count));
  EXPECT_EQ(request.Execute(), EINVAL);
}

TEST(UverbsTest, CompletionChannelIsADescriptor) {
  ib_uverbs_create_comp_channel_resp response = {};
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  request.Number(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 4)
      .Buffer(UVERBS_ATTR_CORE_OUT, &response, sizeof(response));
  ASSERT_EQ(request.Execute(), 0);
  const int fd = static_cast<int>(response.fd);
  EXPECT_EQ(FdTable::KindOf(fd), FileKind::kEventFile);
  FdTable::Instance().Remove(fd);
  close(fd);
}

TEST(UverbsTest, CompletionChannelWithoutRoomForTheAnswerIsRefused) {
  ib_uverbs_create_comp_channel_resp response = {};
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  request.Number(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 4);
  EXPECT_EQ(request.Execute(), ENOSPC);
  request.Buffer(UVERBS_ATTR_CORE_OUT, &response, sizeof(response) - 1);
  EXPECT_EQ(request.Execute(), ENOSPC);
}

// libibverbs probes for INVOKE_WRITE in this way; EPROTONOSUPPORT would mean that the kernel lacks
// it.
TEST(UverbsTest, ProbeForInvokeWriteIsTooShort) {
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  request.Number(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_QUERY_DEVICE, 4);
  EXPECT_EQ(request.Execute(), ENOSPC);
}

TEST(UverbsTest, OtherMethodsAreNotSupported) {
  EXPECT_EQ(Request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT).Execute(), EPROTONOSUPPORT);
  EXPECT_EQ(Request(UVERBS_OBJECT_MR, 0).Execute(), EPROTONOSUPPORT);
}

TEST(UverbsTest, LengthThatContradictsTheAttributesIsRefused) {
  Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
  request.header()->num_attrs = 3;
  EXPECT_EQ(request.Execute(), EINVAL);
}

TEST(UverbsTest, ReservedFieldsHaveToBeZero) {
  ib_uverbs_gid_entry entry = {};
  Request first = GidEntry(1, 1, &entry);
  first.header()->reserved1 = 1;
  EXPECT_EQ(first.Execute(), EINVAL);
  Request second = GidEntry(1, 1, &entry);
  second.header()->reserved2 = 1;
  EXPECT_EQ(second.Execute(), EINVAL);
}

// --- memory that the application does not have

class WrongMemory {
 public:
  WrongMemory() : page_(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~WrongMemory() { munmap(page_, kBytes); }
  void* get() const { return page_; }

 private:
  static constexpr size_t kBytes = 4'096;
  void* const page_;
};

TEST(UverbsTest, RequestInWrongMemoryIsABadAddress) {
  uroce_device_description device = {};
  DescribeTestDevice(device);
  const WrongMemory wrong;
  EXPECT_EQ(UverbsIoctl(static_cast<ib_uverbs_ioctl_hdr*>(wrong.get()), device), EFAULT);
  EXPECT_EQ(UverbsIoctl(nullptr, device), EFAULT);
  // The header is the last of its page, and the attributes would follow.
  constexpr size_t kPage = 4'096;
  auto* const pages = static_cast<std::byte*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(munmap(pages + kPage, kPage), 0);
  ib_uverbs_gid_entry entry = {};
  Request request = GidEntry(1, 1, &entry);
  auto* const at_the_end = pages + kPage - sizeof(ib_uverbs_ioctl_hdr);
  std::memcpy(at_the_end, request.header(), sizeof(ib_uverbs_ioctl_hdr));
  EXPECT_EQ(UverbsIoctl(reinterpret_cast<ib_uverbs_ioctl_hdr*>(at_the_end), device), EFAULT);
  munmap(pages, kPage);
}

TEST(UverbsTest, OutputsInWrongMemoryAreBadAddresses) {
  const WrongMemory wrong;
  EXPECT_EQ(GidEntry(1, 1, static_cast<ib_uverbs_gid_entry*>(wrong.get())).Execute(), EFAULT);
  uint64_t count = 0;
  EXPECT_EQ(Request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE)
                .Number(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, sizeof(ib_uverbs_gid_entry), 8)
                .Buffer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, wrong.get(),
                        8 * sizeof(ib_uverbs_gid_entry))
                .Buffer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count, sizeof(count))
                .Execute(),
            EFAULT);
}

TEST(UverbsTest, CompletionChannelThatCannotBeReturnedIsClosed) {
  const WrongMemory wrong;
  const int lowest = dup(STDERR_FILENO);
  close(lowest);
  EXPECT_EQ(
      Request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE)
          .Number(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 4)
          .Buffer(UVERBS_ATTR_CORE_OUT, wrong.get(), sizeof(ib_uverbs_create_comp_channel_resp))
          .Execute(),
      EFAULT);
  EXPECT_EQ(FdTable::KindOf(lowest), FileKind::kNone);
  const int again = dup(STDERR_FILENO);
  EXPECT_EQ(again, lowest);
  close(again);
}

// ibv_import_device() takes its descriptor of asynchronous events from the kernel.
TEST(UverbsTest, AsyncEventFileIsAllocated) {
  Request request(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
  EXPECT_EQ(request.Execute(), EINVAL);
  request.Number(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0, 0);
  ASSERT_EQ(request.Execute(), 0);
  const auto fd = static_cast<int>(request.header()->attrs[0].data_s64);
  EXPECT_EQ(FdTable::KindOf(fd), FileKind::kEventFile);
  FdTable::Instance().Remove(fd);
  EXPECT_EQ(close(fd), 0);
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
