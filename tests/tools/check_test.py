#!/usr/bin/python3
"""`uroce check`, and the messages when a container forbids a system call.

usage: check_test.py PATH_OF_UROCE
"""

import ctypes
import os
import struct
import subprocess
import sys
import unittest

UROCE = os.path.abspath(sys.argv[1])

SYSTEM_CALLS = {"memfd_create": 319, "pidfd_open": 434, "madvise": 28}
SUBJECTS = ("machine", "container", "system calls", "shared memory", "limits", "libibverbs",
            "librdmacm", "device", "fabric", "uplink")

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
EPERM = 1

# The kernel lets root pass a limit.
UNPRIVILEGED = (("setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource")
                if os.geteuid() == 0 else ())


def forbid(number):
    """A seccomp filter as containers have it: the system call fails with EPERM."""
    instructions = [(0x20, 0, 0, 0),                    # load the number of the call
                    (0x15, 0, 1, number),               # is it this one?
                    (0x06, 0, 0, 0x00050000 | EPERM),   # return the error
                    (0x06, 0, 0, 0x7fff0000)]           # allow
    code = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *instruction) for instruction in instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        os._exit(99)


class CheckTest(unittest.TestCase):

    def uroce(self, *arguments, forbidden=None, before=()):
        environment = {name: value for name, value in os.environ.items()
                       if name != "LD_PRELOAD" and not name.startswith("UROCE_")}
        fabric = f"check-test-{os.getpid()}-{forbidden or ''}"
        return subprocess.run(
            [*before, UROCE, arguments[0], "--fabric", fabric, *arguments[1:]], check=False,
            text=True, capture_output=True, timeout=120, env=environment,
            preexec_fn=(lambda: forbid(SYSTEM_CALLS[forbidden])) if forbidden else None)

    def findings(self, run):
        lines = run.stdout.splitlines()
        self.assertEqual([line[9:23].strip() for line in lines], list(SUBJECTS), run)
        return dict(zip(SUBJECTS, lines))

    def test_ten_lines_and_no_problem_where_programs_run(self):
        run = self.uroce("check")
        self.assertEqual((run.returncode, run.stderr), (0, ""), run)
        lines = self.findings(run)
        self.assertIn("uroce0 can be opened", lines["device"])
        self.assertIn("private ABI", lines["libibverbs"])
        self.assertRegex(lines["uplink"], "udp, opened when a program names another host|none, the "
                                          "fabric will end at this host")
        self.assertNotIn("PROBLEM", run.stdout)

    def test_forbidden_system_call_is_named_with_advice(self):
        for call in SYSTEM_CALLS:
            run = self.uroce("check", forbidden=call)
            self.assertEqual(run.returncode, 1, run)
            line = self.findings(run)["system calls"]
            self.assertTrue(line.startswith("PROBLEM"), line)
            self.assertIn(call, line)
            self.assertIn("seccomp", line)

    def test_run_names_pidfd_open(self):
        """The uroced that `uroce run` starts has the same filter."""
        run = self.uroce("run", "--", "ibv_devices", forbidden="pidfd_open")
        self.assertEqual(run.returncode, 2, run)
        self.assertIn("pidfd_open", run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)

    def test_few_open_files_are_a_problem(self):
        run = self.uroce("check", before=("sh", "-c", 'ulimit -n 40; exec "$@"', "sh"))
        self.assertEqual(run.returncode, 1, run)
        self.assertIn("ulimit -n 1024", self.findings(run)["limits"])

    def test_files_that_must_be_short_are_a_problem(self):
        before = (*UNPRIVILEGED, "sh", "-c", 'ulimit -f 8; exec "$@"', "sh")
        run = self.uroce("check", before=before)
        self.assertEqual(run.returncode, 1, run)
        self.assertIn("ulimit -f", self.findings(run)["shared memory"])

    def test_mistakes(self):
        for arguments in (("check", "--nonsense"), ("check", "--fabric", "a b")):
            run = self.uroce(*arguments)
            self.assertEqual((run.returncode, run.stdout), (2, ""), run)
            self.assertEqual(run.stderr.count("\n"), 1, run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
