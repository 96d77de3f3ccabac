#include "dpdk_nic/port/udp/receive_batch.h"

namespace uroce::nic {

ReceiveBatch::ReceiveBatch() : slots_(new Slot[kMessages]) {
  for (size_t i = 0; i < kMessages; ++i) {
    Slot& slot = slots_[i];
    slot.vector = {slot.bytes.data(), kMessageBytes};
    headers_[i].msg_hdr.msg_iov = &slot.vector;
    headers_[i].msg_hdr.msg_iovlen = 1;
    headers_[i].msg_hdr.msg_name = &slot.source;
    headers_[i].msg_hdr.msg_control = slot.control.data();
    PrepareHeader(i);
  }
}

// Restores the sizes: the kernel writes into the header how much it used.
void ReceiveBatch::PrepareHeader(size_t index) {
  headers_[index].msg_hdr.msg_namelen = sizeof slots_[index].source;
  headers_[index].msg_hdr.msg_controllen = slots_[index].control.size();
}

int ReceiveBatch::Receive(int fd) {
  for (size_t i = 0; i < count_; ++i) PrepareHeader(i);
  count_ = next_ = 0;
  const int received = recvmmsg(fd, headers_.data(), most_, MSG_DONTWAIT, nullptr);
  most_ = received > 0 ? kMessages : 1;
  if (received > 0) count_ = static_cast<size_t>(received);
  return received;
}

bool ReceiveBatch::Next(Message* message) {
  if (next_ == count_) return false;
  const mmsghdr& header = headers_[next_];
  *message = {&header.msg_hdr, {slots_[next_].bytes.data(), header.msg_len}};
  ++next_;
  return true;
}

}  // namespace uroce::nic
