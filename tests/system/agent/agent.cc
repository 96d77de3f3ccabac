// One end of reliable connections, driven by a test that plays both ends: carries out the commands
// on standard input, one a line. Uses nothing but libibverbs.
//
//   usage: agent [GID-INDEX]
//
//   command                                       answer
//   open                                          NUMBER ADDRESS      (five words)
//   connect NUMBER ADDRESS TIMEOUT RETRY-COUNT    ok
//   write NUMBER VALUE BYTES                      STATUS SECONDS      (of the completion)
//   stream NUMBER                                 streaming, then STATUS SECONDS once it fails
//   count NUMBER VALUE                            leading bytes of the buffer with that value
//   alternate NUMBER GID GID-INDEX TIMEOUT        ok                  (loads a path and rearms)
//   migrate NUMBER                                ok
//   path NUMBER                                   MIGRATION-STATE GID (where packets go)
//   close NUMBER                                  ok
//   close_after NUMBER VALUE BYTES                ok, once the peer has written that
//   join [GROUP GID-INDEX]                        ok                  (a multicast group)
//   leave                                         ok                  (the group)
//   tell VALUE                                    ok                  (to the group)
//   heard VALUE                                   datagrams with that value so far
//   gid INDEX                                     the GID as an IPv6 address, and as in sysfs
//   event                                         number of the next asynchronous event
//   fork exec|exit|reopen                         exit status of the child
//
// A child of "fork reopen" opens the device, writes to its parent, and ends with 0 if the right
// bytes arrived.
//
// The answer to anything else is "error SENTENCE". The agent ends with its input.

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/system/agent/child.h"
#include "tests/system/agent/connection.h"
#include "tests/system/agent/group_member.h"
#include "tests/system/verbs/device.h"
#include "tests/system/verbs/handles.h"

