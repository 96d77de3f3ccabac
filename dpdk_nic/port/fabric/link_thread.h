#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dpdk_nic/base/background_thread.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
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
  void BeforeFork() UROCE_ACQUIRE(working_) { working_.lock(); }
  void AfterForkInParent() UROCE_RELEASE(working_) { working_.unlock(); }
  // In the child: closes all descriptors. Async-signal-safe: takes no mutex, as no other thread
  // exists.
  void AbandonAfterFork() UROCE_NO_THREAD_SAFETY_ANALYSIS;

 private:
  static constexpr size_t kMaxSentences = 16;

  void Submit();
  void Run();
  bool DoOneJob();
  bool MakeOne() UROCE_REQUIRES(working_);
  bool AcceptOne() UROCE_REQUIRES(working_);
  bool DestroyOne() UROCE_REQUIRES(working_);
  bool LogOne() UROCE_REQUIRES(working_);
  void TellResult();

  const Mode mode_;
  UniqueFd results_;
  Mutex working_;  // held while a job is done
  Mutex mutex_;
  uint32_t to_make_ UROCE_GUARDED_BY(mutex_) = 0;
  std::deque<Offered> to_accept_ UROCE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<RingLink>> to_destroy_ UROCE_GUARDED_BY(mutex_);
  std::deque<std::string> to_log_ UROCE_GUARDED_BY(mutex_);
  std::deque<Made> made_ UROCE_GUARDED_BY(mutex_);
  std::deque<Accepted> accepted_ UROCE_GUARDED_BY(mutex_);

  BackgroundThread thread_;
  bool is_running_ = false;
  std::atomic<bool> stopping_{false};
};

}  // namespace uroce::nic
