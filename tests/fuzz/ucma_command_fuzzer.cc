// Applications of two processes write to /dev/infiniband/rdma_cm in any order: commands as
// librdmacm writes them, commands with wrong lengths, ids and pointers, and any bytes. Meanwhile
// the MADs of the two processes are carried, lost, repeated, spoiled and delayed; time passes,
// files are opened and closed, and addresses of the devices come and go.
//
// Invariants: UcmaLedger allows each result; only the answer is written; a descriptor has a token
// for each event; MADs parse; no deadline lies in the past. When all files are closed no id,
// service or device is left, the ports can be bound again, and the connection managers become idle
// by themselves.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/fuzz/record.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/ucma_command.h"
#include "tests/fuzz/ucma_ledger.h"
#include "tests/fuzz/ucma_memory.h"
#include "tests/fuzz/ucma_process.h"
#include "transport/cm/messages.h"

namespace uroce::verbs::rdma_cm {
namespace {

using transport::Record;
using transport::cm::ConnectionManager;
using transport::cm::OutgoingMad;

constexpr size_t kMaxFiles = 2;  // of a process
constexpr size_t kMaxLateMads = 16;
constexpr uint64_t kBadAddress = 8;
constexpr uint16_t kPorts[] = {7'471, 7'472, 80};  // that commands name

// An application, and what it knows of its process.
struct Application {
  Application(uint8_t number, const transport::Time& now, bool has_wire)
      : process(number, now, has_wire) {}

  UcmaProcess process;
  UcmaLedger ledger;
};

class UcmaFuzz {
 public:
  explicit UcmaFuzz(Record setup);
  void Step(Record record);
  void Finish();

 private:
  static constexpr size_t kApplications = 2;

  struct LateMad {
    size_t from;
    OutgoingMad mad;
  };

  UcmaSurroundings SurroundingsOf(Application& application);
  int FileOf(const Application& application, uint8_t choice) const;
  int Write(Application& application, int fd, const UcmaCommand& command);
  void Run(Application& application, int fd, Record& record, bool is_raw);
  void WriteBadPointer(int fd, Record& record);
  void OpenOrClose(Application& application, uint8_t choice);
  void Exchange(Record& record);
  void Transmit(size_t from, Record& record, uint8_t losses, uint8_t repeats);
  void Deliver(size_t from, const OutgoingMad& mad);
  void PassTime(Record& record);
  void SetFault(Application& application, Record& record);
  void Look();
  void FetchEvents(Application& application);
  void Exit(Application& application);
  void EndConnections(Application& application);
  void RequirePorts(Application& application);

