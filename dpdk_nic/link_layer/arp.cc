#include "dpdk_nic/link_layer/arp.h"

#include <algorithm>

#include "transport/wire/byte_order.h"

namespace uroce::nic {
namespace {

// Ethernet, IPv4, and the lengths of their addresses.
constexpr std::array<uint8_t, 6> kFixedFields = {0x00, 0x01, 0x08, 0x00, 6, 4};

constexpr size_t kEthertypeOffset = 12;
constexpr size_t kFixedFieldsOffset = 14;
constexpr size_t kOperationOffset = 20;
constexpr size_t kSenderMacOffset = 22;
constexpr size_t kSenderIpOffset = 28;
constexpr size_t kTargetMacOffset = 32;
constexpr size_t kTargetIpOffset = 38;

template <class Address>
Address ReadAddress(const uint8_t* bytes) {
  Address address;
  std::copy_n(bytes, address.size(), address.begin());
  return address;
}

template <class Address>
void WriteAddress(const Address& address, uint8_t* bytes) {
  std::copy(address.begin(), address.end(), bytes);
}

}  // namespace

std::optional<ArpPacket> ParseArp(std::span<const uint8_t> frame) {
  if (frame.size() < kArpFrameBytes) return std::nullopt;
  const uint8_t* bytes = frame.data();
  if (transport::Load16(bytes + kEthertypeOffset) != kArpEthertype) return std::nullopt;
  if (!std::equal(kFixedFields.begin(), kFixedFields.end(), bytes + kFixedFieldsOffset)) {
    return std::nullopt;
  }
  const uint16_t operation = transport::Load16(bytes + kOperationOffset);
  if (operation != 1 && operation != 2) return std::nullopt;
  ArpPacket packet;
  packet.operation = static_cast<ArpPacket::Operation>(operation);
  packet.sender_mac = ReadAddress<transport::MacAddress>(bytes + kSenderMacOffset);
  packet.sender_ip = ReadAddress<ArpPacket::Ipv4Address>(bytes + kSenderIpOffset);
  packet.target_mac = ReadAddress<transport::MacAddress>(bytes + kTargetMacOffset);
  packet.target_ip = ReadAddress<ArpPacket::Ipv4Address>(bytes + kTargetIpOffset);
  return packet;
}

size_t EmitArp(const ArpPacket& packet, const transport::MacAddress& destination,
               std::span<uint8_t> out) {
  uint8_t* bytes = out.data();
  WriteAddress(destination, bytes);
  WriteAddress(packet.sender_mac, bytes + destination.size());
  transport::Store16(kArpEthertype, bytes + kEthertypeOffset);
  WriteAddress(kFixedFields, bytes + kFixedFieldsOffset);
  transport::Store16(static_cast<uint16_t>(packet.operation), bytes + kOperationOffset);
  WriteAddress(packet.sender_mac, bytes + kSenderMacOffset);
  WriteAddress(packet.sender_ip, bytes + kSenderIpOffset);
  WriteAddress(packet.target_mac, bytes + kTargetMacOffset);
  WriteAddress(packet.target_ip, bytes + kTargetIpOffset);
  return kArpFrameBytes;
}

}  // namespace uroce::nic
