// Any sequence of verbs on two devices that a lossy wire joins. The input is a sequence of
// operations: creating and destroying objects, right and wrong transitions of queue pairs, posts,
// polls, turns of the wire, time.
//
// Invariants: a refused verb has no effect; a query shows every accepted change; every request
// completes once and in order; an event is about the object it names and comes only when asked for;
// frames parse; no byte outside of registered memory changes. At the end everything is flushed,
// accounted for and destroyed.
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "tests/fuzz/record.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/verbs_host.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

class VerbsFuzz {
 public:
  void Step(Record record);
  void Finish();

 private:
  void Exchange(Record& record);
  void Carry(VerbsHost& from, VerbsHost& to, uint32_t rounds, uint8_t losses);
  void PassTime(Record& record);

  std::array<VerbsHost, 2> hosts_{VerbsHost(1), VerbsHost(2)};
  Time now_{1'000};
  std::array<uint8_t, kMaxFrameBytes> frame_;
};

void VerbsFuzz::Step(Record record) {
  const uint32_t operation = record.Below(32);
  const size_t index = record.Below(2);
  VerbsHost& host = hosts_[index];
  const VerbsHost& peer = hosts_[1 - index];
  switch (operation) {
    case 0:
      host.CreateOrDestroyCq(record);
      break;
    case 1:
      host.CreateOrDestroySrq(record);
      break;
    case 2:
    case 3:
      host.CreateOrDestroyQp(record);
      break;
    case 4:
      host.ChangeCq(record);
      break;
    case 5:
      host.ChangeSrq(record);
      break;
    case 6:
      host.ChangeMemory(record);
      break;
    case 7:
      host.ChangeMulticast(record);
      break;
    case 8:
      if (record.Byte() == 0xff) host.Fail();
      break;
    case 9:
    case 10:
      host.ModifyAtRandom(record, peer);
      break;
    case 11:
      PassTime(record);
      break;
    case 12:
    case 13:
    case 14:
    case 15:
      host.PostReceive(record);
      break;
    case 16:
    case 17:
    case 18:
    case 19:
      Exchange(record);
      break;
    case 20:
      host.PollAll();
      break;
    case 21:
    case 22:
    case 23:
    case 24:
    case 25:
      host.Advance(record, peer);
      break;
    default:
      host.PostSends(record, peer);
  }
  host.TakeEvents();
  host.RequireGuards();
}

void VerbsFuzz::Exchange(Record& record) {
  const uint32_t rounds = record.Below(8);
  uint8_t losses = record.Byte();
  losses &= record.Byte();
  Carry(hosts_[0], hosts_[1], rounds, losses);
  Carry(hosts_[1], hosts_[0], rounds, losses);
}

// Of eight frames those whose bits are set are lost.
void VerbsFuzz::Carry(VerbsHost& from, VerbsHost& to, uint32_t rounds, uint8_t losses) {
  for (const Route route : {Route::kWire, Route::kLoopback}) {
    Endpoint& receiver = route == Route::kWire ? to.endpoint() : from.endpoint();
    for (uint32_t i = 0; i < rounds * 4; ++i) {
      const size_t bytes = from.endpoint().PollTransmit(now_, route, frame_);
      if (bytes == 0) {
        UROCE_REQUIRE(!from.endpoint().HasTransmit(route));
        break;
      }
      const std::span<const uint8_t> frame = std::span(frame_).first(bytes);
      Packet packet;
      UROCE_REQUIRE(ParseFrame(frame, packet) == DropReason::kNone);
      UROCE_REQUIRE(packet.payload.size() <= 1'024);  // fits into the MTU of the port
      if ((losses >> (i % 8) & 1) == 0) receiver.OnFrame(now_, frame, route);
    }
  }
}

void VerbsFuzz::PassTime(Record& record) {
  now_ = now_ + Duration{int64_t{1} << record.Below(32)};
  for (VerbsHost& host : hosts_) {
    host.endpoint().OnDeadline(now_);
    UROCE_REQUIRE(host.endpoint().NextDeadline() > now_);
  }
}

void VerbsFuzz::Finish() {
  for (VerbsHost& host : hosts_) host.Finish(now_);
}

}  // namespace
}  // namespace uroce::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::transport::VerbsFuzz fuzz;
  uroce::transport::RunSteps(fuzz, {data, size});
  return 0;
}
