// Undoes what EAL does to a process as a whole. EAL is written for programs of its own; inside an
// application its start must not be noticeable. Each function below takes the place of one that EAL
// would call (`ld --wrap`), or of a library that it would pull into the process.
#include "dpdk_nic/port/dpdk/eal/process_shims.h"

#include <pthread.h>
#include <sys/resource.h>
#include <x86intrin.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

extern "C" int __real_rte_vfio_enable(const char* module);

namespace {

std::atomic<bool> pci_enabled{false};

int64_t MonotonicRawNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

bool uroce::nic::EnablePciAndVfio() {
  pci_enabled = true;
  return __real_rte_vfio_enable("vfio") == 0;
}

extern "C" {

// Raising RLIMIT_NOFILE would change what the application's select() can rely on.
int __wrap_setrlimit(int, const rlimit*) { return 0; }
int __wrap_setrlimit64(int, const rlimit64*) { return 0; }

// The application's affinity is its own, and the threads of EAL inherit it. EAL sees one processor
// only (`-l 0` in eal.cc is then valid in every cpuset), and is not pinned to that one either.
int __wrap_pthread_setaffinity_np(pthread_t, size_t, const cpu_set_t*) { return 0; }
int __wrap_pthread_attr_setaffinity_np(pthread_attr_t*, size_t, const cpu_set_t*) { return 0; }
int __wrap_eal_cpu_detected(unsigned lcore) { return lcore == 0 ? 1 : 0; }

// libbpf's and libxdp's archives can become part of a shared library only if their stderr is, too.
// A stream without functions drops what is written to it.
FILE* __wrap_stderr = fopencookie(nullptr, "w", {});

// openlog() would rename the application in syslog, and stderr is not ours to write to.
void __wrap_openlog(const char*, int, int) {}
void __wrap_closelog() {}
void __wrap_syslog(int, const char*, ...) {}
void __wrap___syslog_chk(int, int, const char*, ...) {}
void __wrap_rte_dump_stack() {}

// If the application itself has librte_eal.so loaded, EAL takes itself for a shared build and would
// load every driver plugin of the system into the process.
int __wrap_eal_plugins_init() { return 0; }

// No other process looks for files of this one.
int __wrap_eal_create_runtime_dir() { return 0; }

// EAL asks for VFIO at every start. See EnablePciAndVfio.
int __wrap_rte_vfio_enable(const char*) { return 0; }
int __wrap_rte_eal_has_pci() { return pci_enabled ? 1 : 0; }

// EAL sleeps 100 ms to measure the TSC; 5 ms are precise to 1e-5, and only driver time-outs
// depend on it.
uint64_t __wrap_get_tsc_freq() {
  const timespec interval{.tv_sec = 0, .tv_nsec = 5'000'000};
  const int64_t start_ns = MonotonicRawNs();
  const uint64_t start_cycles = __rdtsc();
  nanosleep(&interval, nullptr);
  const int64_t elapsed_ns = MonotonicRawNs() - start_ns;
  const uint64_t elapsed_cycles = __rdtsc() - start_cycles;
  return static_cast<uint64_t>(static_cast<double>(elapsed_cycles) * 1e9 /
                               static_cast<double>(elapsed_ns));
}

// libnuma: its constructor would touch the memory policy of the application's thread. EAL treats
// "not available" as a machine with one node, which is right for memory without hugepages.
int numa_available() { return -1; }
void* numa_allocate_nodemask() { return nullptr; }
void numa_bitmask_free(void*) {}
void numa_set_localalloc() {}
void numa_set_preferred(int) {}
long get_mempolicy(int*, unsigned long*, unsigned long, void*, unsigned) {
  errno = ENOSYS;
  return -1;
}
long set_mempolicy(int, const unsigned long*, unsigned long) {
  errno = ENOSYS;
  return -1;
}

// libbsd: two functions are not worth a library in the application's process.
size_t strlcpy(char* destination, const char* source, size_t capacity) {
  const size_t length = strlen(source);
  if (capacity > 0) {
    const size_t copied = length < capacity ? length : capacity - 1;
    memcpy(destination, source, copied);
    destination[copied] = '\0';
  }
  return length;
}
size_t strlcat(char* destination, const char* source, size_t capacity) {
  const size_t used = strnlen(destination, capacity);
  if (used == capacity) return used + strlen(source);
  return used + strlcpy(destination + used, source, capacity - used);
}

}  // extern "C"
