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

// The device as the rest of the virtual kernel sees it. Immutable once it exists; when something
// has changed, and somebody looks, another one takes its place. It stays in memory then, as others
// may still be looking at it.
class Device {
 public:
  uroce_device_description description;
  RdmaCmFunctions rdma_cm;
  VirtualTree tree;  // its part of /sys and /dev

  // Takes the place of `older`, if there is one.
  Device(const uroce_device_description& from_provider, const ProviderLibrary& provider,
         uint32_t changes_before, const Device* older);

  const ProviderLibrary& provider() const { return provider_; }
  // Since it was described.
  bool HasChanged() const { return provider_.device_changes() != changes_; }

 private:
  const ProviderLibrary provider_;
  const uint32_t changes_;
  // Says to a detector of leaks that it was not forgotten.
  [[maybe_unused]] const Device* const older_;
};

// The device of this process. The first call loads the provider library and asks it for the
// description, and the first that finds libibverbs in the process has the provider register with
// it. If that fails (one line on stderr), there is no device and the result is null. Keeps errno.
// Null as well while this very thread is loading the provider, and in direct mode until there is a
// libibverbs.
const Device* CurrentDevice();

// The same as it is now. To be called where a program looks at the device, and not by the provider.
const Device* CurrentDeviceAsItIs();

// Whether this process has looked at the device: CurrentDevice() has returned one.
bool DeviceWasSeen();

}  // namespace uroce::verbs::virtual_kernel
