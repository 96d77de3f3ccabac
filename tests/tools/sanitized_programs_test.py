#!/usr/bin/python3
"""Programs that are built with a sanitizer, or run under another tool, have a device as well.

usage: sanitized_programs_test.py PATH_OF_UROCE PATH_OF_LOOPBACK_C
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

UROCE, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])

LIMIT_SECONDS = 240


class SanitizedProgramsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="uroce-sanitized-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def build(self, compiler, *flags):
        if shutil.which(compiler) is None:
            self.skipTest(f"{compiler} is not installed")
        program = os.path.join(self.folder, "-".join((compiler, *flags)).replace("=", "-"))
        if not os.path.exists(program):
            built = subprocess.run([compiler, "-g", "-O1", *flags, "-o", program, SOURCE,
                                    "-libverbs", "-lpthread"], check=False, text=True,
                                   capture_output=True)
            self.assertEqual(built.returncode, 0, built.stderr)
        return program

    def run_under_uroce(self, *command, before=(), inside=()):
        environment = {name: value for name, value in os.environ.items()
                       if name != "LD_PRELOAD" and not name.startswith("UROCE_")}
        return subprocess.run(
            [*before, UROCE, "run", "--fabric", f"sanitized-test-{os.getpid()}", "--", *inside,
             *command],
            check=False, text=True, capture_output=True, timeout=LIMIT_SECONDS, env=environment)

    def check_runs(self, *command, **options):
        run = self.run_under_uroce(*command, **options)
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("arrived", run.stdout)
        return run

    def check_address_sanitizer(self, compiler, *flags):
        program = self.build(compiler, "-fsanitize=address", *flags)
        self.check_runs(program)
        run = self.run_under_uroce(program, "overflow")
        self.assertNotEqual(run.returncode, 0, run)
        self.assertIn("heap-buffer-overflow", run.stderr)

    def test_address_sanitizer_of_gcc(self):
        self.check_address_sanitizer("gcc")

    def test_address_sanitizer_of_clang(self):
        self.check_address_sanitizer("clang")

    def test_undefined_behaviour_sanitizer_of_gcc(self):
        self.check_runs(self.build("gcc", "-fsanitize=undefined"))

    def check_thread_sanitizer(self, compiler):
        # TSan's shadow memory collides with the address randomisation of newer kernels.
        without_randomisation = ("setarch", "-R")
        if subprocess.run([*without_randomisation, "true"], check=False).returncode != 0:
            self.skipTest("'setarch -R' is not allowed here")
        self.check_runs(self.build(compiler, "-fsanitize=thread"), before=without_randomisation)

    def test_thread_sanitizer_of_gcc(self):
        self.check_thread_sanitizer("gcc")

    def test_thread_sanitizer_of_clang(self):
        self.check_thread_sanitizer("clang")

    def check_tool(self, tool, *options):
        if shutil.which(tool) is None:
            self.skipTest(f"{tool} is not installed")
        return self.check_runs(self.build("gcc"), inside=(tool, *options))

    def test_valgrind(self):
        run = self.check_tool("valgrind", "--error-exitcode=99", "--quiet")
        self.assertNotIn("Invalid", run.stderr)

    def test_strace(self):
        self.check_tool("strace", "-f", "-o", "/dev/null")

    def test_gdb(self):
        run = self.check_tool("gdb", "--batch", "-ex", "run", "-ex", "quit", "--args")
        self.assertIn("exited normally", run.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
