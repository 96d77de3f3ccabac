#pragma once

#include <cstdint>
#include <optional>

namespace uroce::transport {

// The kind of an event for the application. The values of the asynchronous ones are those of enum
// ibv_event_type.
enum class EventType : uint8_t {
  kCqError = 0,
  kQpFatal = 1,
  kQpRequestError = 2,
  kQpAccessError = 3,
  kCommunicationEstablished = 4,
  kSendQueueDrained = 5,
  kPathMigrated = 6,
  kPathMigrationError = 7,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortError = 10,
  kSrqLimitReached = 15,
  kLastWqeReached = 16,
  kGidChange = 18,
  // Not an asynchronous event: an armed completion queue got the completion it waited for.
  kCompletion = 31,
};

// An object events are about: a completion queue, a queue pair, a shared receive queue, or the
// device itself.
class EventSource {
 public:
  explicit EventSource(void* context) : context_(context) {}
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;

  // The caller's pointer; the transport does not interpret it.
  void* context() const { return context_; }
  // Applies to events that were raised but not taken yet, too.
  void set_context(void* context) { context_ = context; }

 private:
  friend class EventQueue;
  void* context_;
  EventSource* next_ = nullptr;
  uint32_t pending_ = 0;  // one bit an EventType
  bool queued_ = false;
};

struct Event {
  EventType type;
  void* context;  // of the source
};

// Events wait here until the engine takes them: the transport makes no callbacks. Nothing is
// allocated: an event is a bit in its source, so raising one again before it was taken is one
// event.
class EventQueue {
 public:
  void Raise(EventSource& source, EventType type);
  // Returns sources in the order of their first event, the events of one source in that of type.
  std::optional<Event> Take();
  // Drops what is pending for `source`, which is about to be destroyed.
  void Forget(EventSource& source);
  bool empty() const { return head_ == nullptr; }

  // Number of armed completion queues: a program may sleep until one of them raises its event.
  uint32_t armed = 0;

 private:
  EventSource* head_ = nullptr;
  EventSource* tail_ = nullptr;
};

}  // namespace uroce::transport
