"""A fuzz target: a libFuzzer binary, and a test that replays its corpus."""

load("//tools/bazel:cc.bzl", "UROCE_COPTS", "cc_binary")

def fuzz_target(name, srcs, deps, takes_records = False):
    """Defines NAME_fuzzer and NAME_replay_test; the corpus is in corpus/NAME.

    Args:
      name: of the corpus, and the stem of the targets' names.
      srcs: define LLVMFuzzerTestOneInput.
      deps: of the sources.
      takes_records: the input is a sequence of records and should be mutated as one.
    """
    native.filegroup(
        name = name + "_corpus",
        srcs = native.glob(["corpus/" + name + "/*"]),
    )
    cc_binary(
        name = name + "_fuzzer",
        testonly = True,
        srcs = srcs + (["record_mutator.cc"] if takes_records else []),
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
    native.cc_test(
        name = name + "_replay_test",
        size = "small",
        srcs = srcs + ["replay_main.cc"],
        args = ["$(locations :%s_corpus)" % name],
        copts = UROCE_COPTS,
        data = [":%s_corpus" % name],
        deps = deps,
    )