  transport::Time now_{1'000'000'000};
  UcmaMemory commands_;
  UcmaMemory answers_;
  UcmaMemory options_;
  uint64_t last_uid_ = 0;
  bool fetches_at_end_;
  std::array<Application, kApplications> applications_;
  bool exits_;  // the process ends with its files open
  std::vector<LateMad> late_;
};

UcmaFuzz::UcmaFuzz(Record setup)
    : fetches_at_end_(setup.Flag()),
      applications_{Application(1, now_, setup.Flag()), Application(2, now_, setup.Flag())},
      exits_(setup.Flag()) {
  for (Application& application : applications_) application.process.OpenFile();
}

int UcmaFuzz::FileOf(const Application& application, uint8_t choice) const {
  const auto& files = application.process.files();
  return std::next(files.begin(), static_cast<ptrdiff_t>(choice % files.size()))->first;
}

UcmaSurroundings UcmaFuzz::SurroundingsOf(Application& application) {
  return {.id = [&](uint8_t choice) { return application.ledger.Id(choice); },
          .member = [&](uint8_t choice) { return application.ledger.Member(choice); },
          .fd =
              [&](uint8_t choice) {
                if (choice >= 248) return static_cast<int>(choice) - 250;
                if (choice >= 224) return FileOf(applications_[choice % kApplications], 0);
                return FileOf(application, choice);
              },
          .new_uid = [this]() -> uint64_t { return ++last_uid_ % 16 == 0 ? 0 : last_uid_; },
          .answers = &answers_,
          .options = &options_};
}

int UcmaFuzz::Write(Application& application, int fd, const UcmaCommand& command) {
  answers_.Clear();
  const std::vector<uint8_t> bytes = command.Bytes();
  const uint64_t address = commands_.PutLast(bytes);
  const int tokens = UcmaProcess::CountTokens(fd);
  const int error = UcmaProcess::Write(fd, reinterpret_cast<const void*>(address),
                                       bytes.size() + command.missing_bytes);
  application.ledger.OnCommand(fd, command, answers_, error);
  if (command.header.cmd == RDMA_USER_CM_CMD_GET_EVENT) {
    UROCE_REQUIRE(UcmaProcess::CountTokens(fd) == tokens - (error == 0 ? 1 : 0));
    UROCE_REQUIRE(error != EAGAIN || tokens == 0);
  }
  return error;
}

void UcmaFuzz::Run(Application& application, int fd, Record& record, bool is_raw) {
  const UcmaSurroundings around = SurroundingsOf(application);
  (void)Write(application, fd,
              is_raw ? MakeRawUcmaCommand(record, around) : MakeUcmaCommand(record, around));
}

// The whole command is in unmapped memory, or all but its header is.
void UcmaFuzz::WriteBadPointer(int fd, Record& record) {
  const uint32_t number = record.Below(kUcmaCommands);
  const size_t there = record.Flag() ? record.Below(sizeof(rdma_ucm_cmd_hdr) + 1) : 0;
  const uint16_t body_bytes = record.Byte();
  const rdma_ucm_cmd_hdr header{number, body_bytes, UINT16_MAX};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
  const uint64_t address = there == 0 ? kBadAddress : commands_.PutLast({bytes, there});
  const int error =
      UcmaProcess::Write(fd, reinterpret_cast<const void*>(address), sizeof header + body_bytes);
  const bool is_whole = there == sizeof header;
  UROCE_REQUIRE(error == EFAULT || (is_whole && (error == EINVAL || error == ENOSYS)));
}

void UcmaFuzz::OpenOrClose(Application& application, uint8_t choice) {
  UcmaProcess& process = application.process;
  if (process.files().size() < kMaxFiles && (choice & 1) == 0) {
    process.OpenFile();
    return;
  }
  const int fd = FileOf(application, choice >> 1);
  application.ledger.OnClose(fd);
  process.CloseFile(fd);
  if (process.files().empty()) process.OpenFile();
}

void UcmaFuzz::Exchange(Record& record) {
  const uint32_t rounds = 1 + record.Below(4);
  const uint8_t losses = record.Byte();
  const uint8_t repeats = record.Byte();
  const uint8_t untold = record.Byte();  // from 240 on: bits of the agents told later
  for (const LateMad& late : std::exchange(late_, {})) Deliver(late.from, late.mad);
  for (uint32_t i = 0; i < rounds; ++i) {
    for (size_t from = 0; from < kApplications; ++from) Transmit(from, record, losses, repeats);
    for (size_t to = 0; to < kApplications; ++to) {
      const bool is_told = untold < 240 || (untold >> to & 1) == 0;
      if (is_told) applications_[to].process.agent().TakeConnectionEvents();
    }
  }
}

// The bits choose among eight MADs: lost, repeated, or, with both, late.
void UcmaFuzz::Transmit(size_t from, Record& record, uint8_t losses, uint8_t repeats) {
  ConnectionManager& manager = applications_[from].process.manager();
  for (uint32_t i = 0; auto mad = manager.PollTransmit(); ++i) {
    const bool is_lost = (losses >> i % 8 & 1) != 0;
    const bool is_repeated = (repeats >> i % 8 & 1) != 0;
    UROCE_REQUIRE(transport::cm::ParseMessage(mad->mad).malformed ==
                  transport::cm::Malformed::kNone);
    if (is_lost && is_repeated && late_.size() < kMaxLateMads) {
      late_.push_back({from, *mad});
      continue;
    }
    if (is_lost) continue;
    const uint8_t spoiled_at = record.Byte();
    if (spoiled_at != 0) mad->mad[spoiled_at] ^= record.Byte();
    Deliver(from, *mad);
    if (is_repeated) Deliver(from, *mad);
  }
}

void UcmaFuzz::Deliver(size_t from, const OutgoingMad& mad) {
  const auto& gids = applications_[from].process.gids();
  UROCE_REQUIRE(mad.destination.path.source_gid_index < gids.size());
  transport::cm::MadAddress source;
  source.path.destination_gid = gids[mad.destination.path.source_gid_index];
  if (source.path.destination_gid.IsZero()) return;
  for (Application& to : applications_) {
    const auto index = to.process.IndexOf(mad.destination.path.destination_gid);
    if (!index) continue;
    source.path.source_gid_index = *index;
    to.process.manager().OnMad(now_, mad.mad, source);
  }
}

void UcmaFuzz::PassTime(Record& record) {
  const uint8_t kind = record.Byte();
  const size_t whose = record.Below(kApplications);
  const transport::Time next = applications_[whose].process.manager().NextDeadline();
  if (kind < 160 && next != transport::kNever) {
    now_ = std::max(now_, next);
  } else {
    now_ = now_ + transport::Duration{int64_t{1} << kind % 36};
  }
  for (Application& application : applications_) {
    application.process.manager().OnDeadline(now_);
    UROCE_REQUIRE(application.process.manager().NextDeadline() > now_);
    if (kind % 4 != 0) application.process.agent().TakeConnectionEvents();
  }
}

void UcmaFuzz::SetFault(Application& application, Record& record) {
  static constexpr int kReservationErrors[] = {EADDRINUSE, ENOBUFS, ETIMEDOUT, 0};
  if (record.Flag()) {
    application.process.FailNextReservation(record.Pick(kReservationErrors));
  } else {
    application.process.FailNextOpen(record.Flag() ? ENODEV : 0);
  }
}

void UcmaFuzz::Step(Record record) {
  const uint32_t operation = record.Below(32);
  const uint8_t where = record.Byte();
  Application& application = applications_[where % kApplications];
  const int fd = FileOf(application, where >> 1);
  switch (operation) {
    case 0:
    case 1:
      PassTime(record);
      break;
    case 2:
    case 3:
    case 4:
    case 5:
      Exchange(record);
      break;
    case 6:
      OpenOrClose(application, record.Byte());
      break;
    case 7:
      application.process.AddOrRemoveAddress(record.Byte());
      break;
    case 8:
      SetFault(application, record);
      break;
    case 9:
      Run(application, fd, record, /*is_raw=*/true);
      break;
    case 10:
      WriteBadPointer(fd, record);
      break;
    case 11:
      FetchEvents(application);
      break;
    default:
      Run(application, fd, record, /*is_raw=*/false);
  }
  Look();
}

void UcmaFuzz::Look() {
  for (Application& application : applications_) {
    UcmaProcess& process = application.process;
    UROCE_REQUIRE(process.agent().id_count() == application.ledger.id_count());
    UROCE_REQUIRE(process.manager().NextDeadline() > now_);
    for (const auto& [fd, file] : process.files()) {
      UROCE_REQUIRE(process.HasEvent(fd) == (UcmaProcess::CountTokens(fd) > 0));
    }
  }
}

// A file has as many events as tokens.
void UcmaFuzz::FetchEvents(Application& application) {
  const rdma_ucm_get_event body{.response = answers_.begin()};
  UcmaCommand command;
  command.header = {RDMA_USER_CM_CMD_GET_EVENT, sizeof body, sizeof(rdma_ucm_event_resp)};
  command.body.resize(sizeof body);
  std::memcpy(command.body.data(), &body, sizeof body);
  for (const auto& [fd, file] : application.process.files()) {
    const int tokens = UcmaProcess::CountTokens(fd);
    for (int i = 0; i < tokens; ++i) UROCE_REQUIRE(Write(application, fd, command) == 0);
    UROCE_REQUIRE(Write(application, fd, command) == EAGAIN);
  }
}

void UcmaFuzz::Finish() {
  for (Application& application : applications_) {
    UcmaProcess& process = application.process;
    process.FailNextOpen(0);
    process.FailNextReservation(0);
    if (fetches_at_end_) FetchEvents(application);
    if (exits_) Exit(application);
    while (!process.files().empty()) {
      const int fd = process.files().begin()->first;
      application.ledger.OnClose(fd);
      process.CloseFile(fd);
      UROCE_REQUIRE(process.agent().id_count() == application.ledger.id_count());
    }
    UROCE_REQUIRE(process.agent().id_count() == 0);
    UROCE_REQUIRE(!process.has_open_device());
    EndConnections(application);
    RequirePorts(application);
  }
}

void UcmaFuzz::Exit(Application& application) {
  application.process.agent().CloseAll();
  UROCE_REQUIRE(application.process.agent().id_count() == 0);
  for (const auto& [fd, file] : application.process.files()) {
    application.ledger.OnClose(fd);
    UROCE_REQUIRE(UcmaProcess::CountTokens(fd) == 0);
  }
}

void UcmaFuzz::EndConnections(Application& application) {
  ConnectionManager& manager = application.process.manager();
  while (manager.NextDeadline() != transport::kNever) {
    now_ = std::max(now_, manager.NextDeadline());
    manager.OnDeadline(now_);
    while (manager.PollTransmit()) {
    }
  }
  UROCE_REQUIRE(!manager.HasEvent());
  UROCE_REQUIRE(manager.id_count() == 0);
  UROCE_REQUIRE(manager.half_open_count() == 0);
  UROCE_REQUIRE(manager.remote_count() == 0);
}

// No port is still bound: another application can listen to every port.
void UcmaFuzz::RequirePorts(Application& application) {
  Agent& agent = application.process.agent();
  Channel* channel = agent.OpenChannel([](int) {});
  for (const rdma_ucm_port_space space : {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB}) {
    for (const uint16_t port : kPorts) {
      uint32_t number = 0;
      Id* id = nullptr;
      UROCE_REQUIRE(agent.CreateId(*channel, 1, space, kQpTypeRc, number) == 0);
      UROCE_REQUIRE(agent.Find(*channel, number, id) == 0);
      SocketAddress address = AnyAddress(AF_INET);
      address.port = port;
      const int error = agent.Bind(*id, address);
      UROCE_REQUIRE(error == 0 || error == EACCES);
      UROCE_REQUIRE(error != 0 || agent.Listen(*id, 1) == 0);
    }
  }
  agent.CloseChannel(channel);
  UROCE_REQUIRE(application.process.manager().id_count() == 0);
}

}  // namespace
}  // namespace uroce::verbs::rdma_cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::transport::SetUpAndRunSteps<uroce::verbs::rdma_cm::UcmaFuzz>({data, size});
  return 0;
}
