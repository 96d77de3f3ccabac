#pragma once

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {

// The next key of a memory window: it differs in the tag, the low 8 bits (IBA 10.6.7.2.4).
constexpr RKey NextKey(RKey key) { return {(key.value & ~0xffu) | ((key.value + 1) & 0xff)}; }

// Binds the window to `length` bytes of the script's memory.
inline SendWorkRequest BindRequest(const Script& script, uint64_t wr_id, RKey present,
                                   uint64_t offset, uint64_t length) {
  SendWorkRequest request;
  request.wr_id = wr_id;
  request.opcode = SendOpcode::kBindWindow;
  request.signaled = true;
  request.rkey = NextKey(present);
  request.window = {present, script.lkey(), Script::Address(offset), length,
                    AccessFlags(AccessFlags::kRemoteRead | AccessFlags::kRemoteWrite)};
  return request;
}

inline SendWorkRequest InvalidateRequest(uint64_t wr_id, RKey key) {
  SendWorkRequest request;
  request.wr_id = wr_id;
  request.opcode = SendOpcode::kLocalInvalidate;
  request.signaled = true;
  request.invalidate_rkey = key;
  return request;
}

}  // namespace uroce::transport::packet_scripts
