#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>

#include "verbs_provider/virtual_kernel/device/device_description.h"
#include "verbs_provider/virtual_kernel/device/provider_functions.h"
#include "verbs_provider/virtual_kernel/device/provider_loader.h"
#include "verbs_provider/virtual_kernel/device/virtual_tree.h"

namespace uroce::verbs::virtual_kernel {

// The identity of the one device. The numbers are out of the ranges that the kernel uses, so that
// they cannot meet those of a real device: uverbs minors end at 255 per major, char device majors
// at 511, and RDMA device indices count up from 0.
inline constexpr char kDeviceName[] = "uroce0";
inline constexpr char kDeviceType[] = "uroce";
inline constexpr uint32_t kDeviceIndex = 900'000'900;
inline constexpr char kUverbsName[] = "uverbs900";
inline constexpr unsigned int kUverbsMajor = 4000;
inline constexpr unsigned int kUverbsMinor = 900;
inline constexpr char kRdmaCmName[] = "rdma_cm";
inline constexpr unsigned int kRdmaCmMinor = 901;
inline constexpr uint32_t kRdmaCmAbi = 4;        // RDMA_USER_CM_ABI_VERSION
inline constexpr uint32_t kUverbsClassAbi = 6;   // IB_USER_VERBS_ABI_VERSION
inline constexpr uint32_t kUverbsDeviceAbi = 1;  // between libibverbs and our provider

// The device as the rest of the virtual kernel sees it. Immutable: when the device has changed, the
// next look at it makes a new object. The old one stays in memory, as other threads may still read
// it.
class Device {
 public:
  uroce_device_description description;
  RdmaCmFunctions rdma_cm;
  VirtualTree tree;  // its part of /sys and /dev

  // Takes the place of `older`, if there is one.
  Device(const uroce_device_description& from_provider, const ProviderLibrary& provider,
         uint32_t changes_before, const Device* older);

  const ProviderLibrary& provider() const { return provider_; }
  // Whether the device has changed since it was described.
  bool HasChanged() const { return provider_.device_changes() != changes_; }

 private:
  const ProviderLibrary provider_;
  const uint32_t changes_;
  // Keeps the older object reachable, for leak detectors.
  [[maybe_unused]] const Device* const older_;
};

// The device of this process. The first call loads the provider library and asks it for the
// description; the first call that finds libibverbs in the process makes the provider register with
// it. If that fails (one line on stderr), there is no device and the result is null. Keeps errno.
// Null as well while this thread is loading the provider, and in direct mode until there is a
// libibverbs.
const Device* CurrentDevice();

// The same, described anew if it has changed. For programs that look at it, not for the provider.
const Device* CurrentDeviceAsItIs();

// Whether this process has looked at the device: CurrentDevice() has returned one.
bool DeviceWasSeen();

// To be called before the process ends without its exit handlers, or becomes another program: the
// provider sends what waits. Does nothing in a child that has its parent's memory (vfork).
// Async-signal-safe.
void BeforeEnd();

}  // namespace uroce::verbs::virtual_kernel
