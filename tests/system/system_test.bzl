"""Stock programs and our own over the real wires, as a user starts them: with `uroce run`."""

load("//tools/bazel:script_test.bzl", "script_test")

def system_test(name, script = None, only = [], args = [], data = [], tags = []):
    """A test X is X.py, if `script` does not say otherwise; `only` selects from its cases.

    Each needs both processors of a small machine for itself. The sanitizers' runtimes cannot be
    preloaded into stock programs.
    """
    selection = []
    for case in only:
        selection += ["-k", case]
    script_test(
        name = name,
        script = script,
        args = args + selection,
        data = native.glob(["harness/*.py"]) + [
            "devinfo.golden.txt",
            "//tests/support:rows",
            "//dpdk_nic/port/dpdk:liburoce-dpdk.so",
            "//tests/system/agent",
            "//tests/system/mesh",
            "//tests/system/mover",
            "//tools:lib/support_rows.py",
            "//tools:uroce",
            "//tools:uroced",
            "//verbs_provider:liburoce-provider.so",
            "//verbs_provider/virtual_kernel:liburoce-preload.so",
        ] + data,
        size = None,
        timeout = "long",
        sanitized = False,
        tags = ["exclusive"] + tags,
    )
