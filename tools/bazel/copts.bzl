"""Compiler options that every target of ours is built with."""

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
]
