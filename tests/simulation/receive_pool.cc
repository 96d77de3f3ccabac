#include "tests/simulation/receive_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace uroce::transport::simulation {
namespace {

// Fills a receive's memory before it is posted.
constexpr uint8_t kUntouched = 0xee;

}  // namespace

ReceivePool::ReceivePool(Verdict& verdict, MemoryTable& table, PdId pd, const Config& config,
                         Random random)
    : verdict_(verdict),
      config_(config),
      slot_bytes_(SlotBytes(config)),
      arena_(table, pd, slot_bytes_ * config.slots, AccessFlags(AccessFlags::kLocalWrite),
             random.Fork()),
      random_(random),
      next_wr_id_(config.first_wr_id) {
  Clear();
}

// RandomLayout leaves at most eight bytes before each piece and after the last.
uint64_t ReceivePool::SlotBytes(const Config& config) {
  return config.bytes + 8 * (uint64_t{config.max_sges} + 1);
}

void ReceivePool::Clear() {
  posted_.clear();
  free_slots_.clear();
  for (uint64_t slot = config_.slots; slot > 0; --slot) {
    free_slots_.push_back((slot - 1) * slot_bytes_);
  }
}

const PostedReceive* ReceivePool::Draw() {
  if (free_slots_.empty()) return nullptr;
  PostedReceive receive;
  receive.wr_id = next_wr_id_++;
  receive.offset = free_slots_.back();
  free_slots_.pop_back();
  receive.layout = RandomLayout(random_, config_.bytes, config_.max_sges);
  receive.before.assign(receive.layout.area_bytes, kUntouched);
  std::copy(receive.before.begin(), receive.before.end(), arena_.at(receive.offset));
  posted_.push_back(std::move(receive));
  return &posted_.back();
}

void ReceivePool::Withdraw() {
  free_slots_.push_back(posted_.back().offset);
  posted_.pop_back();
}

std::vector<ScatterGatherEntry> ReceivePool::SgesOf(const PostedReceive& receive) const {
  std::vector<ScatterGatherEntry> sges;
  for (const Layout::Piece& piece : receive.layout.pieces) {
    sges.push_back(arena_.entry(receive.offset + piece.offset, piece.length));
  }
  return sges;
}

std::optional<PostedReceive> ReceivePool::Complete(uint64_t wr_id, size_t among) {
  const auto oldest = posted_.begin();
  const auto end = oldest + static_cast<std::ptrdiff_t>(std::min(among, posted_.size()));
  const auto found = std::find_if(
      oldest, end, [wr_id](const PostedReceive& posted) { return posted.wr_id == wr_id; });
  if (found == end) {
    verdict_.Fail("not the oldest receive request completes: ", wr_id, " of ", posted_.size());
    return std::nullopt;
  }
  PostedReceive receive = std::move(*found);
  posted_.erase(found);
  free_slots_.insert(free_slots_.begin(), receive.offset);
  return receive;
}

void ReceivePool::CheckUntouched(size_t in_use) {
  for (size_t i = in_use; i < posted_.size(); ++i) {
    const PostedReceive& posted = posted_[i];
    const auto area = arena_.bytes(posted.offset, posted.before.size());
    if (!std::equal(area.begin(), area.end(), posted.before.begin())) {
      return verdict_.Fail("wrong byte in the memory of a receive that no message has taken: ",
                           posted.wr_id);
    }
  }
}

}  // namespace uroce::transport::simulation
