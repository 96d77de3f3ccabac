#include "verbs_provider/virtual_kernel/uverbs/uverbs.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "verbs_provider/rdma_cm/user_memory.h"
#include "verbs_provider/virtual_kernel/base/event_file.h"
#include "verbs_provider/virtual_kernel/base/fd_table.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr uint32_t kPort = 1;
constexpr uint32_t kGidTypeRoceV2 = 2;  // IB_GID_TYPE_ROCE_UDP_ENCAP

using rdma_cm::CopyFromUser;
using rdma_cm::CopyToUser;

constexpr size_t kMaxRequestBytes = 4'096;  // the kernel's PAGE_SIZE

// One ioctl: a copy of its header and attributes, since the application's memory may be none.
// Inputs of up to 8 bytes travel in the attribute itself, everything else behind a pointer.
class Attributes {
 public:
  // 0 or an errno value: the checks that the kernel makes before it looks at the method.
  int Read(uint64_t request) {
    if (!CopyFromUser(&header_, request, sizeof header_)) return EFAULT;
    const size_t bytes = header_.num_attrs * sizeof(ib_uverbs_attr);
    const bool is_well_formed = header_.length == sizeof header_ + bytes &&
                                header_.length <= kMaxRequestBytes && header_.reserved1 == 0 &&
                                header_.reserved2 == 0;
    if (!is_well_formed) return EINVAL;
    user_attributes_ = request + sizeof header_;
    attributes_.resize(header_.num_attrs);
    return CopyFromUser(attributes_.data(), user_attributes_, bytes) ? 0 : EFAULT;
  }

  const ib_uverbs_ioctl_hdr& header() const { return header_; }

  const ib_uverbs_attr* Find(uint16_t id) const {
    for (const ib_uverbs_attr& attribute : attributes_) {
      if (attribute.attr_id == id) return &attribute;
    }
    return nullptr;
  }

  // Reads an input number. False if it is absent or larger than `Number`.
  template <typename Number>
  bool Read(uint16_t id, Number& number) const {
    const ib_uverbs_attr* attribute = Find(id);
    if (attribute == nullptr || attribute->len > sizeof(attribute->data)) return false;
    number = static_cast<Number>(attribute->data);
    return number == attribute->data;
  }

  // Copies an output, or as much of it as the caller's version of the struct takes.
  int Write(uint16_t id, const void* data, size_t bytes) const {
    const ib_uverbs_attr* attribute = Find(id);
    if (attribute == nullptr) return EINVAL;
    const size_t taken = std::min<size_t>(bytes, attribute->len);
    const auto flags = static_cast<uint16_t>(attribute->flags | UVERBS_ATTR_F_VALID_OUTPUT);
    const bool is_written =
        CopyToUser(attribute->data, data, taken) &&
        CopyToUser(AddressOf(*attribute) + offsetof(ib_uverbs_attr, flags), &flags, sizeof flags);
    return is_written ? 0 : EFAULT;
  }

  // Returns a new descriptor, which travels in the attribute itself. EFAULT as above; EINVAL where
  // there is no such attribute.
  int WriteFd(uint16_t id, int fd) const {
    const ib_uverbs_attr* attribute = Find(id);
    if (attribute == nullptr) return EINVAL;
    const int64_t number = fd;
    const uint64_t to = AddressOf(*attribute) + offsetof(ib_uverbs_attr, data_s64);
    return CopyToUser(to, &number, sizeof number) ? 0 : EFAULT;
  }

 private:
  uint64_t AddressOf(const ib_uverbs_attr& attribute) const {
    const auto index = static_cast<size_t>(&attribute - attributes_.data());
    return user_attributes_ + index * sizeof(ib_uverbs_attr);
  }

  std::vector<ib_uverbs_attr> attributes_;
  uint64_t user_attributes_ = 0;     // address in the application
  ib_uverbs_ioctl_hdr header_ = {};  // the last: it ends in an array of no bytes
};

// Closes a new descriptor that the application could not be given.
int ClosingOnError(int fd, int error) {
  if (error != 0) {
    FdTable::Instance().Remove(fd);
    real::close(fd);
  }
  return error;
}

bool IsEmpty(const uroce_gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t b) { return b == 0; });
}

ib_uverbs_gid_entry MakeGidEntry(const uroce_gid& gid, uint32_t index) {
  ib_uverbs_gid_entry entry = {};
  std::memcpy(entry.gid, gid.raw, sizeof(gid.raw));
  entry.gid_index = index;
  entry.port_num = kPort;
  entry.gid_type = kGidTypeRoceV2;
  entry.netdev_ifindex = gid.netdev_ifindex;
  return entry;
}

