"""Tests that are Python programs. They run by their first line, which names Debian's python3 and
not one that is first on PATH."""

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
    """Test X is X.py where nothing else is said.

    Args:
      name: of the test.
      script: the file.
      programs: their paths are the first arguments.
      args: more of them.
      data: more files.
      size: or None, if a timeout is given.
      sanitized: False for what puts our libraries into stock programs, which no sanitizer's runtime
          allows, and for what has no program of ours in it.
      reads_source_tree: which Bazel does not know as an input. Implies that it is not sanitized.
      tags: more of them.
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
