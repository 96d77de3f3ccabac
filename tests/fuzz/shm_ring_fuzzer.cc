// Changes the memory of a shared-memory link at will between the steps of an honest end. Checks:
// the end returns exactly the frames that RingModel predicts, each within its slot, and writes
// exactly the predicted bytes; senseless contents break the link and nothing more; a sleeping
// consumer is woken when it must be.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "dpdk_nic/port/ring/ring_link.h"
#include "dpdk_nic/port/ring/ring_memory.h"
#include "dpdk_nic/port/ring/shm_ring.h"
#include "tests/fuzz/record.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/ring_model.h"

namespace uroce::nic {
namespace {

using transport::Record;

constexpr int kHonestSide = 1;
constexpr int kForeignSide = 0;
constexpr size_t kMaxFrameBytes = 4'224;
static_assert(kMaxFrameBytes <= kSlotBytes - SlotWord::kAlignedOffset);

// An honest end, and the other side's mapping of the same memory.
class Arena {
 public:
  Arena() {
    std::array<int, 2> sockets;
    UROCE_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) == 0);
    foreign_socket_.reset(sockets[0]);
    link_ = RingLink::Accept(HonestMemory(), UniqueFd(sockets[1]));
    UROCE_REQUIRE(link_ != nullptr);
    // The first room that the honest end returns shows where it mapped the memory.
    const std::span<const uint8_t> room = link_->Acquire();
    const auto first_room = model_.Acquire();
    UROCE_REQUIRE(!room.empty() && first_room.has_value());
    base_ = room.data() - first_room->offset;
  }
  ~Arena() {
    UROCE_REQUIRE(model_.Matches());
    model_.Reset();
  }

  void Step(Record record) {
    Operate(record);
    for (const int ring : {0, 1}) {
      const RingControl& control = *SharedMemory().ring(ring).control;
      UROCE_REQUIRE(control.consumer_position == model_.consumer_position(ring));
      UROCE_REQUIRE(control.consumer_asleep == model_.consumer_asleep(ring));
    }
  }

 private:
  void Operate(Record& record) {
    switch (record.Below(12)) {
      case 0:
        return WriteAnything(record);
      case 1:
        return WriteWord(record);
      case 2:
      case 3:
        return SendFrame(record);
      case 4:
        return WritePosition(record);
      case 5:
        return WriteAsleep(record);
      case 6:
      case 7:
        return Receive(record);
      case 8:
      case 9:
        return Transmit(record);
      case 10:
        return Flush();
      default:
        return Sleep(record);
    }
  }

  // Made once, because creating the pages takes longer than an input.
  static RingMemory& SharedMemory() {
    static RingMemory& memory = *RingMemory::Create().release();
    return memory;
  }
  static const std::shared_ptr<RingMemory>& HonestMemory() {
    static const auto& memory =
        *new std::shared_ptr<RingMemory>(RingMemory::Open(UniqueFd(dup(SharedMemory().fd()))));
    return memory;
  }
  static uint8_t* Foreign(size_t offset) {
    return reinterpret_cast<uint8_t*>(SharedMemory().ring(0).control) + offset;
  }

  void Write(size_t offset, std::span<const uint8_t> bytes) {
    const size_t room = model_.bytes() - offset;
    bytes = bytes.first(std::min(bytes.size(), room));
    memcpy(Foreign(offset), bytes.data(), bytes.size());
    model_.OnForeignWrite(offset, bytes);
  }
  template <class T>
  void WriteNumber(size_t offset, T value) {
    std::array<uint8_t, sizeof value> bytes;
    memcpy(bytes.data(), &value, sizeof value);
    Write(offset, bytes);
  }

  void WriteAnything(Record& record) {
    const size_t offset = record.DoubleWord() % model_.bytes();
    std::array<uint8_t, 8> bytes;
    for (uint8_t& byte : bytes) byte = record.Byte();
    Write(offset, bytes);
  }

  // The word of the slot to be read next, or of one near it.
  void WriteWord(Record& record) {
    const uint64_t position = model_.received() + static_cast<uint64_t>(record.Near());
    WriteNumber(model_.SlotOffset(kForeignSide, position), record.Word());
  }