namespace agent {
namespace {

constexpr uint32_t kStreamBytes = 256 << 10;

template <typename T>
T Take(std::istream& words) {
  T value;
  if (!(words >> value)) throw std::runtime_error("an argument is missing or malformed");
  return value;
}

ibv_gid TakeGid(std::istream& words) {
  const auto text = Take<std::string>(words);
  ibv_gid gid{};
  if (text.size() != 2 * sizeof(gid.raw)) throw std::runtime_error("that is no GID");
  for (size_t i = 0; i < sizeof(gid.raw); ++i) {
    gid.raw[i] = static_cast<uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  return gid;
}

Address TakeAddress(std::istream& words) {
  Address address{};
  address.queue_pair.number = Take<uint32_t>(words);
  address.queue_pair.first_psn = Take<uint32_t>(words);
  address.queue_pair.gid = TakeGid(words);
  address.buffer = Take<uint64_t>(words);
  address.rkey = Take<uint32_t>(words);
  return address;
}

uint8_t TakeByte(std::istream& words) { return static_cast<uint8_t>(Take<unsigned>(words)); }

std::string Describe(const Outcome& outcome) {
  const char* status = outcome.status == IBV_WC_SUCCESS         ? "SUCCESS"
                       : outcome.status == IBV_WC_RETRY_EXC_ERR ? "RETRY_EXC_ERR"
                       : outcome.status == IBV_WC_WR_FLUSH_ERR  ? "WR_FLUSH_ERR"
                                                                : "OTHER";
  return std::string(status) + ' ' + std::to_string(outcome.duration.count());
}

void Answer(const std::string& line) { std::cout << line << std::endl; }

class Agent {
 public:
  explicit Agent(int gid_index) : device_(gid_index) {}

  void Obey(const std::string& line) {
    std::istringstream words(line);
    const auto command = Take<std::string>(words);
    if (command == "open") return Open();
    if (command == "fork") return Fork(Take<std::string>(words));
    if (command == "gid") return Gid(Take<int>(words));
    if (command == "event") return Event();
    if (command == "join" || command == "leave" || command == "tell" || command == "heard")
      return Group(command, words);
    const auto number = Take<int>(words);
    if (!connections_.contains(number)) throw std::runtime_error("there is no such connection");
    Connection& connection = *connections_[number];
    if (command == "connect") {
      const Address peer = TakeAddress(words);
      const uint8_t timeout = TakeByte(words);
      const uint8_t retry_count = TakeByte(words);
      connection.Connect(peer, {device_.active_mtu(), timeout, retry_count});
      Answer("ok");
    } else if (command == "write") {
      const uint8_t value = TakeByte(words);
      Answer(Describe(connection.Write(value, Take<uint32_t>(words))));
    } else if (command == "stream") {
      Stream(&connection);
    } else if (command == "count") {
      Answer(std::to_string(connection.CountLeading(TakeByte(words))));
    } else if (command == "alternate") {
      const ibv_gid gid = TakeGid(words);
      const uint8_t gid_index = TakeByte(words);
      connection.queue_pair().LoadAlternatePath(gid, gid_index, TakeByte(words));
      Answer("ok");
    } else if (command == "migrate") {
      connection.queue_pair().Migrate();
      Answer("ok");
    } else if (command == "path") {
      Path(connection.queue_pair().Query());
    } else if (command == "close_after") {
      const uint8_t value = TakeByte(words);
      connection.WaitForLeading(value, Take<uint32_t>(words));
      connections_.erase(number);
      Answer("ok");
    } else if (command == "close") {
      connections_.erase(number);
      Answer("ok");
    } else {
      throw std::runtime_error("there is no such command");
    }
  }

 private:
  void Open() {
    const int number = next_number_++;
    connections_[number] = std::make_unique<Connection>(device_);
    Answer(std::to_string(number) + ' ' + ToString(connections_[number]->address()));
  }

  static std::string ToString(const Address& address) { return agent::ToString(address); }
  static std::string Describe(const Outcome& outcome) { return agent::Describe(outcome); }

  static void Path(const ibv_qp_attr& attributes) {
    constexpr std::array<const char*, 3> kStates = {"MIGRATED", "REARM", "ARMED"};
    Answer(std::string(kStates.at(attributes.path_mig_state)) + ' ' +
           ToText(attributes.ah_attr.grh.dgid));
  }

  static std::string ToText(const ibv_gid& gid) {
    std::array<char, INET6_ADDRSTRLEN> text;
    inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
    return text.data();
  }

  void Gid(int index) {
    ibv_gid gid;
    if (ibv_query_gid(device_.context(), system_test::kPortNumber, index, &gid) != 0) {
      system_test::Fail("ibv_query_gid", errno);
    }
    std::ifstream file(std::string("/sys/class/infiniband/") +
                       ibv_get_device_name(device_.context()->device) + "/ports/1/gids/" +
                       std::to_string(index));
    std::string in_sysfs;
    std::getline(file, in_sysfs);
    Answer(ToText(gid) + ' ' + in_sysfs);
  }

  void Event() {
    ibv_async_event event;
    if (ibv_get_async_event(device_.context(), &event) != 0) {
      system_test::Fail("ibv_get_async_event", errno);
    }
    ibv_ack_async_event(&event);
    Answer(std::to_string(event.event_type));
  }

  void Group(const std::string& command, std::istream& words) {
    if (command == "join") {
      Join(words);
      return Answer("ok");
    }
    if (!group_member_) throw std::runtime_error("join the group first");
    if (command == "leave") {
      group_member_.reset();
      return Answer("ok");
    }
    const uint8_t value = TakeByte(words);
    if (command == "heard") return Answer(std::to_string(group_member_->CountReceived(value)));
    group_member_->Send(value);
    Answer("ok");
  }

  // Joins, by default, an IPv6 group from a link-local address.
  void Join(std::istream& words) {
    std::string text = GroupMember::kDefaultGroup;
    int gid_index = 0;
    words >> text >> gid_index;
    ibv_gid group;
    if (inet_pton(AF_INET6, text.c_str(), group.raw) != 1) {
      throw std::runtime_error("the group is no IPv6 address");
    }
    group_member_.emplace(device_, group, static_cast<uint8_t>(gid_index));
  }

  void Stream(Connection* connection) {
    Outcome outcome = connection->Write(0, kStreamBytes);
    Answer("streaming");
    while (outcome.status == IBV_WC_SUCCESS) outcome = connection->Write(0, kStreamBytes);
    Answer(Describe(outcome));
  }

  // Forks as programs do: the child executes another program, or ends like any process.
  void Fork(const std::string& how) {
    std::cout.flush();
    if (how == "reopen") return Answer(std::to_string(ExchangeWithChild(device_)));
    const pid_t child = fork();
    if (child < 0) system_test::Fail("fork", errno);
    if (child == 0 && how == "exec") {
      execl("/bin/true", "true", nullptr);
      _exit(EXIT_FAILURE);
    }
    if (child == 0) std::exit(EXIT_SUCCESS);  // Runs every destructor and exit handler.
    Answer(std::to_string(ExitStatusOf(child)));
  }

  system_test::Device device_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::optional<GroupMember> group_member_;
  int next_number_ = 0;
};

}  // namespace
}  // namespace agent

int main(int argc, char** argv) {
  try {
    const int fork_error = ibv_fork_init();
    if (fork_error != 0) system_test::Fail("ibv_fork_init", fork_error);
    agent::Agent obedient(argc > 1 ? std::atoi(argv[1]) : 1);
    std::string line;
    while (std::getline(std::cin, line)) {
      try {
        obedient.Obey(line);
      } catch (const std::exception& error) {
        std::cout << "error " << error.what() << std::endl;
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "agent: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
