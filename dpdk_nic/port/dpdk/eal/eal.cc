#include "dpdk_nic/port/dpdk/eal/eal.h"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "dpdk_nic/port/dpdk/eal/descriptor_shims.h"

namespace uroce::nic {
namespace {

// Blocks all signals while it lives, so that threads created meanwhile start with them blocked.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t previous_;
};

ssize_t AppendToLog(void* log, const char* text, size_t bytes) {
  static_cast<LogBuffer*>(log)->Append({text, bytes});
  return static_cast<ssize_t>(bytes);
}

std::vector<std::string> Arguments(const Eal::Options& options) {
  std::vector<std::string> arguments = {
      "uroce",
      options.physical_addresses ? "--iova-mode=pa" : "--iova-mode=va",
      "--no-telemetry",
      "--file-prefix=uroce-" + std::to_string(getpid()),
      "-l",
      "0",
      "--log-level=*:error",
      "--force-max-simd-bitwidth=512",
  };
  if (options.hugepages) {
    arguments.push_back("--in-memory");
  } else {
    arguments.insert(arguments.end(),
                     {"--no-huge", "--no-shconf", "-m", std::to_string(options.memory_mib)});
  }
  return arguments;
}

}  // namespace

ErrorOr<Eal*> Eal::Start(const Options& options) {
  if (InForkedChild()) {
    return Error{
        "DPDK cannot be used in a forked child, as its memory is the parent's; start the "
        "program that is to use it anew"};
  }
  static Eal* instance = new Eal;  // leaked on purpose: DPDK's threads outlive main()
  const MutexLock lock(instance->mutex_);
  if (instance->state_ == State::kNotStarted) {
    AllSignalsBlocked block;
    bool has_started = false;
    std::thread starter([&] {
      pthread_setname_np(pthread_self(), "uroce-eal");
      has_started = instance->Initialize(options);
    });
    starter.join();
    instance->state_ = has_started ? State::kRunning : State::kFailed;
  }
  if (instance->state_ == State::kFailed) {
    return Error{"DPDK could not start in this process: " + instance->log_.LastLines(4) +
                 (options.hugepages ? "; are there hugepages ('sysctl vm.nr_hugepages')?" : "")};
  }
  if (options.physical_addresses && rte_eal_iova_mode() != RTE_IOVA_PA) {
    return Error{
        "DPDK runs with virtual addresses in this process, as a port without need for others was "
        "opened before; start a program of its own for this one"};
  }
  return instance;
}

bool Eal::Initialize(const Options& options) {
  cookie_io_functions_t functions{};
  functions.write = AppendToLog;
  FILE* stream = fopencookie(&log_, "w", functions);
  if (stream == nullptr) return false;
  setvbuf(stream, nullptr, _IOLBF, 0);
  rte_openlog_stream(stream);

  static std::vector<std::string> arguments = Arguments(options);  // EAL keeps pointers into it
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  if (rte_eal_init(static_cast<int>(arguments.size()), argv.data()) >= 0) return true;
  log_.Append(std::string(rte_strerror(rte_errno)) + "\n");
  return false;
}

void Eal::Run(const std::function<void()>& task) {
  const MutexLock lock(mutex_);
  AllSignalsBlocked block;
  task();
}

}  // namespace uroce::nic
