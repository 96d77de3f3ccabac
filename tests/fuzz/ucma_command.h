#pragma once

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/fuzz/record.h"
#include "tests/fuzz/ucma_memory.h"

namespace uroce::verbs::rdma_cm {

// One write() to /dev/infiniband/rdma_cm.
struct UcmaCommand {
  rdma_ucm_cmd_hdr header{};
  std::vector<uint8_t> body;
  size_t cut_bytes = 0;      // how many fewer are written than the header says
  size_t missing_bytes = 0;  // at the end of the body, in unmapped memory

  // The bytes that exist.
  std::vector<uint8_t> Bytes() const;
  // The body as the command's struct; missing bytes are zero.
  template <class Struct>
  Struct As() const {
    std::array<uint8_t, sizeof(Struct)> bytes{};
    std::copy_n(body.begin(), std::min(bytes.size(), body.size()), bytes.begin());
    return std::bit_cast<Struct>(bytes);
  }
};

// Objects that a command may name: each function turns a byte of the input into a number.
struct UcmaSurroundings {
  std::function<uint32_t(uint8_t choice)> id;      // of this file, of another file, or of none
  std::function<uint32_t(uint8_t choice)> member;  // of a group
  std::function<int(uint8_t choice)> fd;
  std::function<uint64_t()> new_uid;  // a new one for every call
  const UcmaMemory* answers;
  const UcmaMemory* options;
};

inline constexpr uint32_t kUcmaCommands = RDMA_USER_CM_CMD_JOIN_MCAST + 1;

// A command as librdmacm writes it, damaged if the record says so.
UcmaCommand MakeUcmaCommand(transport::Record& record, const UcmaSurroundings& around);
// Any bytes, except that pointers are those of MakeUcmaCommand.
UcmaCommand MakeRawUcmaCommand(transport::Record& record, const UcmaSurroundings& around);

// The address that the answer goes to; 0 if the command has no answer.
uint64_t ResponseOf(const UcmaCommand& command);

}  // namespace uroce::verbs::rdma_cm
