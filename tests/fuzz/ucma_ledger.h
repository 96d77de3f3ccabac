#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "tests/fuzz/ucma_command.h"
#include "tests/fuzz/ucma_memory.h"

namespace uroce::verbs::rdma_cm {

// The view that an application has of its process: its ids, their files, and how many events it
// got. Each result of a command must agree with it.
class UcmaLedger {
 public:
  // `error`: the errno of write() on `fd`; 0: all bytes were taken.
  void OnCommand(int fd, const UcmaCommand& command, const UcmaMemory& answers, int error);
  // All ids of the file are gone.
  void OnClose(int fd);

  size_t id_count() const { return ids_.size(); }
  // A live id, or any number.
  uint32_t Id(uint8_t choice) const;
  uint32_t Member(uint8_t choice) const;

 private:
  struct KnownId {
    int fd = -1;
    uint64_t uid = 0;
    bool listens = false;
    std::optional<uint32_t> events = 0;  // nullopt: several ids share the uid
  };
  struct KnownMember {
    uint32_t id = 0;
    uint64_t uid = 0;
    uint32_t events = 0;
  };
  struct Outcome {
    int fd;
    const UcmaCommand& command;
    const UcmaMemory& answers;
    int error;

    // DESTROY_ID, LEAVE_MCAST and MIGRATE_ID are done even when their answer cannot be written.
    bool is_done() const;
    template <class Answer>
    Answer Read() const;
  };

  template <class Object>
  static uint32_t Choose(const std::map<uint32_t, Object>& objects, uint8_t choice);
  KnownId& Find(uint32_t number, int fd);

  int LookUp(uint32_t number, int fd) const;
  void RequireFound(const Outcome& outcome) const;
  void RequireMemory(const Outcome& outcome) const;
  void RequireAnswer(const Outcome& outcome) const;
  void Create(const Outcome& outcome);
  void Destroy(const Outcome& outcome);
  void Accept(const Outcome& outcome);
  void Join(const Outcome& outcome);
  void Leave(const Outcome& outcome);
  void Migrate(const Outcome& outcome);
  void TakeEvent(const Outcome& outcome);
  void TakeRequest(int fd, const rdma_ucm_event_resp& event);
  void Erase(uint32_t number);

  std::map<uint32_t, KnownId> ids_;
  std::map<uint32_t, KnownMember> members_;
};

}  // namespace uroce::verbs::rdma_cm
