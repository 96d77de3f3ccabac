// Moves random data between two processes with every operation of a reliable connection, over
// several queue pairs, in both directions at once; both ends verify every byte of their memory and
// every completion.
//
//   mover [OPTIONS] server HOST PORT      (PORT 0: any free one, which is printed)
//   mover [OPTIONS] client HOST PORT
//
// Uses nothing but libibverbs and a TCP socket. The client's seed and sizes apply to both. Prints
// one line that sums up this end's operations, or ends with a sentence and exit status 1.

#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "tests/system/mover/control_channel.h"
#include "tests/system/mover/round_plan.h"
#include "tests/system/mover/session.h"
#include "tests/system/verbs/device.h"

namespace {

constexpr int kExitUsage = 2;

struct Options {
  mover::Workload workload;
  int gid_index = 1;
  uint8_t timeout = 14;  // 67 ms
  uint8_t retry_count = 7;
  uint32_t path_mtu_bytes = 0;  // 0: the largest that the port allows
  bool use_events = false;
};

constexpr option kOptions[] = {{"seed", required_argument, nullptr, 's'},
                               {"queue-pairs", required_argument, nullptr, 'q'},
                               {"rounds", required_argument, nullptr, 'r'},
                               {"operations", required_argument, nullptr, 'o'},
                               {"max-message-bytes", required_argument, nullptr, 'm'},
                               {"arena-bytes", required_argument, nullptr, 'a'},
                               {"gid-index", required_argument, nullptr, 'g'},
                               {"timeout", required_argument, nullptr, 't'},
                               {"retry-count", required_argument, nullptr, 'c'},
                               {"path-mtu", required_argument, nullptr, 'p'},
                               {"receives-in-advance", no_argument, nullptr, 'i'},
                               {"plain", required_argument, nullptr, 'l'},
                               {"events", no_argument, nullptr, 'e'},
                               {nullptr, 0, nullptr, 0}};

// Makes the streams of the client, the server or both plain. Returns whether the word is known.
bool ApplyPlain(std::string_view who, mover::Workload* workload) {
  if (who == "both") {
    workload->is_plain = {true, true};
  } else if (who == "client") {
    workload->is_plain = {true, false};
  } else if (who == "server") {
    workload->is_plain = {false, true};
  } else {
    return false;
  }
  return true;
}

// Returns whether the option is known.
bool Apply(int letter, const char* text, Options* options) {
  const unsigned long long number = text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
  switch (letter) {
    case 's':
      options->workload.seed = number;
      return true;
    case 'q':
      options->workload.queue_pairs = static_cast<uint32_t>(number);
      return true;
    case 'r':
      options->workload.rounds = static_cast<uint32_t>(number);
      return true;
    case 'o':
      options->workload.operations = static_cast<uint32_t>(number);
      return true;
    case 'm':
      options->workload.max_message_bytes = static_cast<uint32_t>(number);
      return true;
    case 'a':
      options->workload.arena_bytes = static_cast<uint32_t>(number);
      return true;
    case 'g':
      options->gid_index = static_cast<int>(number);
      return true;
    case 't':
      options->timeout = static_cast<uint8_t>(number);
      return true;
    case 'c':
      options->retry_count = static_cast<uint8_t>(number);
      return true;
    case 'p':
      options->path_mtu_bytes = static_cast<uint32_t>(number);
      return true;
    case 'i':
      options->workload.receives_in_advance = true;
      return true;
    case 'l':
      return ApplyPlain(text, &options->workload);
    case 'e':
      options->use_events = true;
      return true;
    default:
      return false;
  }
}

ibv_mtu PathMtu(const Options& options, const system_test::Device& device) {
  for (const ibv_mtu mtu : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    if (128u << mtu == options.path_mtu_bytes) return mtu;
  }
  return device.active_mtu();
}

void Run(const Options& options, bool is_client, const std::string& host, const std::string& port) {
  const system_test::Device device(options.gid_index);
  mover::ControlChannel channel = is_client ? mover::ControlChannel::Connect(host, port)
                                            : mover::ControlChannel::Listen(host, port);
  const mover::Workload theirs = channel.Exchange(options.workload);
  const mover::Workload& workload = is_client ? options.workload : theirs;
  mover::Session session(device, &channel, workload,
                         {.is_client = is_client,
                          .use_events = options.use_events,
                          .rc = {.path_mtu = PathMtu(options, device),
                                 .timeout = options.timeout,
                                 .retry_count = options.retry_count}});
  try {
    session.Run();
  } catch (const std::exception& error) {
    throw std::runtime_error("seed " + std::to_string(workload.seed) + ": " + error.what());
  }
  // An end that left now could keep the last acknowledgement from the other.
  channel.Barrier();
  std::printf("mover: seed=%llu queue_pairs=%u rounds=%u %s\n",
              static_cast<unsigned long long>(workload.seed), workload.queue_pairs, workload.rounds,
              session.Summary().c_str());
}

int Usage() {
  std::fprintf(stderr, "usage: mover [OPTIONS] server|client HOST PORT\n");
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int letter;
  while ((letter = getopt_long(argc, argv, "", kOptions, nullptr)) != -1) {
    if (!Apply(letter, optarg, &options)) return Usage();
  }
  if (argc - optind != 3) return Usage();
  const std::string role = argv[optind];
  if (role != "server" && role != "client") return Usage();
  try {
    Run(options, role == "client", argv[optind + 1], argv[optind + 2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mover: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
