#!/usr/bin/python3
"""The programs of tests/system/cases: small programs of users, after public bug reports.

Each of their GoogleTest cases is a test of its own here, and a process of its own under
`uroce run`, on a fabric that ends at this host.
"""

import glob
import importlib.util
import os
import re
import subprocess
import unittest

from harness import report
from harness.cases import InstallationTestCase
from harness.programs import Program
from harness.wires import FabricWire

FOLDER = "tests/system/cases"
PROGRAMS = sorted(glob.glob(FOLDER + "/*_cases"))
# Here and not in the installation, as it has a shared library beside it.
MOMENTS = os.path.abspath(FOLDER + "/moments")
PYVERBS_TRAFFIC = os.path.abspath(FOLDER + "/pyverbs_traffic.py")


def names_of(program):
    """The names of the program's GoogleTest cases, as "Suite.Case"."""
    listing = subprocess.run([program, "--gtest_list_tests"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    suite = None
    for line in listing.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            yield suite + name
        elif name.endswith("."):
            suite = name


class CasesTest(InstallationTestCase):
    programs = PROGRAMS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wire = FabricWire(cls.installation, options=["--no-uplink"])

    def output_of(self, *command):
        with Program(self.wire.command(0, command)) as running:
            return running.wait()

    def test_library_has_the_device_from_constructor_to_destructor(self):
        """UCX, NCCL's plugins, lazy statics of Rust."""
        moments = ("constructor", "main", "thread", "key destructor", "atexit", "destructor",
                   "closing")
        self.assertEqual(self.output_of(MOMENTS).splitlines(), [f"{m} works" for m in moments])

    @unittest.skipUnless(importlib.util.find_spec("pyverbs"), "python3-pyverbs is not installed")
    def test_pyverbs_in_threads_and_in_children_of_multiprocessing(self):
        parts = ("process", "threads", "fork", "spawn", "forkserver", "process again")
        self.assertEqual(self.output_of(PYVERBS_TRAFFIC).splitlines(),
                         [f"{part} works" for part in parts])

    def check(self, program, name):
        output = self.output_of(self.installation.path(program), f"--gtest_filter={name}")
        if skipped := re.search(r"Skipped\n(.*)", output):
            self.skipTest(skipped.group(1))
        self.assertIn("[  PASSED  ] 1 test.", output)


def add_tests():
    """Gives CasesTest a method for each case of each program."""
    for program in PROGRAMS:
        theme = os.path.basename(program).removesuffix("_cases")
        for name in names_of(program):
            identifier = re.sub(r"\W", "_", name)
            setattr(CasesTest, f"test_{theme}_{identifier}",
                    lambda self, program=program, name=name: self.check(program, name))


add_tests()

if __name__ == "__main__":
    report.main()
