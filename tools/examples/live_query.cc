// Shows what ibv_query_qp reports of a queue pair while it works, and when its peer falls silent.
//
//   live_query [--device NAME] [--gid-index N] server HOST PORT     (PORT 0: any free one)
//   live_query [--device NAME] [--gid-index N] client HOST PORT
//
// Uses nothing but libibverbs and a TCP socket, so it runs over any RoCE device. The client does
// the talking and the checking; it exits with 0 only if everything was as the specification
// promises.

#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tools/examples/client.h"
#include "tools/examples/control_channel.h"
#include "tools/examples/rc_connection.h"
#include "tools/examples/server.h"

namespace {

constexpr int kExitUsage = 2;

int Usage() {
  std::fprintf(stderr,
               "usage: live_query [--device NAME] [--gid-index N] server|client HOST PORT\n");
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  std::string device_name;
  int gid_index = 0;
  const option options[] = {{"device", required_argument, nullptr, 'd'},
                            {"gid-index", required_argument, nullptr, 'g'},
                            {nullptr, 0, nullptr, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "d:g:", options, nullptr)) != -1) {
    if (option == 'd') {
      device_name = optarg;
    } else if (option == 'g') {
      gid_index = std::atoi(optarg);
    } else {
      return Usage();
    }
  }
  if (argc - optind != 3) return Usage();
  const std::string role = argv[optind];
  if (role != "server" && role != "client") return Usage();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // A reader of a pipe sees each line at once.

  try {
    const live_query::Device device(device_name, gid_index);
    if (role == "server") {
      live_query::Serve(device,
                        live_query::ControlChannel::Listen(argv[optind + 1], argv[optind + 2]));
    } else {
      live_query::RunClient(
          device, live_query::ControlChannel::Connect(argv[optind + 1], argv[optind + 2]));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "live_query: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
