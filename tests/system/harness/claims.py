"""Compares the commands that tests/support/rows claims for a case with those it has started.

Works under Bazel only, for tests that have that file among their data.
"""

import os
import sys

ROWS = os.path.join("tests", "support", "rows")

_started = []


def note_start(command):
    """Notes the command of a program; its words may be inside a shell's line."""
    _started.append({word for argument in command for word in argument.split()})


def forget():
    _started.clear()


def broken(test):
    """A sentence if the case did not start a command that the file claims, with the options that it
    names; else None."""
    target = os.environ.get("TEST_TARGET", "").removeprefix("//tests/")
    if not target or not os.path.exists(ROWS):
        return None
    sys.path.insert(0, os.path.join("tools", "lib"))
    from support_rows import read_rows  # pylint: disable=import-error,import-outside-toplevel
    case = ".".join(test.id().split(".")[-2:])
    for command in sorted(read_rows(".").commands_of(target, case)):
        if not any(words.issuperset(command) for words in _started):
            return f"{case} has not started '{' '.join(command)}': see tests/support/rows"
    return None
