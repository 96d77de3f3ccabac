#pragma once

#include <stdint.h>

// The C interface between the two libraries that are loaded into the application: the virtual
// kernel (liburoce-preload.so) and the provider (liburoce-provider.so). They find each other's
// functions with dlsym, so neither links the other. event_files.h is the other direction.
//
// A process without libibverbs sees the device in netlink and sysfs, too.
//
// Everything that the kernel would show of the device through netlink, sysfs and the GID ioctls
// comes from this description, which the provider fills in once, and again after changes.

enum {
  kUroceMaxGids = 256,
  kUroceMaxPkeys = 128,
};

#ifdef __cplusplus
extern "C" {
#endif

// One row of the GID table; the row's place in the array is its index. All are RoCEv2.
struct uroce_gid {
  uint8_t raw[16];          // network byte order; all zero: the row is empty
  uint32_t netdev_ifindex;  // of the network interface behind it; 0: none
  char netdev_name[16];     // its name; "": none
};

struct uroce_device_description {
  uint32_t struct_bytes;    // sizeof as the virtual kernel was compiled; set by the caller
  uint64_t node_guid;       // host byte order: 0x02aabbfffe000001
  uint64_t sys_image_guid;  // host byte order
  uint8_t mac[6];           // of the port, in transmission order
  uint32_t vendor_id;       // as in ibv_query_device
  uint32_t vendor_part_id;
  char fw_version[64];
  char node_description[64];

  // Port 1, the only one.
  uint8_t port_state;       // ibv_port_state: 4 = ACTIVE
  uint8_t port_phys_state;  // 5 = LinkUp
  uint32_t rate_mbps;       // shown as sysfs 'rate'; SPEED-like attributes derive from it
  uint32_t max_mtu_bytes;   // path MTUs: 256 ... 4096
  uint32_t active_mtu_bytes;
  uint32_t port_cap_flags;  // IBTA PortInfo CapabilityMask, as ibv_port_attr has it

  uint32_t gid_count;  // length of the GID table, empty rows included
  struct uroce_gid gids[kUroceMaxGids];
  uint32_t pkey_count;
  uint16_t pkeys[kUroceMaxPkeys];  // host byte order
};

// Exported by the provider. Fills `description`, which comes zeroed but for struct_bytes. Returns
// 0; EAGAIN when only a registered provider can (uroce_register_provider), because it has to open a
// port that one program at a time can have; or another positive errno value: the device is then not
// shown in this process. Called until it succeeds, on any application thread that looks for RDMA
// devices, even in `ls`; must be quick and must not call libibverbs.
int uroce_describe_device(struct uroce_device_description* description);

// Exported by the provider. Returns how often the device's addresses or the state of its port have
// changed since it was opened. Costs nothing.
uint32_t uroce_device_changes(void);

// Exported by the provider. The file of counter `index`, below ports/1 of the device in sysfs, such
// as "counters/port_xmit_packets"; NULL behind the last one. Costs nothing.
const char* uroce_counter_file(uint32_t index);

// Exported by the provider. Reads a counter: of all processes of the fabric, or in direct mode of
// this one. Returns 0, or a positive errno value. Called on any thread of the application that
// opens the file.
int uroce_read_counter(uint32_t index, uint64_t* value);

// Exported by the provider. Registers it with the libibverbs of this process. Called as soon as
// libibverbs is there, which may be long after the first look at the device, and possibly by two
// threads at once; the first success counts. Takes the dynamic linker's lock. Returns 0, or a
// positive errno value after one line on stderr that says why libibverbs will not find the device.
int uroce_register_provider(void);

// Exported by the provider. Sends the frames that wait for further ones. Called when the process is
// about to end without its exit handlers, or to become another program; also in a signal handler,
// so it waits for no lock longer than a moment.
void uroce_before_end(void);

#ifdef __cplusplus
}  // extern "C"
#endif
