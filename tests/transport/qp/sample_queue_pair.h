#pragma once

#include <array>
#include <memory>
#include <string>

#include "transport/endpoint.h"

namespace uroce::transport {

// Two sets of attributes that differ in every field with two valid values here.
enum class Sample { kFirst, kSecond };
QpAttributes AttributesOf(Sample sample);

// Every field that ibv_query_qp shows, as text: equal texts mean equal attributes.
std::string Describe(const QpAttributes& attributes);

// An endpoint with one queue pair that was taken to a state with the first sample.
class SampleQueuePair {
 public:
  SampleQueuePair(QpType type, QpState state, uint32_t port_mtu = EndpointConfig().port_mtu);
  ~SampleQueuePair();

  QueuePair& operator*() { return *qp_; }
  QueuePair* operator->() { return qp_; }
  std::string Query() const { return Describe(qp_->Query()); }
  Endpoint& endpoint() { return endpoint_; }

  // Sets kState and the attributes of `mask`.
  Status Modify(QpAttributes attributes, QpState to, uint32_t mask);

 private:
  void ClimbTo(QpState state);
  void FailASend();

  QpType type_;
  Endpoint endpoint_;
  std::unique_ptr<CompletionQueue> cq_;
  QueuePair* qp_ = nullptr;
};

}  // namespace uroce::transport
