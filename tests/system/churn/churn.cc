// Makes and ends connections by rdma_cm, with data over each.
//
//   churn server ADDRESS PORT
//   churn client ADDRESS PORT CONNECTIONS AT-ONCE

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tests/system/churn/client.h"
#include "tests/system/churn/server.h"

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool is_server = words.size() == 3 && words[0] == "server";
  const bool is_client = words.size() == 5 && words[0] == "client";
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if ((!is_server && !is_client) || inet_pton(AF_INET, words[1].c_str(), &address.sin_addr) != 1) {
    std::fputs("usage: churn server ADDRESS PORT | client ADDRESS PORT CONNECTIONS AT-ONCE\n",
               stderr);
    return 2;
  }
  address.sin_port = htons(static_cast<uint16_t>(std::stoul(words[2])));
  if (is_server) churn::RunServer(address);
  churn::RunClient(address, static_cast<uint32_t>(std::stoul(words[3])),
                   static_cast<uint32_t>(std::stoul(words[4])));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "churn: %s\n", error.what());
  return 1;
}
