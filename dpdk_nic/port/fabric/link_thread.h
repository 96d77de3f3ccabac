#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dpdk_nic/base/background_thread.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "transport/route.h"

namespace uroce::nic {

// Does work of FabricLinks that has no place under the engine's lock: allocates, maps and unmaps
// the memory of links (4.9 MB each, up to a millisecond), and logs. It has a thread, which starts
// with the first job.
//
// Called under the engine's lock; nothing here waits for the thread but BeforeFork.
class LinkThread {
 public:
  // kInline: the caller does each job at once, for tests.
  enum class Mode : uint8_t { kThread, kInline };
  explicit LinkThread(Mode mode);
  ~LinkThread();
  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  // Makes one more offer, which TakeMade returns later.
  void Make();
  // Accepts the link of an offer; TakeAccepted returns it later. Replaces an offer by the same
  // route that the thread has not begun to accept. `number` tells the caller which offer it was.
  struct Offered {
    transport::Route route;
    uint32_t number;
    UniqueFd memory;
    UniqueFd socket;
  };
  void Accept(Offered offered);
  void Destroy(std::unique_ptr<RingLink> link);
  // Logs a warning, as nic::Log does.
  void Log(std::string sentence);

  struct Made {
    std::optional<RingLink::Offer> offer;
    int error = 0;  // errno if there is none
  };
  std::optional<Made> TakeMade();
  struct Accepted {
    transport::Route route;
    uint32_t number;
    std::unique_ptr<RingLink> link;
    int error = 0;  // errno if there is none
  };
  std::optional<Accepted> TakeAccepted();
  // Readable when there is something to take; TakeMade and TakeAccepted do not drain it.
  int results_fd() const { return results_.get(); }
  void DrainResultsFd();

  // fork() must not copy descriptors that are in no list yet: BeforeFork waits for the end of the
  // current job and lets none begin until AfterForkInParent.
  void BeforeFork() { working_.lock(); }
  void AfterForkInParent() { working_.unlock(); }
  // In the child: closes all descriptors. Async-signal-safe.
  void AbandonAfterFork();

 private:
  static constexpr size_t kMaxSentences = 16;

  void Submit();
  void Run();
  bool DoOneJob();
  bool MakeOne();
  bool AcceptOne();
  bool DestroyOne();
  bool LogOne();
  void TellResult();

  const Mode mode_;
  UniqueFd results_;
  std::mutex working_;  // held while a job is done
  std::mutex mutex_;    // of what follows
  uint32_t to_make_ = 0;
  std::deque<Offered> to_accept_;
  std::vector<std::unique_ptr<RingLink>> to_destroy_;
  std::deque<std::string> to_log_;
  std::deque<Made> made_;
  std::deque<Accepted> accepted_;

  BackgroundThread thread_;
  bool is_running_ = false;
  std::atomic<bool> stopping_{false};
};

}  // namespace uroce::nic
