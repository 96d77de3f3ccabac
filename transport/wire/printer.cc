#include "transport/wire/printer.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <ostream>
#include <string_view>

#include "transport/wire/byte_order.h"

namespace uroce::transport {
namespace {

template <class... Values>
__attribute__((format(printf, 2, 0))) void Append(std::string& text, const char* format,
                                                  Values... values) {
  std::array<char, 128> buffer;
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  text += buffer.data();
}

std::string_view NameOf(Service service) {
  switch (service) {
    case Service::kReliableConnection:
      return "RC";
    case Service::kUnreliableConnection:
      return "UC";
    case Service::kReliableDatagram:
      return "RD";
    case Service::kUnreliableDatagram:
      return "UD";
    case Service::kCongestionNotification:
      return "CNP";
    case Service::kExtendedReliableConnection:
      return "XRC";
    case Service::kUroce:
      return "UROCE";
  }
  return "?";
}

std::string_view NameOf(NakCode code) {
  switch (code) {
    case NakCode::kPsnSequenceError:
      return "psn_sequence_error";
    case NakCode::kInvalidRequest:
      return "invalid_request";
    case NakCode::kRemoteAccessError:
      return "remote_access_error";
    case NakCode::kRemoteOperationalError:
      return "remote_operational_error";
    case NakCode::kInvalidRdRequest:
      return "invalid_rd_request";
  }
  return "reserved";
}

void AppendSyndrome(std::string& text, Syndrome syndrome) {
  switch (syndrome.kind()) {
    case Syndrome::Kind::kAck:
      return Append(text, " ack(credits=%u", syndrome.value());
    case Syndrome::Kind::kRnrNak:
      return Append(text, " rnr_nak(timer=%u", syndrome.value());
    case Syndrome::Kind::kNak:
      text += " nak(";
      text += NameOf(syndrome.nak_code());
      return;
    case Syndrome::Kind::kReserved:
      return Append(text, " syndrome(%#x", syndrome.wire_byte());
  }
}

void AppendExtensions(std::string& text, const Packet& packet) {
  const Opcode& opcode = packet.opcode;
  if (opcode.HasDeth()) {
    Append(text, " deth(qkey=%#x source_qpn=%#x)", packet.deth.qkey, packet.deth.source_qpn.value);
  }
  if (opcode.HasXrceth()) Append(text, " xrceth(srqn=%#x)", packet.xrceth.srqn.value);
  if (opcode.HasFeth()) {
    Append(text, " feth(placement=%#x selectivity=%u)", packet.feth.placement,
           static_cast<unsigned int>(packet.feth.selectivity));
  }
  if (opcode.HasReth()) {
    Append(text, " reth(va=%#" PRIx64 " rkey=%#x len=%u)", packet.reth.virtual_address,
           packet.reth.rkey.value, packet.reth.dma_length);
  }
  if (opcode.HasAtomicEth()) {
    Append(text, " atomic(va=%#" PRIx64 " rkey=%#x", packet.atomic.virtual_address,
           packet.atomic.rkey.value);
    if (opcode.operation == Operation::kCompareAndSwap) {
      Append(text, " compare=%#" PRIx64 " swap=%#" PRIx64 ")", packet.atomic.compare,
             packet.atomic.swap_or_add);
    } else {
      Append(text, " add=%#" PRIx64 ")", packet.atomic.swap_or_add);
    }
  }
  if (opcode.HasAeth()) {
    AppendSyndrome(text, packet.aeth.syndrome);
    Append(text, " msn=%u)", packet.aeth.msn);
  }
  if (opcode.HasAtomicAckEth()) Append(text, " original=%#" PRIx64, packet.atomic_original);
  if (opcode.HasImmediate()) Append(text, " imm=0x%08x", BigEndian(packet.immediate));
  if (opcode.HasIeth()) Append(text, " invalidate=%#x", packet.invalidate_rkey.value);
}

// The longest run of at least two zero groups, which RFC 5952 writes as "::".
struct ZeroRun {
  int begin = -1;
  int length = 1;
};

ZeroRun LongestZeroRun(const std::array<uint16_t, 8>& groups) {
  ZeroRun longest;
  for (int begin = 0; begin < 8; ++begin) {
    int end = begin;
    while (end < 8 && groups[static_cast<size_t>(end)] == 0) ++end;
    if (end - begin > longest.length) longest = {begin, end - begin};
  }
  return longest;
}

}  // namespace

std::string ToString(const Gid& gid) {
  std::string text;
  if (gid.IsIpv4Mapped()) {
    Append(text, "%u.%u.%u.%u", gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]);
    return text;
  }
  std::array<uint16_t, 8> groups;
  for (size_t i = 0; i < 8; ++i) groups[i] = Load16(gid.bytes.data() + 2 * i);
  const ZeroRun zeros = LongestZeroRun(groups);
  for (int i = 0; i < 8; ++i) {
    if (i == zeros.begin) {
      text += "::";
      i += zeros.length - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    Append(text, "%x", groups[static_cast<size_t>(i)]);
  }
  return text;
}

std::string ToString(const Opcode& opcode) {
  std::string text(NameOf(opcode.service));
  text += '_';
  text += FindOperation(EncodeOpcode(opcode))->name;
  return text;
}

std::string ToString(const Packet& packet) {
  std::string text = ToString(packet.flow.source) + " > " + ToString(packet.flow.destination) +
                     ' ' + ToString(packet.opcode);
  Append(text, " qpn %#x psn %u", packet.destination_qpn.value, packet.psn.value());
  if (packet.ack_request) text += " ackreq";
  if (packet.solicited) text += " solicited";
  if (packet.forward_congestion) text += " fecn";
  if (packet.backward_congestion) text += " becn";
  if (packet.pkey != kDefaultPkey) Append(text, " pkey %#x", packet.pkey);
  AppendExtensions(text, packet);
  if (packet.opcode.HasPayload()) Append(text, " %zuB", packet.payload.size());
  return text;
}

std::ostream& operator<<(std::ostream& out, const Packet& packet) {
  return out << ToString(packet);
}

}  // namespace uroce::transport
