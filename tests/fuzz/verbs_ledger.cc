#include "tests/fuzz/verbs_ledger.h"

#include <algorithm>

#include "tests/fuzz/require.h"

namespace uroce::transport {

VerbsLedger::Account VerbsLedger::Open(Kind kind) {
  books_.emplace_back().kind = kind;
  return static_cast<Account>(books_.size() - 1);
}

uint64_t VerbsLedger::NextId(Account account) const {
  return uint64_t{account} << kAccountShift | books_[account].posted;
}

void VerbsLedger::OnPosted(Account account, bool signaled, uint64_t bytes) {
  Book& book = books_[account];
  book.entries.push_back({book.posted++, book.recoveries, signaled, bytes});
}

void VerbsLedger::OnCompletion(const Completion& completion) {
  const uint64_t account = completion.wr_id >> kAccountShift;
  UROCE_REQUIRE(account < books_.size());
  Book& book = books_[account];
  const auto number = static_cast<uint32_t>(completion.wr_id);
  const auto found = std::ranges::find(book.entries, number, &Entry::number);
  UROCE_REQUIRE(found != book.entries.end());
  const bool success = completion.status == CompletionStatus::kSuccess;
  const bool is_receive = completion.opcode >= CompletionOpcode::kReceive;
  UROCE_REQUIRE(is_receive == (book.kind != Kind::kSend));

  if (book.kind == Kind::kShared) {  // several queue pairs use it at the same time
    UROCE_REQUIRE(!success || completion.byte_length <= found->bytes ||
                  completion.opcode == CompletionOpcode::kReceiveRdmaWithImmediate);
    book.entries.erase(found);
    return;
  }
  // Earlier requests completed silently, or this completion is out of order.
  UROCE_REQUIRE(
      std::none_of(book.entries.begin(), found, [](const Entry& e) { return e.signaled; }));
  UROCE_REQUIRE(!success || found->signaled);
  if (book.failed_after == found->recoveries) {
    UROCE_REQUIRE(completion.status == CompletionStatus::kFlushed);
  }
  if (!success) book.failed_after = found->recoveries;
  if (success && completion.opcode == CompletionOpcode::kReceive) {
    UROCE_REQUIRE(completion.byte_length <= found->bytes);
  }
  book.entries.erase(book.entries.begin(), found + 1);
}

void VerbsLedger::RequireComplete(Account account) const {
  UROCE_REQUIRE(std::ranges::none_of(books_[account].entries, &Entry::signaled));
}

}  // namespace uroce::transport
