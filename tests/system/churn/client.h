#pragma once

#include <netinet/in.h>

#include <cstdint>

namespace churn {

// Makes `connections` connections, `at_once` at a time: opens as many, sends a message over each
// and checks the answers, and ends them all. Prints "ROUNDS RSS-KIB DESCRIPTORS" after half
// of the rounds and after the last one, then the rate.
void RunClient(const sockaddr_in& address, uint32_t connections, uint32_t at_once);

}  // namespace churn
