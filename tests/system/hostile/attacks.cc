#include "tests/system/hostile/attacks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "tests/dpdk_nic/switch/switch_frames.h"
#include "tests/system/hostile/attacker.h"

namespace uroce::nic {
namespace {

using control::Block;

std::minstd_rand& Random() {
  static std::minstd_rand& random = *new std::minstd_rand(static_cast<unsigned>(getpid()));
  return random;
}
uint64_t Any(uint64_t below) { return Random()() % below; }

void Offers(const Target& target) {
  Attacker attacker(target.fabric);
  while (true) {
    attacker.Offer(target.block);
    attacker.Listen();
    target.round();
  }
}

void Sockets(const Target& target) {
  constexpr size_t kProcesses = 70;
  std::vector<std::unique_ptr<Attacker>> attackers;
  for (size_t i = 0; i < kProcesses; ++i) {
    attackers.push_back(std::make_unique<Attacker>(target.fabric));
    attackers.back()->Offer(target.block);
  }
  const std::vector<uint8_t> flood(1 << 12);
  while (true) {
    for (const auto& attacker : attackers) {
      attacker->Listen();
      while (send(attacker->socket(), flood.data(), flood.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >
             0) {
      }
      if (attacker->IsLinkClosed()) attacker->Offer(target.block);
    }
    target.round();
  }
}

void Holes(const Target& target) {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  Attacker attacker(target.fabric);
  attacker.Offer(target.block);
  bool is_punctual = true;  // every other link gets holes only once it is mapped
  for (uint32_t tries = 0;; ++tries) {
    const RingMemory& memory = *attacker.memory();
    const bool was_sealed = memory.IsSealed();
    const auto offset = static_cast<off_t>(Any(700) * 4'096);
    if (!is_punctual || was_sealed) {
      const bool punched = fallocate(memory.fd(), kPunch, offset, 64 * 4'096) == 0 ||
                           madvise(memory.ring(0).slots + offset, 4'096, MADV_REMOVE) == 0;
      if (punched && was_sealed) target.succeeded("a hole in memory that is in use");
    }
    attacker.Listen();
    target.round();
    if (tries % 100 != 99) continue;
    is_punctual = !is_punctual;
    attacker.Offer(target.block);
  }
}

void WriteAnything(const Ring& ring) {
  for (int i = 0; i < 50; ++i) {
    const auto word = static_cast<uint16_t>(Any(1 << 16));
    memcpy(ring.slot(Any(kSlots)), &word, sizeof word);
    uint8_t* const byte = ring.slot(Any(kSlots)) + Any(kSlotBytes);
    *static_cast<volatile uint8_t*>(byte) = static_cast<uint8_t>(Any(256));
  }
  ring.control->consumer_position.store(Any(8) == 0 ? Any(1 << 30) : Any(4 * kSlots));
  ring.control->consumer_asleep.store(static_cast<uint32_t>(Any(2)));
}

void Garbage(const Target& target, Block to) {
  Attacker attacker(target.fabric);
  attacker.Offer(to);
  while (true) {
    for (const int side : {0, 1}) WriteAnything(attacker.memory()->ring(side));
    send(attacker.socket(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    attacker.Listen();
    target.round();
    if (attacker.IsLinkClosed()) attacker.Offer(to);
  }
}

void Unauthenticated(const Target& target) {
  constexpr size_t kMost = 300;  // more than uroced allows one user
  std::vector<UniqueFd> unauthenticated;
  while (true) {
    if (auto connection = control::ConnectToFabric(target.fabric)) {
      unauthenticated.push_back(std::move(connection->socket));
    }
    if (unauthenticated.size() == kMost)
      unauthenticated.erase(unauthenticated.begin(), unauthenticated.begin() + 100);
    target.round();
  }
}

void Deaf(const Target& target) {
  Attacker attacker(target.fabric);
  while (true) {
    const bool offered = Any(20) == 0 && attacker.Offer(target.block);
    if (!offered && !attacker.Say(control::Resolve{transport::Gid::FromIpv4({10, 0, 0, 9})})) {
      attacker.Listen();  // else a cut-off would go unnoticed
      attacker.AttachAgain();
    }
    target.round();
  }
}

void Contacts(const Target& target) {
  Attacker attacker(target.fabric);
  // The attacker alone writes this ring until uroced maps it, so an ordinary producer works.
  attacker.Offer(control::kSwitchBlock);
  FrameProducer producer(attacker.memory()->ring(0));
  FrameConsumer consumer(attacker.memory()->ring(1));
  while (true) {
    for (uint32_t i = 0; i < kSlots; ++i) {
      const Block to = Any(2) == 0 ? target.block : static_cast<Block>(Any(1'024));
      RoceSpec spec =
          DatagramToWire(QpOf(attacker.block(), 1), QpOf(to, static_cast<uint32_t>(Any(20))));
      const std::vector<uint8_t> frame = spec.Build();
      const std::span<uint8_t> room = producer.Acquire();
      if (room.empty()) break;
      std::copy(frame.begin(), frame.end(), room.begin());
      producer.Commit(frame.size());
    }
    if (producer.ConsumerNeedsWake()) send(attacker.socket(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (!consumer.Receive().empty()) consumer.Release();
    attacker.Listen();
    target.round();
  }
}

[[noreturn]] void LiveUntilKilled(const Target& target) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with its parent, which would have killed it
  if (getppid() == 1) _exit(0);
  Attacker attacker(target.fabric);
  attacker.Offer(target.block);
  FrameProducer producer(attacker.memory()->ring(0));
  while (true) {
    attacker.Listen();
    const std::span<uint8_t> room = producer.Acquire();
    if (room.empty()) continue;
    std::fill_n(room.begin(), 100, static_cast<uint8_t>(Any(256)));
    producer.Commit(1 + Any(4'000));
  }
}

void Deaths(const Target& target) {
  while (true) {
    const pid_t child = fork();
    if (child == 0) LiveUntilKilled(target);
    usleep(static_cast<useconds_t>(Any(5'000)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    target.round();
  }
}

}  // namespace

void Attack(const std::string& name, const Target& target) {
  if (name == "offers") Offers(target);
  if (name == "sockets") Sockets(target);
  if (name == "holes") Holes(target);
  if (name == "garbage") Garbage(target, target.block);
  if (name == "uplink") Garbage(target, control::kSwitchBlock);
  if (name == "unauthenticated") Unauthenticated(target);
  if (name == "deaf") Deaf(target);
  if (name == "contacts") Contacts(target);
  if (name == "deaths") Deaths(target);
  std::fprintf(stderr, "there is no attack '%s'\n", name.c_str());
  _exit(2);
}

}  // namespace uroce::nic
