#pragma once

#include "transport/counters.h"
#include "transport/endpoint_config.h"
#include "transport/events.h"
#include "transport/ids.h"
#include "transport/memory/memory_table.h"
#include "transport/qp/deadline_queue.h"
#include "transport/qp/path.h"
#include "transport/qp/transmit_schedule.h"
#include "transport/qp_attributes.h"
#include "transport/wire/opcode.h"

namespace uroce::transport {

// What the queue pairs of an endpoint share.
struct QpEnvironment {
  const EndpointConfig& config;
  Counters& counters;
  MemoryTable& memory;
  EventQueue& events;
  DeadlineQueue& deadlines;
  TransmitSchedule& transmits;
};

// What the requester and the responder of one queue pair share: its number, attributes and path.
// Only QueuePair changes it, but for `completion_lost`.
struct QpContext {
  QpEnvironment& environment;
  Qpn qpn;
  QpInitAttributes init;
  // The truth about every attribute: `attributes.state` is the state of the queue pair. The
  // responder counts in rq_psn, the requester in sq_psn.
  QpAttributes& attributes;
  Path path;
  // A completion queue had no room for a completion: the queue pair has to go to ERR.
  bool completion_lost = false;

  Service service() const {
    switch (init.type) {
      case QpType::kUnreliableConnection:
        return Service::kUnreliableConnection;
      case QpType::kUnreliableDatagram:
        return Service::kUnreliableDatagram;
      default:
        return Service::kReliableConnection;
    }
  }
  bool is_reliable() const { return init.type == QpType::kReliableConnection; }
  bool is_datagram() const { return init.type == QpType::kUnreliableDatagram; }
  uint32_t mtu_bytes() const { return Bytes(attributes.path_mtu); }
};

}  // namespace uroce::transport
