"""How Debian's static DPDK is compiled against and linked into a library of ours."""

DPDK_COPTS = [
    "-isystem/usr/include/dpdk",
    "-isystem/usr/include/x86_64-linux-gnu/dpdk",
    "-includerte_config.h",
    "-DALLOW_EXPERIMENTAL_API",  # linked statically: no ABI to outlive
]

# Drivers register themselves from constructors, hence --whole-archive. Left out on purpose: mlx4
# and mlx5 (need libibverbs, which loads us), pcap and tap (pull D-Bus, systemd or a signal handler
# into the process).
_VIRTUAL_DRIVERS = [
    "net_memif",
    "net_af_packet",
    "net_af_xdp",
    "net_ring",
    "net_null",
]

_NIC_DRIVERS = [
    "net_e1000",
    "net_ixgbe",
    "net_i40e",
    "net_iavf",
    "net_ice",
    "net_virtio",
    "net_vmxnet3",
    "net_ena",
    "net_bnxt",
]

_LIBRARIES = [
    "mempool_ring",
    "mempool_stack",
    "bus_vdev",
    "bus_pci",
    "bus_auxiliary",
    "ethdev",
    "security",
    "cryptodev",
    "mbuf",
    "mempool",
    "stack",
    "net",
    "meter",
    "pci",
    "hash",
    "rcu",
    "ring",
    "timer",
    "telemetry",
    "kvargs",
    "eal",
]

# Needed by net_af_xdp. The archives of libelf and libz cannot become part of a shared library.
_XDP_LINKOPTS = [
    "-l:libxdp.a",
    "-Wl,@$(location :libbpf.lds)",
    "-lelf",
    "-lz",
]

# Functions that the shims in this package replace.
_WRAPPED = [
    "accept",
    "bind",
    "bpf_object__open_file",
    "bpf_xdp_attach",
    "bpf_xdp_detach",
    "bpf_xdp_query_id",
    "close",
    "closelog",
    "eal_cpu_detected",
    "eal_create_runtime_dir",
    "eal_plugins_init",
    "epoll_create",
    "epoll_create1",
    "eventfd",
    "fopen64",
    "get_tsc_freq",
    "ioctl",
    "memfd_create",
    "memif_free_regions",
    "mmap64",
    "open64",
    "openat64",
    "openlog",
    "pipe",
    "poll",
    "pthread_attr_setaffinity_np",
    "pthread_setaffinity_np",
    "read",
    "recvmsg",
    "rte_dump_stack",
    "rte_eal_has_pci",
    "rte_intr_callback_register",
    "rte_vfio_enable",
    "send",
    "sendmsg",
    "setrlimit",
    "setrlimit64",
    "setsockopt",
    "socket",
    "stderr",
    "syslog",
    "__syslog_chk",
    "timerfd_create",
    "write",
    "xsk_umem__create",
    "xsk_umem__delete",
]

# Not in every release: the first are parts of "eal" in older ones, the others of net_iavf and
# net_e1000 in DPDK 25.
RELEASE_LIBRARIES = [
    "argparse",
    "log",
    "common_iavf",
    "net_igc",
]

DPDK_LINKOPTS = (
    ["-Wl,--whole-archive", "-Wl,@$(location :release_libraries.lds)"] +
    ["-l:librte_%s.a" % name for name in _VIRTUAL_DRIVERS + _NIC_DRIVERS + _LIBRARIES] +
    ["-Wl,--no-whole-archive", "-Wl,--exclude-libs,ALL"] +
    _XDP_LINKOPTS +
    ["-Wl,--wrap=" + name for name in _WRAPPED] +
    ["-lpthread", "-ldl", "-lm"]
)
