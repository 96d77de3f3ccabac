#!/usr/bin/python3
"""The house rules that a machine can check, over the whole source tree."""

import os
import re
import sys
import unittest

# Bazel starts the test through a link into the source tree, which the test checks.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FOLDERS = ("transport", "dpdk_nic", "verbs_provider", "tests", "tools")

MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70
MAX_LINES = {".cc": 500, ".h": 200}
# The limits are approximate: a file may be longer by this factor before it must be split.
TOLERANCE = 1.1

# Standard headers that would bring a clock, a thread or a file into the protocol.
IMPURE_HEADERS = {
    "chrono", "ctime", "thread", "mutex", "shared_mutex", "condition_variable", "future",
    "semaphore", "stop_token", "filesystem", "fstream", "iostream",
}
# Compiler intrinsics: the ICRC is computed with them.
INTRINSICS = {"immintrin.h", "wmmintrin.h", "nmmintrin.h", "cpuid.h"}

# Rooms, lowest first: a file includes from its own room and from those before it.
ROOM_ORDERS = {
    "transport/": ("wire", "memory", "recovery", "peers", "qp", "cm"),
    "dpdk_nic/": ("base", "link_layer", "port", "port/ring", "port/faults", "port/udp",
                  "port/dpdk/eal", "port/dpdk", "control", "port/fabric", "capture", "steering",
                  "engine", "device", "switch"),
    "verbs_provider/virtual_kernel/": ("base", "device", "uverbs", "files", "netlink", "interpose"),
}

# Written in two parts, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
# Comments that begin with a noun clause, or in which a pronoun stands for a component with a name.
RIDDLE = re.compile(r"^\s*// (What|Who|Whom) "
                    r"|//.*\b([Ww]hoever|[Nn]obody|[Ss]omebody|[Aa]nybody)\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(wo" + r"rk|ro" + r"ot|ho" + r"me)/")


def is_text(path):
    name = os.path.basename(path)
    if os.path.splitext(name)[1] in (".cc", ".h", ".c", ".py", ".bzl", ".sh", ".bazel", ".map"):
        return True
    if "." in name:
        return False
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def source_files():
    """Yields (path relative to the root, lines) of every source file."""
    for folder in FOLDERS:
        for parent, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                path = os.path.join(parent, name)
                if os.path.isfile(path) and is_text(path):
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, ROOT), file.read().splitlines()


def function_lengths(lines):
    """Yields (first line number, length) of each apparent function at namespace scope.

    In Google's format its head starts in column 0 and its closing brace stands alone there.
    """
    start = None
    for number, line in enumerate(lines, 1):
        if start is None:
            opens = re.match(r"[A-Za-z_~\[]", line) and not re.match(
                r"(namespace|class|struct|enum|union|extern|using|public|private|case)\b", line)
            if opens and not line.endswith(";") and not line.endswith("}"):
                start = number
        elif line.startswith("}") or (line.endswith(";") and not line.startswith(" ")):
            if line == "}":
                yield start, number - start + 1
            start = None


class StyleTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.files = list(source_files())

    def check(self, complaints):
        complaints = list(complaints)
        self.assertFalse(complaints, "\n" + "\n".join(complaints))

    def test_the_tree_is_looked_at(self):
        names = {name for name, _ in self.files}
        self.assertIn("tools/cli/main.cc", names)
        self.assertIn("tools/setup", names)
        self.assertIn("transport/psn.h", names)

    def test_lines_fit(self):
        self.check(f"{name}:{number}: {len(line)} columns"
                   for name, lines in self.files
                   for number, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS)

    def test_files_can_be_read_in_one_go(self):
        for name, lines in self.files:
            limit = MAX_LINES.get(os.path.splitext(name)[1])
            with self.subTest(name):
                if limit:
                    self.assertLessEqual(len(lines), limit * TOLERANCE)

    def test_functions_can_be_read_in_one_go(self):
        self.check(f"{name}:{start}: a function of {length} lines"
                   for name, lines in self.files if name.endswith((".cc", ".h"))
                   for start, length in function_lengths(lines) if length > MAX_FUNCTION_LINES)

    def test_headers_are_included_once(self):
        self.check(f"{name}: no #pragma once"
                   for name, lines in self.files
                   if name.endswith(".h") and "#pragma once" not in lines)

    def test_transport_is_pure(self):
        self.check(f"{name}:{number}: includes {target}"
                   for name, lines in self.files if name.startswith("transport/")
                   for number, line in enumerate(lines, 1)
                   for target in re.findall(r'^\s*#\s*include\s*([<"][^>"]+)', line)
                   if not is_pure(target))

    def test_no_include_runs_back_up(self):
        self.check(f"{name}:{number}: includes {line.split()[1]}"
                   for name, lines in self.files
                   for number, line in enumerate(lines, 1) if runs_back_up(name, line))

    def test_nothing_is_left_unfinished(self):
        self.check(f"{name}:{number}: {line.strip()}"
                   for name, lines in self.files
                   for number, line in enumerate(lines, 1) if UNFINISHED.search(line))

    def test_comments_name_the_component(self):
        self.check(f"{name}:{number}: {line.strip()}"
                   for name, lines in self.files if name.endswith((".cc", ".h"))
                   for number, line in enumerate(lines, 1) if RIDDLE.search(line))

    def test_no_path_of_one_machine(self):
        self.check(f"{name}:{number}: {line.strip()}"
                   for name, lines in self.files
                   for number, line in enumerate(lines, 1) if MACHINE_PATH.search(line))


def is_pure(include):
    """Whether transport/ may include it; `include` starts with its quote or angle bracket."""
    target = include[1:]
    if include[0] == '"':
        return target.startswith("transport/")
    return target in INTRINSICS or ("." not in target and "/" not in target
                                    and target not in IMPURE_HEADERS)


def runs_back_up(name, line):
    """Whether `line` of the file `name` includes a file of a room that comes after its own."""
    included = re.match(r'#include "([^"]+)"', line)
    for top, rooms in ROOM_ORDERS.items():
        if included and name.startswith(top) and included.group(1).startswith(top):
            own, other = (os.path.dirname(path[len(top):]) for path in (name, included.group(1)))
            if own in rooms and other in rooms and rooms.index(other) > rooms.index(own):
                return True
    return False


class RulesTest(unittest.TestCase):
    """The rules themselves: each must be able to fail."""

    def test_purity(self):
        for good in ('"transport/psn.h', "<cstdint", "<span", "<immintrin.h"):
            self.assertTrue(is_pure(good), good)
        for bad in ('"dpdk_nic/engine/engine.h', '"psn.h', "<chrono", "<sys/mman.h", "<rte_mbuf.h",
                    "<boost/asio.hpp", "<infiniband/verbs.h", "<unistd.h"):
            self.assertFalse(is_pure(bad), bad)

    def test_order_of_rooms(self):
        self.assertTrue(runs_back_up("dpdk_nic/port/packet_port.h",
                                     '#include "dpdk_nic/engine/engine.h"'))
        self.assertTrue(runs_back_up("dpdk_nic/base/clock.h",
                                     '#include "dpdk_nic/port/frame_tap.h"'))
        for good in ('"dpdk_nic/base/clock.h"', '"dpdk_nic/engine/b.h"', '"transport/time.h"'):
            self.assertFalse(runs_back_up("dpdk_nic/engine/e.cc", f"#include {good}"), good)

    def test_function_lengths(self):
        lines = ["namespace a {", "int F(int a,", "      int b) {", "  if (a) {", "  }", "}", "",
                 "struct S {", "  int x;", "};", "int G();", "void H() { x(); }", "}  // namespace"]
        self.assertEqual(list(function_lengths(lines)), [(2, 5)])

    def test_patterns(self):
        self.assertTrue(UNFINISHED.search("// TO" + "DO: later"))
        self.assertTrue(MACHINE_PATH.search('"/ho' + 'me/someone/x"'))
        self.assertFalse(MACHINE_PATH.search("$HOME/ho" + "me/x"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
