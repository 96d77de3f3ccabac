// Uses libibverbs as NCCL does: not linked, but loaded privately, with look-ups by version.
// Usage: dlopen_client [deepbind|namespace|plugin LIBRARY]

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstdio>
#include <string>

namespace {

// The plugin brings libibverbs in by itself.
int CountByPlugin(const char* plugin) {
  void* library = dlopen(plugin, RTLD_NOW | RTLD_DEEPBIND);
  if (library == nullptr) return 1;
  const auto count = reinterpret_cast<int (*)()>(dlsym(library, "CountDevices"));
  printf("the plugin sees %d\n", count());
  return 0;
}

void* LoadLibibverbs(const std::string& way) {
  constexpr char kFile[] = "libibverbs.so.1";
  if (way == "namespace") return dlmopen(LM_ID_NEWLM, kFile, RTLD_NOW);
  return dlopen(kFile, RTLD_NOW | (way == "deepbind" ? RTLD_DEEPBIND : RTLD_LOCAL));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  if (way == "plugin") return CountByPlugin(argv[2]);
  void* library = LoadLibibverbs(way);
  if (library == nullptr) return 1;
  const auto find = [library](const char* name) { return dlvsym(library, name, "IBVERBS_1.1"); };
  const auto get_list = reinterpret_cast<ibv_device** (*)(int*)>(find("ibv_get_device_list"));
  const auto get_name = reinterpret_cast<const char* (*)(ibv_device*)>(find("ibv_get_device_name"));
  const auto open_device = reinterpret_cast<ibv_context* (*)(ibv_device*)>(find("ibv_open_device"));
  const auto alloc_pd = reinterpret_cast<ibv_pd* (*)(ibv_context*)>(find("ibv_alloc_pd"));
  int count = 0;
  ibv_device** list = get_list(&count);
  if (count != 1) return 1;
  ibv_context* context = open_device(list[0]);
  if (context == nullptr || alloc_pd(context) == nullptr) return 1;
  printf("opened %s\n", get_name(list[0]));
}
