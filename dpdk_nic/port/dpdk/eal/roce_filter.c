// Runs in the kernel, on every frame that an interface receives: RoCEv2 goes to the AF_XDP socket
// of the receive queue, everything else (ARP, TCP ...) stays the kernel's.

// The helpers of bpf/ use the types of linux/bpf.h and do not include it.
// clang-format off
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
// clang-format on

enum { kRoceUdpPort = 4791, kMaxQueues = 1024 };

// DPDK's driver looks for a map of this name and enters its socket.
struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, kMaxQueues);
  __type(key, __u32);
  __type(value, __u32);
} xsks_map SEC(".maps");

// Where the UDP header is; 0 if there is none. The transport knows neither IPv4 options nor IPv6
// extension headers.
static __always_inline struct udphdr* find_udp(void* data, void* end) {
  struct ethhdr* ethernet = data;
  struct iphdr* ipv4 = (void*)(ethernet + 1);
  struct ipv6hdr* ipv6 = (void*)(ethernet + 1);
  if ((void*)(ethernet + 1) > end) return 0;
  if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
    const int plain = (void*)(ipv4 + 1) <= end && ipv4->ihl == 5;
    return plain && ipv4->protocol == IPPROTO_UDP ? (void*)(ipv4 + 1) : 0;
  }
  if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
    const int plain = (void*)(ipv6 + 1) <= end;
    return plain && ipv6->nexthdr == IPPROTO_UDP ? (void*)(ipv6 + 1) : 0;
  }
  return 0;
}

SEC("xdp") int uroce_filter(struct xdp_md* frame) {
  void* end = (void*)(long)frame->data_end;
  struct udphdr* udp = find_udp((void*)(long)frame->data, end);
  if (udp == 0 || (void*)(udp + 1) > end) return XDP_PASS;
  if (udp->dest != bpf_htons(kRoceUdpPort)) return XDP_PASS;
  return bpf_redirect_map(&xsks_map, frame->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "Apache-2.0";
