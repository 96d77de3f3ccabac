// A library that needs libibverbs, for a program that does not.

#include <infiniband/verbs.h>

extern "C" int CountDevices() {
  int count = 0;
  ibv_free_device_list(ibv_get_device_list(&count));
  return count;
}
