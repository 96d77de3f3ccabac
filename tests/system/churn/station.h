#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace churn {

inline constexpr size_t kMessageBytes = 256;
// Connections of a process at a time.
inline constexpr uint32_t kSlots = 2'048;

// Throws std::runtime_error with errno's text if `ok` is false.
void Require(bool ok, const std::string& what);

// The objects that all connections of a process share: an event channel, one completion queue, and
// memory with a slot for each connection. A slot holds the message to send and the one received.
class Station {
 public:
  Station();
  ~Station();
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  rdma_event_channel* channel() const { return channel_; }

  // Creates a queue pair for an id bound to a device, and posts a receive. Returns the slot.
  uint32_t Open(rdma_cm_id* id);
  // Destroys the queue pair and the id, and frees the slot.
  void Close(rdma_cm_id* id, uint32_t slot);
  // Sends the message of connection `number`, or its answer.
  void Send(rdma_cm_id* id, uint32_t slot, uint32_t number, bool is_answer);
  // Throws if the received message is another one.
  void Check(uint32_t slot, uint32_t number, bool is_answer) const;

  // Waits for events and messages and hands them out; `on_event` need not acknowledge. Throws if a
  // completion has an error other than a flush.
  void Serve(const std::function<void(const rdma_cm_event&)>& on_event,
             const std::function<void(uint32_t slot)>& on_message);

 private:
  void Prepare(ibv_context* device);
  uint8_t* Sent(uint32_t slot) const;
  uint8_t* Received(uint32_t slot) const;
  void TakeEvents(const std::function<void(const rdma_cm_event&)>& on_event);
  void TakeMessages(const std::function<void(uint32_t slot)>& on_message);

  rdma_event_channel* channel_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* region_ = nullptr;
  mutable std::vector<uint8_t> memory_;
  std::vector<uint32_t> free_slots_;
};

}  // namespace churn
