#pragma once

namespace uroce::nic {

// From now on EAL sees the PCI bus and VFIO. Until then it believes there is neither, so that a
// process that uses only virtual devices never touches sysfs or /dev/vfio. Returns false if VFIO is
// not there.
bool EnablePciAndVfio();

}  // namespace uroce::nic
