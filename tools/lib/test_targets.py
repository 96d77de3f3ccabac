"""The test targets of the BUILD files below tests/, and the cases that each of them runs.

A BUILD file is a program in a part of Python, so Python says what it declares. A script lists its
cases itself, those that the target's arguments select; of a GoogleTest the source is read.
"""

import collections
import dataclasses
import json
import os
import re
import subprocess

TESTS = "tests"
LONG_RUN = "long_run"
LISTER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "list_cases.py")
GTEST_CASE = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Target:
    label: str  # "system:rdmacm_test": below //tests
    sources: tuple  # relative to the root
    arguments: tuple = ()  # of a script
    is_long: bool = False  # only 'tools/test --long' runs it

    @property
    def is_script(self):
        return self.sources[0].endswith(".py")


class _BuildFile(dict):
    """The names in a BUILD file: each is a rule that only records its calls."""

    def __init__(self):
        super().__init__(glob=lambda *_, **__: [], select=lambda *_, **__: [])
        self.calls = []

    def __missing__(self, rule):
        def call(tests=(), *_, **named):
            self.calls.append((rule, {"tests": tests, **named}))
        return call


def _target(package, rule, named):
    name = named["name"]
    if rule == "cc_test":
        sources = named.get("srcs") or [name + ".cc"]
        arguments = ()
    else:
        sources = [named.get("script") or name + ".py"]
        selection = [word for case in named.get("only", ()) for word in ("-k", case)]
        arguments = (*named.get("programs", ()), *named.get("args", ()), *selection)
    paths = tuple(os.path.join(TESTS, package, source) for source in sources)
    return Target(f"{package}:{name}", paths, arguments, LONG_RUN in named.get("tags", ()))


def read_targets(root):
    """The targets by their labels."""
    targets = {}
    for folder, _, files in os.walk(os.path.join(root, TESTS)):
        if "BUILD.bazel" not in files:
            continue
        names = _BuildFile()
        path = os.path.join(folder, "BUILD.bazel")
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), names)  # pylint: disable=exec-used
        package = os.path.relpath(folder, os.path.join(root, TESTS))
        for rule, named in names.calls:
            if rule == "cc_tests":
                found = [_target(package, "cc_test", {"name": name}) for name in named["tests"]]
            elif rule in ("cc_test", "script_test", "system_test"):
                found = [_target(package, rule, named)]
            else:
                continue
            targets.update((target.label, target) for target in found)
    return targets


def read_cases(root, targets):
    """The names of each target's cases, such as 'RdmacmTest.test_iperf3'."""
    cases = collections.defaultdict(set)
    for target in targets:
        paths = [os.path.join(root, source) for source in target.sources]
        if target.is_script:
            command = ["/usr/bin/python3", LISTER, *paths, *target.arguments]
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            cases[target.label].update(json.loads(run.stdout))
            continue
        for path in paths:
            with open(path, encoding="utf-8") as file:
                cases[target.label].update(map(".".join, GTEST_CASE.findall(file.read())))
    return cases
