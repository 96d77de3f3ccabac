#pragma once

#include "tests/packet_scripts/script.h"

namespace uroce::packet_scripts {

// The next key of a memory window: it differs in the tag, the low 8 bits (IBA 10.6.7.2.4).
constexpr transport::RKey NextKey(transport::RKey key) {
  return {(key.value & ~0xffu) | ((key.value + 1) & 0xff)};
}

// Binds the window to `length` bytes of the script's memory.
inline transport::SendWorkRequest BindRequest(const Script& script, uint64_t wr_id,
                                              transport::RKey present, uint64_t offset,
                                              uint64_t length) {
  transport::SendWorkRequest request;
  request.wr_id = wr_id;
  request.opcode = transport::SendOpcode::kBindWindow;
  request.signaled = true;
  request.rkey = NextKey(present);
  request.window = {present, script.lkey(), Script::Address(offset), length,
                    transport::AccessFlags(transport::AccessFlags::kRemoteRead |
                                           transport::AccessFlags::kRemoteWrite)};
  return request;
}

inline transport::SendWorkRequest InvalidateRequest(uint64_t wr_id, transport::RKey key) {
  transport::SendWorkRequest request;
  request.wr_id = wr_id;
  request.opcode = transport::SendOpcode::kLocalInvalidate;
  request.signaled = true;
  request.invalidate_rkey = key;
  return request;
}

}  // namespace uroce::packet_scripts
