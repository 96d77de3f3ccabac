#!/usr/bin/python3
"""The package on other releases of Debian: stock programs of each, as root and as another user.

usage: systems_test.py [unittest's arguments]

Makes the package with tools/package (UROCE_PACKAGE names a tarball that is there already) and root
file systems from the machine's Debian mirror, both in tools/package's cache folder. Needs root.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "packaging"))

import debian_root  # noqa: E402
import package  # noqa: E402
from harness.programs import free_tcp_port, run_pair  # noqa: E402

SUITES = ("bullseye", "bookworm", "trixie", "forky", "sid")
# What a program's image would have: the libraries, the stock programs, and a shell.
PACKAGES = ("base-files", "bash", "coreutils", "ibverbs-providers", "ibverbs-utils", "iproute2",
            "libc-bin", "passwd", "perftest", "rdma-core", "rdmacm-utils", "util-linux", "xz-utils")
USERS = {"root": 0, "nobody": 65534}

# Mounts what a container has, and becomes the user in the root file system.
ENTER = """
root=$1 user=$2
shift 2
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec="$user:$user" "$root" "$@"
"""


def make_package():
    if "UROCE_PACKAGE" in os.environ:
        return os.environ["UROCE_PACKAGE"]
    folder = tempfile.mkdtemp(prefix="uroce-package-")
    atexit.register(shutil.rmtree, folder)
    made = subprocess.run([os.path.join(ROOT, "tools", "package"), "--out", folder], check=True,
                          text=True, stdout=subprocess.PIPE)
    return next(line for line in made.stdout.splitlines() if line.endswith(".tar.xz"))


class System:
    """A suite with the package in it. The two ends of a pair run in the same place."""

    def __init__(self, suite, tarball):
        cache = package.default_cache()
        self.root = debian_root.make(suite, PACKAGES, cache)
        self.uid = 0
        self.fabric = f"systems-test-{suite}-{os.getpid()}"
        self.prefix = "/opt/uroce"
        target = self.root + self.prefix
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        subprocess.run(["tar", "-xf", tarball, "-C", target, "--strip-components=1"], check=True)
        # Where fabrics are found.
        os.chmod(self.root + "/tmp", 0o1777)

    def enter(self, *command):
        return ["unshare", "--mount", "sh", "-ec", ENTER, "sh", self.root, str(self.uid), *command]

    def uroce_run(self, command):
        return [f"{self.prefix}/bin/uroce", "run", "--fabric", self.fabric, "--", *command]

    def command(self, _end, command, _user=None):
        return self.enter(*self.uroce_run(command))


class SystemsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        cls.tarball = make_package()

    def run_in(self, system, *command):
        return subprocess.run(system.enter(*command), check=False, text=True, capture_output=True,
                              timeout=180, cwd="/", env={"PATH": "/usr/bin:/bin:/usr/sbin"})

    def check_suite(self, suite):
        system = System(suite, self.tarball)
        for name, system.uid in USERS.items():
            with self.subTest(suite=suite, user=name):
                self.check_programs(system)

    def check_programs(self, system):
        checked = self.run_in(system, f"{system.prefix}/bin/uroce", "check", "--fabric",
                              system.fabric)
        self.assertEqual(checked.returncode, 0, checked)
        listed = self.run_in(system, *system.uroce_run(["ibv_devinfo", "-v"]))
        self.assertIn("uroce0", listed.stdout, listed)
        port = free_tcp_port()
        for program in (["ibv_rc_pingpong", "-g", "0", "-c", "-p"],
                        ["ibv_ud_pingpong", "-g", "0", "-c", "-p"],
                        ["ibv_srq_pingpong", "-g", "0", "-p"],
                        ["ib_write_bw", "-d", "uroce0", "-x", "0", "-F", "-n", "500", "-p"],
                        ["ib_send_lat", "-d", "uroce0", "-x", "0", "-F", "-n", "500", "-p"]):
            run_pair(system, [*program, str(port)], [*program, str(port), "127.0.0.1"], port)
            port = free_tcp_port()


def add_test(suite):
    def test(self):
        self.check_suite(suite)
    setattr(SystemsTest, f"test_{suite}", test)


for each_suite in SUITES:
    add_test(each_suite)

if __name__ == "__main__":
    unittest.main(verbosity=2)
