// The rate of a victim's verbs while a process of its fabric attacks it, relative to the rate
// without: the median of five pairs of measurements. The victim has the first processor, the attack
// and uroced the second: any program can take processor time, so this measures only the work that
// the attack causes in the victim.
//
//   usage: bazel run //tests/system/hostile:hostile_rates [-- ATTACK...]
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "tests/dpdk_nic/engine/engine_host.h"
#include "tests/dpdk_nic/port/fabric/test_fabric.h"
#include "tests/system/hostile/hostile_process.h"

namespace uroce::nic {
namespace {

constexpr int kPairs = 5;
constexpr transport::Duration kTime = transport::Milliseconds(300);
constexpr uint32_t kBytes = 64;

void PinTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

// WRITEs per second of the victim.
double Rate(EngineHost& victim) {
  const transport::Time began = Now();
  uint64_t done = 0;
  while (Now() - began < kTime) {
    size_t posted = 0;
    for (int i = 0; i < 16; ++i) {
      const auto status = victim.Post(transport::SendOpcode::kRdmaWrite, 0, kBytes);
      posted += status == transport::Status::kOk ? 1 : 0;
    }
    done += victim.Poll(posted).size();
  }
  return static_cast<double>(done) * 1e9 / static_cast<double>((Now() - began).ns);
}

double MedianRatio(const std::string& attack) {
  EngineHost victim(TestFabric()), bystander(TestFabric());
  ConnectBoth(victim, bystander, EngineHost::kLongTimeout);
  Rate(victim);  // warms up links and caches
  std::array<double, kPairs> ratios;
  for (double& ratio : ratios) {
    const double quiet = Rate(victim);
    HostileProcess hostile(attack, TestFabric(), transport::BlockOf(victim.info().qpn));
    hostile.PinTo(1);
    if (!hostile.AwaitRounds(20)) return 0;
    ratio = Rate(victim) / quiet;
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[kPairs / 2];
}

}  // namespace
}  // namespace uroce::nic

int main(int argc, char** argv) {
  uroce::nic::HostileProcess::RunIfAsked(argc, argv);
  uroce::nic::PinTo(1);
  uroce::nic::TestFabric();  // starts uroced on processor 1
  uroce::nic::PinTo(0);
  std::vector<std::string> attacks(argv + 1, argv + argc);
  if (attacks.empty()) {
    attacks = {"offers",          "sockets", "holes",    "garbage", "uplink",
               "unauthenticated", "deaf",    "contacts", "deaths"};
  }
  for (const std::string& attack : attacks) {
    std::printf("%-10s %.2f of the rate without it\n", attack.c_str(),
                uroce::nic::MedianRatio(attack));
    std::fflush(stdout);
  }
}
