#include "tests/interop/replay/answers.h"

#include <algorithm>
#include <ostream>

#include "transport/wire/aeth.h"
#include "transport/wire/printer.h"

namespace uroce::transport::interop {
namespace {

std::string Describe(const Packet& packet, Psn first_psn) {
  Packet normal = packet;
  normal.psn = Psn(static_cast<uint32_t>(packet.psn.DistanceFrom(first_psn)));
  if (packet.opcode.HasAeth() && packet.aeth.syndrome.kind() == Syndrome::Kind::kAck) {
    normal.aeth.syndrome = Syndrome::Ack(Syndrome::kNoCreditInformation);
  }
  const std::string text = ToString(normal);
  // Without the addresses and the queue pair, which are the same for the whole flow.
  const std::string opcode = ToString(packet.opcode);
  return opcode + text.substr(text.find(" psn "));
}

bool IsSame(const Answer& one, const Answer& other) {
  return one.text == other.text && one.payload == other.payload;
}

// lengths[i][j]: the length of the longest common subsequence of ours from i on and theirs from j
// on.
std::vector<std::vector<size_t>> CommonLengths(const std::vector<Answer>& ours,
                                               const std::vector<Answer>& theirs) {
  std::vector lengths(ours.size() + 1, std::vector<size_t>(theirs.size() + 1));
  for (size_t i = ours.size(); i-- > 0;) {
    for (size_t j = theirs.size(); j-- > 0;) {
      lengths[i][j] = IsSame(ours[i], theirs[j]) ? lengths[i + 1][j + 1] + 1
                                                 : std::max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

// Adds a stretch without common answers: the answers differ one by one.
void AddStretch(std::vector<const Answer*>& ours, std::vector<const Answer*>& theirs,
                std::vector<Difference>& differences) {
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const Answer* own = i < ours.size() ? ours[i] : nullptr;
    const Answer* other = i < theirs.size() ? theirs[i] : nullptr;
    std::string text = own == nullptr ? kNothing : own->text;
    if (own != nullptr && other != nullptr && own->text == other->text) text += ", other bytes";
    differences.push_back({.frame = other != nullptr ? other->frame : own->frame,
                           .ours = text,
                           .theirs = other == nullptr ? kNothing : other->text});
  }
  ours.clear();
  theirs.clear();
}

}  // namespace

Answer::Answer(uint32_t number, const Packet& packet, Psn first_psn)
    : frame(number),
      text(Describe(packet, first_psn)),
      payload(packet.payload.begin(), packet.payload.end()) {}

std::ostream& operator<<(std::ostream& out, const Difference& difference) {
  return out << "{frame " << difference.frame << ": ours " << difference.ours << ", rxe's "
             << difference.theirs << "}";
}

std::vector<Difference> Compare(const std::vector<Answer>& ours,
                                const std::vector<Answer>& theirs) {
  const auto lengths = CommonLengths(ours, theirs);
  std::vector<Difference> differences;
  std::vector<const Answer*> only_ours;
  std::vector<const Answer*> only_theirs;
  size_t i = 0;
  size_t j = 0;
  while (i < ours.size() || j < theirs.size()) {
    if (i < ours.size() && j < theirs.size() && IsSame(ours[i], theirs[j])) {
      AddStretch(only_ours, only_theirs, differences);
      ++i, ++j;
    } else if (j == theirs.size() || (i < ours.size() && lengths[i + 1][j] >= lengths[i][j + 1])) {
      only_ours.push_back(&ours[i++]);
    } else {
      only_theirs.push_back(&theirs[j++]);
    }
  }
  AddStretch(only_ours, only_theirs, differences);
  return differences;
}

}  // namespace uroce::transport::interop
