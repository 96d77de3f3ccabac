// A program of its own: the order of handlers at exit() depends on all that were registered before.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "dpdk_nic/engine/engine.h"
#include "tests/dpdk_nic/engine/scripted_port.h"

namespace uroce::nic {
namespace {

const ScriptedPort* port_at_exit;
Engine* engine_at_exit;  // never destroyed, as in a program that leaves its device open
int flushes_before;

// The tests register these handlers before the engine registers its own, so they run after it.
void TellOfFlush() {
  const bool has_flushed = port_at_exit->flushes > flushes_before;
  std::fputs(has_flushed ? "flushed at exit" : "not flushed", stderr);
}

void UseEngine() {
  const Engine::Verb verb(*engine_at_exit);
  std::fputs(", then used", stderr);
}

void OpenEngine() {
  std::atexit(TellOfFlush);
  auto port = std::make_unique<ScriptedPort>();
  port_at_exit = port.get();
  transport::EndpointConfig config;
  config.mac = port->mac();
  config.gids = {transport::Gid::LinkLocal(config.mac)};
  engine_at_exit = new Engine(std::move(port), config, {});
  flushes_before = port_at_exit->flushes;
}

[[noreturn]] void ExitWithAnEngine() {
  std::atexit(UseEngine);
  OpenEngine();
  std::exit(0);
}

[[noreturn]] void ExitQuicklyWithAnEngine() {
  at_quick_exit(TellOfFlush);
  OpenEngine();
  std::quick_exit(0);
}

[[noreturn]] void ExitInAVerb() {
  OpenEngine();
  const Engine::Verb verb(*engine_at_exit);
  flushes_before = port_at_exit->flushes;
  std::exit(0);
}

// The other thread leaves the engine while the exit handlers run, as a progress thread does after
// its pass.
[[noreturn]] void ExitDuringAVerbOfAnotherThread() {
  static std::atomic<bool> has_begun{false}, is_exiting{false};
  OpenEngine();
  std::thread([] {
    const Engine::Verb verb(*engine_at_exit);
    flushes_before = port_at_exit->flushes;
    has_begun = true;
    while (!is_exiting) sched_yield();
    usleep(1'000);
  }).detach();
  while (!has_begun) sched_yield();
  std::atexit([] { is_exiting = true; });
  std::exit(0);
}

// The port belongs to the parent, which exits without its handlers.
[[noreturn]] void ExitInAForkedChild() {
  OpenEngine();
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = -1;
  waitpid(child, &status, 0);
  _exit(status == 0 ? 0 : 1);
}

TEST(EngineExitTest, FramesThatWaitAreSentAtExit) {
  EXPECT_EXIT(ExitWithAnEngine(), testing::ExitedWithCode(0), "^flushed at exit, then used");
}

TEST(EngineExitTest, FramesThatWaitAreSentAtQuickExit) {
  EXPECT_EXIT(ExitQuicklyWithAnEngine(), testing::ExitedWithCode(0), "^flushed at exit");
}

TEST(EngineExitTest, ExitDoesNotWaitForAVerb) {
  EXPECT_EXIT(ExitInAVerb(), testing::ExitedWithCode(0), "^not flushed");
}

TEST(EngineExitTest, FramesAreSentAfterAnotherThreadsVerb) {
  EXPECT_EXIT(ExitDuringAVerbOfAnotherThread(), testing::ExitedWithCode(0), "^flushed at exit");
}

TEST(EngineExitTest, ForkedChildSendsNothingAtExit) {
  EXPECT_EXIT(ExitInAForkedChild(), testing::ExitedWithCode(0), "^not flushed");
}

}  // namespace
}  // namespace uroce::nic
