// uroced: the daemon that serves a fabric. Reads its options and hands them on.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "dpdk_nic/base/log.h"
#include "tools/daemon/daemon.h"
#include "tools/daemon/options.h"

namespace uroce::daemon {
namespace {

constexpr int kExitUsage = 2;

// One sentence on stderr, which says what to do.
int Refuse(const std::string& sentence) {
  nic::Log(nic::LogLevel::kError, sentence);
  return kExitUsage;
}

int Main(const std::vector<std::string>& arguments) {
  const auto options = ParseOptions(arguments);
  if (!options.ok()) return Refuse(options.error());
  if (options.value().help) {
    std::fputs(HelpText().c_str(), stdout);
    return 0;
  }
  const auto error = Serve(options.value());
  return error ? Refuse(error->sentence) : 0;
}

}  // namespace
}  // namespace uroce::daemon

int main(int argc, char** argv) {
  uroce::nic::NameLog("uroced", uroce::nic::LogLevel::kInfo);
  try {
    return uroce::daemon::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    return uroce::daemon::Refuse(error.what());
  }
}