  // Sends like an honest producer, but with any length.
  void SendFrame(Record& record) {
    const uint64_t position = model_.received() + record.Below(4);
    const size_t offset = record.Flag() ? SlotWord::kNearOffset : SlotWord::kAlignedOffset;
    const int32_t beyond_the_slot = record.Near();
    const size_t frame_bytes = record.Flag()
                                   ? record.Word() % (1 << 13)
                                   : kSlotBytes - offset + static_cast<size_t>(beyond_the_slot);
    WriteNumber(model_.SlotOffset(kForeignSide, position),
                SlotWord(frame_bytes, offset, position).bits());
  }

  void WritePosition(Record& record) {
    const uint64_t near = model_.sent() + static_cast<uint64_t>(record.Near());
    const uint64_t any = uint64_t{record.DoubleWord()} << 32 | record.DoubleWord();
    WriteNumber(model_.PositionOffset(kHonestSide), record.Below(8) == 0 ? any : near);
  }

  void WriteAsleep(Record& record) {
    WriteNumber(model_.AsleepOffset(record.Flag() ? kHonestSide : kForeignSide),
                record.DoubleWord());
  }

  void Receive(Record& record) {
    for (uint32_t frames = record.Byte(); frames != UINT32_MAX; --frames) {
      const std::span<const uint8_t> frame = link_->Receive();
      const auto expected = model_.Receive();
      UROCE_REQUIRE(frame.empty() == !expected.has_value());
      CheckBroken();
      if (!expected) return;
      UROCE_REQUIRE(frame.data() == base_ + expected->offset);
      UROCE_REQUIRE(frame.size() == expected->bytes);
      const size_t in_slot = expected->offset - model_.SlotOffset(kForeignSide, model_.received());
      UROCE_REQUIRE(in_slot + frame.size() <= kSlotBytes);
      link_->Release();
      model_.Release();
    }
  }

  void Transmit(Record& record) {
    std::array<uint8_t, kMaxFrameBytes> frame;
    const size_t frame_bytes = 1 + record.Word() % kMaxFrameBytes;
    frame.fill(record.Byte());
    for (uint32_t frames = record.Byte(); frames != UINT32_MAX; --frames) {
      const std::span<uint8_t> room = link_->Acquire();
      const auto expected = model_.Acquire();
      UROCE_REQUIRE(room.empty() == !expected.has_value());
      CheckBroken();
      if (!expected) return;
      UROCE_REQUIRE(room.data() == base_ + expected->offset);
      UROCE_REQUIRE(room.size() == expected->bytes && room.size() >= kMaxFrameBytes);
      memcpy(room.data(), frame.data(), frame_bytes);
      link_->Commit(frame_bytes);
      model_.Commit(std::span(frame).first(frame_bytes));
    }
  }

  void Flush() {
    link_->Flush();
    const bool wakes = model_.Flush();
    uint8_t byte;
    UROCE_REQUIRE((recv(foreign_socket_.get(), &byte, 1, MSG_DONTWAIT) == 1) == wakes);
  }

  void Sleep(Record& record) {
    if (record.Flag()) {
      UROCE_REQUIRE(link_->BeginSleep() == model_.BeginSleep());
      return;
    }
    link_->EndSleep();
    model_.EndSleep();
    const uint32_t wakes = record.Below(100);
    const std::array<uint8_t, 100> bytes{};
    UROCE_REQUIRE(send(foreign_socket_.get(), bytes.data(), wakes, MSG_DONTWAIT) == wakes);
    UROCE_REQUIRE(link_->peer_alive());
  }

  void CheckBroken() { UROCE_REQUIRE(link_->broken() == model_.broken()); }

  static RingModel& Model() {
    static RingModel& model = *new RingModel(SharedMemory(), kHonestSide);
    return model;
  }

  RingModel& model_ = Model();
  UniqueFd foreign_socket_;
  std::unique_ptr<RingLink> link_;
  const uint8_t* base_ = nullptr;  // of the honest end's mapping
};

}  // namespace
}  // namespace uroce::nic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::nic::Arena arena;
  uroce::transport::ForEachRecord({data, size},
                                  [&](uroce::transport::Record record) { arena.Step(record); });
  return 0;
}
