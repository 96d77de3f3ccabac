"""Bazel's rules for C++ with our compiler options. Unless a target says otherwise, the rest follows
from its name: library X is X.h and X.cc, program X is X.cc, and so is a test X, which is small and
has GoogleTest's main function if it has none.
"""

UROCE_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-Wconversion",
    "-Wno-sign-conversion",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    # DPDK's own baseline, and what every x86-64 machine since 2009 has; faster paths are chosen at
    # run time.
    "-march=x86-64-v2",
    # Clears and copies small structures with moves. Other tunings use "rep stos", which takes 10 to
    # 20 ns to start: several times a packet.
    "-mtune=skylake-avx512",
]

# For the libraries that a program loads, not for what a test links: no symbol may be replaced by
# one of another library, and the data path must not look for smashed stacks or keep a frame pointer
# (Bazel's default) in each function.
UROCE_PROVIDER_COPTS = [
    "-fno-semantic-interposition",
    "-fno-stack-protector",
    "-fomit-frame-pointer",
    "-fvisibility=hidden",
    "-O3",
] + select({
    "//tools/bazel:instrumented": [],
    "//conditions:default": ["-flto"],
})

# A message runs through some sixty functions in thirty files. The provider compiles these files
# itself: link-time optimisation wants objects that nothing else can be linked with quickly.
# Sanitizers and libFuzzer have no use for it.
#
# Not the files with guarded instructions (transport/guarded_access.h): where g++ 12 inlines an
# `asm goto` with an output into another function, the output may get lost.
UROCE_DATA_PATH_SOURCES = select({
    "//tools/bazel:instrumented": [],
    "//conditions:default": [
        "//dpdk_nic/engine:data_path_sources",
        "//dpdk_nic/port/fabric:data_path_sources",
        "//dpdk_nic/port/ring:data_path_sources",
        "//transport:data_path_sources",
        "//transport/memory:data_path_sources",
        "//transport/qp:data_path_sources",
        "//transport/recovery:data_path_sources",
        "//transport/wire:data_path_sources",
    ],
})

UROCE_PROVIDER_LINKOPTS = select({
    "//tools/bazel:instrumented": [],
    "//conditions:default": ["-flto=auto"],
})

def cc_library(name, copts = [], **kwargs):
    if "srcs" not in kwargs and "hdrs" not in kwargs:
        kwargs["srcs"] = native.glob([name + ".cc"])
        kwargs["hdrs"] = native.glob([name + ".h"])
    native.cc_library(name = name, copts = UROCE_COPTS + copts, **kwargs)

def cc_binary(name, srcs = None, copts = [], **kwargs):
    native.cc_binary(
        name = name,
        srcs = srcs or [name + ".cc"],
        copts = UROCE_COPTS + copts,
        **kwargs
    )

def cc_test(name, srcs = None, copts = [], deps = [], size = "small", **kwargs):
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        copts = UROCE_COPTS + copts,
        deps = deps + ["//tools/bazel/deps:gtest_main"],
        **kwargs
    )

def cc_libraries(libraries, deps = [], **kwargs):
    """Libraries that differ only in their dependencies, name: dependencies; all have `deps`."""
    for name, own in libraries.items():
        cc_library(name = name, deps = deps + own, **kwargs)

def cc_tests(tests, deps = [], **kwargs):
    """Tests that differ only in their dependencies, name: dependencies; all have `deps`."""
    for name, own in tests.items():
        cc_test(name = name, deps = deps + own, **kwargs)