// The commands of the old write() interface, carried by ioctl.
int InvokeWrite(const Attributes& attributes) {
  uint32_t command;
  if (!attributes.Read(UVERBS_ATTR_WRITE_CMD, command)) return EINVAL;
  const ib_uverbs_attr* response = attributes.Find(UVERBS_ATTR_CORE_OUT);
  switch (command) {
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: {
      ib_uverbs_create_comp_channel_resp created = {};
      if (response == nullptr || response->len < sizeof(created)) return ENOSPC;
      const int fd = EventFile::Open(sizeof(ib_uverbs_comp_event_desc));
      if (fd < 0) return errno;
      created.fd = static_cast<uint32_t>(fd);
      return ClosingOnError(fd, attributes.Write(UVERBS_ATTR_CORE_OUT, &created, sizeof(created)));
    }
    case IB_USER_VERBS_CMD_QUERY_DEVICE:
      // libibverbs probes for this ioctl: it sends too short a request, and any answer but
      // EPROTONOSUPPORT or ENOTTY means that the ioctl exists.
      if (response == nullptr) return ENOSPC;
      return EOPNOTSUPP;
    default:
      return EOPNOTSUPP;
  }
}

// The kernel's uverbs_get_flags32() where no flag exists.
bool HasFlags(const Attributes& attributes, uint16_t id) {
  uint64_t flags = 0;
  return attributes.Find(id) != nullptr && (!attributes.Read(id, flags) || flags != 0);
}

int QueryGidEntry(const Attributes& attributes, const uroce_device_description& device) {
  uint32_t port;
  uint32_t index;
  if (!attributes.Read(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, port) ||
      !attributes.Read(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index) || port != kPort ||
      index >= device.gid_count || HasFlags(attributes, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS)) {
    return EINVAL;
  }
  if (IsEmpty(device.gids[index])) return ENODATA;
  const ib_uverbs_gid_entry entry = MakeGidEntry(device.gids[index], index);
  return attributes.Write(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry, sizeof(entry));
}

int QueryGidTable(const Attributes& attributes, const uroce_device_description& device) {
  uint64_t entry_bytes;
  const ib_uverbs_attr* table = attributes.Find(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
  if (!attributes.Read(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, entry_bytes) || entry_bytes == 0 ||
      table == nullptr || HasFlags(attributes, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS)) {
    return EINVAL;
  }
  const uint64_t capacity = table->len / entry_bytes;
  uint64_t out = table->data;
  uint64_t count = 0;
  for (uint32_t index = 0; index < device.gid_count; ++index) {
    if (IsEmpty(device.gids[index])) continue;
    if (count == capacity) return EINVAL;
    const ib_uverbs_gid_entry entry = MakeGidEntry(device.gids[index], index);
    std::vector<std::byte> bytes(entry_bytes);  // no more than a table has, whose length is 16 bits
    std::memcpy(bytes.data(), &entry, std::min<uint64_t>(entry_bytes, sizeof(entry)));
    if (!CopyToUser(out, bytes.data(), entry_bytes)) return EFAULT;
    out += entry_bytes;
    ++count;
  }
  return attributes.Write(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count, sizeof(count));
}

int AllocateAsyncEvents(const Attributes& attributes) {
  constexpr uint16_t kHandle = UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE;
  if (attributes.Find(kHandle) == nullptr) return EINVAL;
  const int fd = EventFile::Open(sizeof(ib_uverbs_async_event_desc));
  if (fd < 0) return errno;
  return ClosingOnError(fd, attributes.WriteFd(kHandle, fd));
}

}  // namespace

int UverbsIoctl(const ib_uverbs_ioctl_hdr* request, const uroce_device_description& device) {
  Attributes attributes;
  if (const int error = attributes.Read(reinterpret_cast<uintptr_t>(request))) return error;
  if (attributes.header().object_id == UVERBS_OBJECT_ASYNC_EVENT &&
      attributes.header().method_id == UVERBS_METHOD_ASYNC_EVENT_ALLOC) {
    return AllocateAsyncEvents(attributes);
  }
  if (attributes.header().object_id != UVERBS_OBJECT_DEVICE) return EPROTONOSUPPORT;
  switch (attributes.header().method_id) {
    case UVERBS_METHOD_INVOKE_WRITE:
      return InvokeWrite(attributes);
    case UVERBS_METHOD_QUERY_GID_ENTRY:
      return QueryGidEntry(attributes, device);
    case UVERBS_METHOD_QUERY_GID_TABLE:
      return QueryGidTable(attributes, device);
    default:
      return EPROTONOSUPPORT;
  }
}

}  // namespace uroce::verbs::virtual_kernel
