"""Tests that are Python programs. Their first line names the interpreter: Debian's python3, not the
one that is first on PATH."""

_NO_SANITIZER = ["no_asan", "no_tsan"]

def script_test(
        name,
        script = None,
        programs = [],
        args = [],
        data = [],
        size = "small",
        sanitized = True,
        reads_source_tree = False,
        tags = [],
        **kwargs):
    """Test X is X.py unless `script` names another file.

    Args:
      name: of the test.
      script: the file.
      programs: their paths are the first arguments.
      args: further arguments.
      data: more files.
      size: or None, if a timeout is given.
      sanitized: False for a test that puts our libraries into stock programs, which no sanitizer's
          runtime allows, and for a test without a program of ours.
      reads_source_tree: Bazel does not know the tree as an input. Implies `sanitized = False`.
      tags: further tags.
      **kwargs: of sh_test.
    """
    if reads_source_tree:
        tags = tags + ["external"] + _NO_SANITIZER
    elif not sanitized:
        tags = tags + _NO_SANITIZER
    native.sh_test(
        name = name,
        size = size,
        srcs = [script or name + ".py"],
        args = ["$(rootpath %s)" % program for program in programs] + args,
        data = programs + data,
        tags = tags,
        **kwargs
    )
