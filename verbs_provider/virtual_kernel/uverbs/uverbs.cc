#include "verbs_provider/virtual_kernel/uverbs/uverbs.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs_provider/virtual_kernel/base/event_file.h"

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr uint32_t kPort = 1;
constexpr uint32_t kGidTypeRoceV2 = 2;  // IB_GID_TYPE_ROCE_UDP_ENCAP

// The attributes of one ioctl. Inputs of up to 8 bytes travel in the attribute itself, everything
// else behind a pointer.
class Attributes {
 public:
  explicit Attributes(ib_uverbs_ioctl_hdr* request) : request_(request) {}

  // The checks that the kernel makes before it looks at the method.
  bool WellFormed() const {
    return request_->length == sizeof(*request_) + request_->num_attrs * sizeof(ib_uverbs_attr) &&
           request_->reserved1 == 0 && request_->reserved2 == 0;
  }

  ib_uverbs_attr* Find(uint16_t id) const {
    for (uint16_t at = 0; at < request_->num_attrs; ++at) {
      if (request_->attrs[at].attr_id == id) return &request_->attrs[at];
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
    ib_uverbs_attr* attribute = Find(id);
    if (attribute == nullptr) return EINVAL;
    std::memcpy(reinterpret_cast<void*>(static_cast<uintptr_t>(attribute->data)), data,
                std::min<size_t>(bytes, attribute->len));
    attribute->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    return 0;
  }

 private:
  ib_uverbs_ioctl_hdr* request_;
};

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
      return attributes.Write(UVERBS_ATTR_CORE_OUT, &created, sizeof(created));
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
  auto* out = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(table->data));
  uint64_t count = 0;
  for (uint32_t index = 0; index < device.gid_count; ++index) {
    if (IsEmpty(device.gids[index])) continue;
    if (count == capacity) return EINVAL;
    const ib_uverbs_gid_entry entry = MakeGidEntry(device.gids[index], index);
    std::memset(out, 0, entry_bytes);
    std::memcpy(out, &entry, std::min<uint64_t>(entry_bytes, sizeof(entry)));
    out += entry_bytes;
    ++count;
  }
  return attributes.Write(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count, sizeof(count));
}

}  // namespace

int UverbsIoctl(ib_uverbs_ioctl_hdr* request, const uroce_device_description& device) {
  const Attributes attributes(request);
  if (!attributes.WellFormed()) return EINVAL;
  if (request->object_id != UVERBS_OBJECT_DEVICE) return EPROTONOSUPPORT;
  switch (request->method_id) {
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
