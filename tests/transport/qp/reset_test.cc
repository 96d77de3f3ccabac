// RESET makes a queue pair as new (IBA 10.3.1.1): whatever it did in its first life, it then
// behaves exactly like a fresh one.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/states.h"
#include "tests/packet_scripts/windows.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;

Script::Options OptionsOf(QpType type) {
  return {.type = type,
          .timeout = 8,
          .retry_count = 2,
          .rnr_retry = 2,
          .queue_depth = 12,
          .peer_counts_credits = true};
}

// Records everything visible of a queue pair, one line each.
class Record {
 public:
  explicit Record(Script& script) : script_(script) {}

  void Note(const std::string& what) { lines_.push_back(what); }
  void Inject(const PacketSpec& packet) {
    Note("drop reason " + std::string(Name(script_.Inject(packet))));
    See();
  }
  void See() {
    for (const PacketSpec& packet : script_.TakeSent()) {
      Note("sent " + Describe(packet, packet.payload.size()));
    }
    for (const Completion& c : script_.TakeCompletions()) {
      Note("completion " + std::to_string(c.wr_id) + " status " +
           std::to_string(static_cast<int>(c.status)) + " length " + std::to_string(c.byte_length));
    }
    while (const auto event = script_.endpoint().TakeEvent()) {
      Note("event " + std::to_string(static_cast<int>(event->type)));
    }
    const QpAttributes now = script_.qp().Query();
    Note("state " + std::string(Name(now.state)) + " rq " + std::to_string(now.rq_psn.value()) +
         " sq " + std::to_string(now.sq_psn.value()) + " draining " +
         std::to_string(now.sq_draining) + " mtu " + std::to_string(Bytes(now.path_mtu)) +
         " retries " + std::to_string(now.retry_count) + " access " +
         std::to_string(now.access.bits()) + " qkey " + std::to_string(now.qkey) + " to " +
         std::to_string(now.destination_qpn.value) + " port " + std::to_string(now.port_num));
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  Script& script_;
  std::vector<std::string> lines_;
};

void Exchange(Script& script, Record& record, QpType type) {
  const Psn ours = script.first_psn();
  const Psn peers = script.peers_first_psn();
  for (uint64_t i = 0; i < 6; ++i) script.PostReceive(10 + i, 8'192 + 1'024 * i, 1'024);
  if (type == QpType::kReliableConnection) {
    record.Inject(Send(Position::kOnly, peers + 1));  // a gap
    for (uint64_t i = 0; i < 4; ++i) script.PostRead(30 + i, 0, 8);
    record.See();
    record.Inject(ReadResponse(Position::kOnly, ours + 1)  // the first is lost
                      .With(Pattern(8))
                      .Credits(0));
    for (uint32_t i = 0; i < 4; ++i) {
      record.Inject(ReadResponse(Position::kOnly, ours + i).With(Pattern(8)).Msn(i + 1).Credits(0));
    }
  }
  for (uint64_t i = 0; i < 6; ++i) script.PostSend(20 + i, 0, 8);
  record.See();
  record.Inject(Send(Position::kOnly, peers).With("x"));
  if (type == QpType::kUnreliableDatagram) return;
  record.Inject(Send(Position::kFirst, peers + 1).With(Pattern(kPart)));
  record.Inject(Send(Position::kLast, peers + 2).With("y"));
  record.Inject(Write(Position::kOnly, peers + 3, Script::Address(0), script.rkey(), 1).With("z"));
  if (type == QpType::kUnreliableConnection) return;
  record.Inject(FetchAdd(peers, Script::Address(512), script.rkey(), 1));  // duplicate of no atomic
  record.Inject(Send(Position::kOnly, peers + 6));                         // a gap
  record.Inject(Read(peers + 4, Script::Address(0), script.rkey(), 2 * kPart));
  record.Inject(Ack(ours + 4).Msn(5).Credits(2));
  record.Inject(Nak(ours + 5, NakCode::kPsnSequenceError));
  for (int i = 0; i < 3; ++i) {
    script.Advance(Duration{int64_t{4'096} << 8});
    record.See();
  }
}

// Records the behaviour of a queue pair from RESET on.
std::vector<std::string> Live(Script& script, QpType type) {
  Record record(script);
  record.See();
  record.Inject(Send(Position::kOnly, script.peers_first_psn()));
  record.Inject(Ack(script.first_psn()));
  record.Note("post " + std::to_string(static_cast<int>(script.qp().PostReceive({}))));
  record.Note("post " + std::to_string(static_cast<int>(script.Post({}, 0, 0))));
  script.Connect();
  record.See();
  Exchange(script, record, type);
  return record.lines();
}

// The same for a fresh queue pair that was moved to RESET.
std::vector<std::string> LifeOfAFreshOne(QpType type) {
  Script script(OptionsOf(type));
  EXPECT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
  const auto life = Live(script, type);
  EXPECT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
  return life;
}

struct FirstLife {
  const char* name;
  bool unreliable_too;
  void (*live)(Script& script);
};

const FirstLife kFirstLives[] = {
    {"Idle", true, [](Script&) {}},
    {"QueuesFull", true,
     [](Script& s) {
       s.HoldTransmit();
       for (uint64_t i = 0; i < 6; ++i) s.PostSend(i, 0, 8);
       for (uint64_t i = 0; i < 6; ++i) s.PostReceive(i, 8'192, 64);
     }},
    {"InTheMiddleOfSending", true,
     [](Script& s) {
       s.HoldTransmit();
       s.PostSend(1, 0, 8);
       s.PostSend(2, 0, 8);
       s.TransmitOne();
     }},
    {"InError", true,
     [](Script& s) {
       s.PostReceive(1, 8'192, 64);
       EXPECT_EQ(s.MoveTo(QpState::kError), Status::kOk);
     }},
    {"AFailedSend", true,
     [](Script& s) {
       const ScatterGatherEntry wrong{0, 8, LKey{0}};
       SendWorkRequest request;
       request.sges = {&wrong, 1};
       request.address = &s.peer_address();
       EXPECT_EQ(s.qp().PostSend(request), Status::kOk);
     }},
    {"DrainingWithNotice", true,
     [](Script& s) {
       s.HoldTransmit();
       s.PostSend(1, 0, 2 * kPart);
       s.TransmitOne();
       QpAttributes attributes;
       attributes.state = QpState::kSendQueueDrain;
       attributes.enable_sqd_notify = true;
       EXPECT_EQ(
           s.qp().Modify(attributes, QpAttributeMask::kState | QpAttributeMask::kEnableSqdNotify),
           Status::kOk);
     }},
    {"InTheMiddleOfASend", true,
     [](Script& s) {
       s.PostReceive(1, 8'192, 1'024);
       s.Inject(Send(Position::kFirst, s.peers_first_psn()).With(Pattern(kPart)));
     }},
    {"InTheMiddleOfAWrite", true,
     [](Script& s) {
       s.Inject(Write(Position::kFirst, s.peers_first_psn(), Script::Address(0), s.rkey(), 512)
                    .With(Pattern(kPart)));
     }},
    {"AwaitingAnAck", false, [](Script& s) { s.PostSend(1, 0, 8); }},
    {"RetriesUsed", false,
     [](Script& s) {
       s.PostSend(1, 0, 8);
       s.Advance(Duration{int64_t{4'096} << 9});
     }},
    {"AwaitingAReceiver", false,
     [](Script& s) {
       s.PostSend(1, 0, 8);
       s.Inject(RnrNak(s.first_psn(), 31));
     }},
    {"ReadsOutstanding", false,
     [](Script& s) {
       for (uint64_t i = 0; i < 6; ++i) s.PostRead(i, 0, 8);
     }},
    {"WentBackForALostResponse", false,
     [](Script& s) {
       s.PostRead(1, 0, 8);
       s.PostRead(2, 0, 8);
       s.Inject(ReadResponse(Position::kOnly, s.first_psn() + 1).With(Pattern(8)));
     }},
    {"UnlimitedCredits", false, [](Script& s) { s.Inject(Ack(s.first_psn() - 1)); }},
    {"Refused", false,
     [](Script& s) {
       s.PostReceive(1, 8'192, 64);
       s.Inject(Read(s.peers_first_psn(), 0, RKey{1}, 8));
     }},
    {"RefusedButNotYetSaid", false,
     [](Script& s) {
       s.HoldTransmit();
       s.Inject(Read(s.peers_first_psn(), 0, RKey{1}, 8));
     }},
    {"GapSaid", false, [](Script& s) { s.Inject(Send(Position::kOnly, s.peers_first_psn() + 1)); }},
    {"AnswersWaiting", false,
     [](Script& s) {
       s.HoldTransmit();
       for (uint32_t i = 0; i < 4; ++i) {
         s.Inject(FetchAdd(s.peers_first_psn() + i, Script::Address(512), s.rkey(), 1));
       }
     }},
    {"AtomicsRemembered", false,
     [](Script& s) { s.Inject(FetchAdd(s.peers_first_psn(), Script::Address(512), s.rkey(), 1)); }},
};

using ResetCase = std::pair<QpType, FirstLife>;

class ResetTest : public testing::TestWithParam<ResetCase> {};

TEST_P(ResetTest, TheSecondLifeIsThatOfAFreshOne) {
  const auto& [type, first_life] = GetParam();
  Script script(OptionsOf(type));
  first_life.live(script);
  EXPECT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
  script.TakeSent();  // from before
  script.TakeCompletions();
  script.ReleaseTransmit();
  script.SetWord(512, 0);
  script.ExpectNothingSent();
  script.ExpectNoEvent();  // none of the first life
  EXPECT_EQ(Live(script, type), LifeOfAFreshOne(type));
  EXPECT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
}

std::vector<ResetCase> EveryFirstLife() {
  std::vector<ResetCase> all;
  for (const QpType type : kServices) {
    for (const FirstLife& life : kFirstLives) {
      const bool fits = type == QpType::kReliableConnection || life.unreliable_too;
      if (fits) all.push_back({type, life});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryFirstLife, ResetTest, testing::ValuesIn(EveryFirstLife()),
                         [](const auto& life) {
                           return std::string(Name(life.param.first)) + '_' +
                                  life.param.second.name;
                         });

// A message that RESET interrupted holds no receive request: an event reports a refusal, as if
// there had never been such a message.
TEST(ResetReceiveTest, TheRequestInUseIsForgotten) {
  for (const bool shared : {false, true}) {
    Script script({.shared_receive_queue = shared});
    script.PostReceive(1, 8'192, 1'024);
    script.Inject(Send(Position::kFirst, script.peers_first_psn()).With(Pattern(kPart)));
    EXPECT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
    script.Connect();
    script.Inject(Read(script.peers_first_psn(), 0, RKey{1}, 8));
    script.ExpectSent(Nak(script.peers_first_psn(), NakCode::kRemoteAccessError));
    script.ExpectNoCompletion();
    script.ExpectEvent(EventType::kQpAccessError);
  }
}

// A program that connects again must not get completions of the old connection.
TEST(ResetCompletionsTest, CompletionsOfTheFirstLifeAreDropped) {
  for (const bool shared : {false, true}) {
    Script script({.shared_receive_queue = shared});
    script.HoldCompletions();
    script.PostReceive(1, 8'192, 64);
    script.PostReceive(2, 8'192, 64);
    script.Inject(Send(Position::kOnly, script.peers_first_psn()));
    script.PostSend(3, 0, 8);
    script.Inject(Ack(script.first_psn()));
    EXPECT_FALSE(script.cq().empty());
    EXPECT_EQ(script.MoveTo(QpState::kError), Status::kOk);
    EXPECT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
    EXPECT_TRUE(script.cq().empty());
    script.TakeSent();
    script.ReleaseCompletions();
    script.ExpectNoCompletion();

    script.Connect();
    script.PostReceive(4, 8'192, 64);
    script.Inject(Send(Position::kOnly, script.peers_first_psn()));
    script.ExpectCompletion(shared ? 2 : 4);
    script.TakeSent();
  }
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
