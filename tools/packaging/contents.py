"""The contents of the package: which of Bazel's files, and where each is put."""

# The files that are installed below the prefix, and their places below bazel-bin.
PROGRAMS = {
    "bin/uroce": "tools/uroce",
    "bin/uroced": "tools/uroced",
    "lib/uroce/liburoce-preload.so": "verbs_provider/virtual_kernel/liburoce-preload.so",
    "lib/uroce/liburoce-provider.so": "verbs_provider/liburoce-provider.so",
}
# Contains the DPDK of one release of one system: only in a package for the machine it was built on.
DPDK_LIBRARY = {
    "lib/uroce/liburoce-dpdk.so": "dpdk_nic/port/dpdk/liburoce-dpdk.so",
}

# Texts for package managers.
SUGGESTS = "ibverbs-utils, perftest"
SUMMARY = "software RDMA NIC in userspace"
TEXT = """Gives unmodified programs that use libibverbs or librdmacm an RDMA device
'uroce0' on a machine that has no RDMA hardware and no RDMA in its kernel. No
kernel module, no root, nothing to set up: 'uroce run -- ibv_devinfo'."""
DPDK_SUMMARY = "DPDK ports for uroce"
DPDK_TEXT = """Direct mode of uroce by DPDK ports: PCI NICs, af_packet, af_xdp and memif, as
in 'uroce run --port net_af_packet0,iface=eth1 -- ibv_devinfo'."""

# Files of the source tree. Manual pages are made of pages of the documentation (manual.py), and
# compressed.
DOCUMENTS = {
    "share/bash-completion/completions/uroce": "tools/packaging/completion/uroce",
    "share/doc/uroce/LICENSE": "LICENSE",
    "share/doc/uroce/copyright": "tools/packaging/copyright",
    "share/man/man1/uroce.1.gz": "tools/docs/options.md",
    "share/man/man7/uroce-faults.7.gz": "tools/docs/faults.md",
    "share/man/man8/uroced.8.gz": "tools/docs/uroced.md",
    "share/uroce/uroce.lua": "tools/wireshark/uroce.lua",
}

# Bazel's targets whose graph makes PROGRAMS.
TARGETS = ("//tools:uroce", "//tools:uroced")

# Source folders that they are compiled from.
SOURCE_FOLDERS = ("dpdk_nic", "tools", "transport", "verbs_provider")

# The only libraries that may be needed: those of libc.
LIBC = ("ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0",
        "librt.so.1")
# The newest version of glibc that may be needed.
BASELINE_GLIBC = (2, 28)
