// Ids and event channels of rdma_cm that destroy themselves.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace uroce::verbs::testing {

struct IdDestroyer {
  void operator()(rdma_cm_id* id) const;
};
using CmId = std::unique_ptr<rdma_cm_id, IdDestroyer>;

// An event after its acknowledgement.
struct CmEvent {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  uint32_t qp_num;
  std::vector<uint8_t> private_data;
};

class EventChannel {
 public:
  EventChannel();
  ~EventChannel();
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  CmId CreateId();
  // The next event, however long it takes; a failed expectation after a minute.
  CmEvent Next();
  // Expects that the next event is `type`.
  CmEvent Expect(rdma_cm_event_type type);
  bool IsQuiet() const;
  // An id that listens at `address` on a port of its own.
  CmId Listen(const char* address = "0.0.0.0");
  // Resolves 127.0.0.1 and the route to it.
  void Resolve(rdma_cm_id* id, uint16_t port);

 private:
  rdma_event_channel* channel_;
};

sockaddr_in Ipv4(const char* address, uint16_t port);
inline sockaddr* Generic(sockaddr_in* address) { return reinterpret_cast<sockaddr*>(address); }
uint16_t SourcePort(rdma_cm_id* id);

// With retries for ever, and one READ at a time.
rdma_conn_param Parameters();
// Creates an RC queue pair with 16 requests of one piece each way, and queues of its own.
void CreateQueuePair(rdma_cm_id* id);

}  // namespace uroce::verbs::testing
