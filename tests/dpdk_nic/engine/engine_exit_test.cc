// A program of its own: what runs at exit() depends on what was registered before.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "dpdk_nic/engine/engine.h"
#include "tests/dpdk_nic/engine/scripted_port.h"

namespace uroce::nic {
namespace {

const ScriptedPort* port_at_exit;
const Engine* engine_at_exit;  // never destroyed, as that of a program that leaves its device open
int flushes_before;

// Runs behind what the engine registers.
void TellOfFlush() {
  if (port_at_exit->flushes > flushes_before) std::fputs("flushed at exit", stderr);
}

[[noreturn]] void ExitWithAnEngine() {
  std::atexit(TellOfFlush);
  auto port = std::make_unique<ScriptedPort>();
  port_at_exit = port.get();
  transport::EndpointConfig config;
  config.mac = port->mac();
  config.gids = {transport::Gid::LinkLocal(config.mac)};
  engine_at_exit = new Engine(std::move(port), config, {});
  flushes_before = port_at_exit->flushes;
  std::exit(0);
}

TEST(EngineExitTest, FramesThatWaitAreSentAtExit) {
  EXPECT_EXIT(ExitWithAnEngine(), testing::ExitedWithCode(0), "flushed at exit");
}

}  // namespace
}  // namespace uroce::nic
