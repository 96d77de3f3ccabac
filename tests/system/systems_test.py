#!/usr/bin/python3
"""The package on other releases of Debian: stock programs of each, as root and as another user, in
namespaces, sandboxes and containers.

usage: systems_test.py [unittest's arguments]

Makes the package with tools/package (UROCE_PACKAGE names a tarball that is there already) and root
file systems from the machine's Debian mirror, both in tools/package's cache folder. Needs root.
"""

import atexit
import functools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "packaging"))

import debian_root  # noqa: E402
import package  # noqa: E402
from harness import images, places  # noqa: E402
from harness.installation import PLACEMENT  # noqa: E402
from harness.programs import free_tcp_port  # noqa: E402

SUITES = ("bullseye", "bookworm", "trixie", "forky", "sid")
# The packages of a typical program's image: the libraries, the stock programs, and a shell.
PACKAGES = ("base-files", "bash", "coreutils", "ibverbs-providers", "ibverbs-utils", "iproute2",
            "libc-bin", "passwd", "perftest", "rdma-core", "rdmacm-utils", "util-linux", "xz-utils")
USERS = {"root": places.ROOT, "nobody": places.NOBODY}
PREFIX = "/opt/uroce"
LIMIT_SECONDS = 600

# Each program against itself. The last argument of `pair` is the port.
PROGRAMS = """
uroce check
[[ $(uroce run -- ibv_devinfo -v) == *uroce0* ]]
pair() {
  uroce run -- "$@" &
  until [[ $(ss -Hltn "sport = :${!#}") ]]; do kill -0 $!; sleep 0.05; done
  uroce run -- "$@" 127.0.0.1
  wait $!
}
pair ibv_rc_pingpong -g 0 -c -p "$1"
pair ibv_ud_pingpong -g 0 -c -p "$2"
pair ibv_srq_pingpong -g 0 -p "$3"
if [[ -e /proc/self ]]; then  # perftest reads the processor's clock rate there
  pair ib_write_bw -d uroce0 -x 0 -F -n 500 -p "$4"
  pair ib_send_lat -d uroce0 -x 0 -F -n 500 -p "$5"
fi
uroce run -- rdma_server -s 127.0.0.1 -p "$6" &
until uroce run -- rdma_client -s 127.0.0.1 -p "$6"; do kill -0 $!; sleep 0.1; done
wait $!
"""
PORTS = 6
# The releases on which our program of FLUSH and ATOMIC WRITE runs, and whether they have FLUSH. It
# is built on this machine, so older C libraries do not load it.
HAS_FLUSH = {"bookworm": "no", "trixie": "yes", "forky": "yes", "sid": "yes"}
PLACEMENT_PROGRAM = "/opt/placement"
PLACEMENT_ROUNDS = "100"


@functools.cache
def make_package():
    if "UROCE_PACKAGE" in os.environ:
        return os.environ["UROCE_PACKAGE"]
    folder = tempfile.mkdtemp(prefix="uroce-package-")
    atexit.register(shutil.rmtree, folder)
    made = subprocess.run([os.path.join(ROOT, "tools", "package"), "--out", folder], check=True,
                          text=True, stdout=subprocess.PIPE)
    return next(line for line in made.stdout.splitlines() if line.endswith(".tar.xz"))


def make_system(suite, tarball):
    """Makes the root file system of a suite, with the package in it."""
    root = debian_root.make(suite, PACKAGES, package.default_cache())
    target = root + PREFIX
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    subprocess.run(["tar", "-xf", tarball, "-C", target, "--strip-components=1"], check=True)
    shutil.copy(PLACEMENT, root + PLACEMENT_PROGRAM)
    # Unprivileged users have their fabrics there.
    os.chmod(root + "/tmp", 0o1777)
    return root


class SystemsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        cls.tarball = make_package()

    def check_suite(self, suite):
        with images.reachable(make_system(suite, self.tarball)) as root:
            for user, uid in USERS.items():
                for place in places.ALL:
                    with self.subTest(suite=suite, user=user, place=place.__name__):
                        if reason := places.why_not(place):
                            self.skipTest(reason)
                        self.check_programs(place, root, uid)
                        if suite in HAS_FLUSH:
                            self.check_placement(place, root, uid, HAS_FLUSH[suite])

    def run_there(self, place, root, uid, command):
        """Runs a command in the place; returns its output."""
        environment = [f"PATH={PREFIX}/bin:/usr/bin:/usr/sbin",
                       f"UROCE_FABRIC=systems-test-{os.getpid()}"]
        with place(root, uid, ["env", "-i", *environment, *command]) as in_place:
            ran = subprocess.run(in_place, check=False, text=True, cwd="/", timeout=LIMIT_SECONDS,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        return ran.stdout

    def check_programs(self, place, root, uid):
        ports = [str(free_tcp_port()) for _ in range(PORTS)]
        self.run_there(place, root, uid, ["bash", "-ec", PROGRAMS, "bash", *ports])

    def check_placement(self, place, root, uid, has_flush):
        output = self.run_there(place, root, uid, ["uroce", "run", "--", PLACEMENT_PROGRAM,
                                                   PLACEMENT_ROUNDS])
        self.assertIn(f"FLUSH: {has_flush}\n", output)
        self.assertIn(f"{PLACEMENT_ROUNDS} rounds\n", output)


class FreshImageTest(unittest.TestCase):
    """The steps of a CI job: the stock libraries by apt, the package, the first ping-pong."""

    # Processor time, as the machine may be busy; with a near mirror the job takes less real time.
    LIMIT_CPU_SECONDS = 10
    JOB = """
    /tmp/install.sh /tmp/uroce.tar.xz
    PATH=/opt/uroce/bin:$PATH
    uroce run -- ibv_rc_pingpong -g 0 -p "$1" &
    until uroce run -- ibv_rc_pingpong -g 0 -p "$1" 127.0.0.1; do kill -0 $!; sleep 0.05; done
    wait $!
    """

    def test_first_pingpong(self):
        if reason := images.why_not():
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "root")
            images.make("bookworm", debian_root.machine_mirror(), root)
            shutil.copy(make_package(), os.path.join(root, "tmp/uroce.tar.xz"))
            shutil.copy(os.path.join(ROOT, "tools/ci/install.sh"), os.path.join(root, "tmp"))
            job = ["env", "-i", "PATH=/usr/sbin:/usr/bin", "UROCE_FABRIC=fresh-image-test", "bash",
                   "-ec", self.JOB, "bash", str(free_tcp_port())]
            began, used = time.monotonic(), cpu_seconds()
            with places.chroot(root, places.ROOT, job) as command:
                ran = subprocess.run(command, check=False, text=True, cwd="/",
                                     timeout=LIMIT_SECONDS, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT)
            used = cpu_seconds() - used
            print(f"first ping-pong after {time.monotonic() - began:.1f} s, {used:.1f} s of CPU")
            self.assertEqual(ran.returncode, 0, ran.stdout)
            self.assertIn("1000 iters", ran.stdout)
            self.assertLess(used, self.LIMIT_CPU_SECONDS)


def cpu_seconds():
    """Processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def add_test(suite):
    def test(self):
        self.check_suite(suite)
    setattr(SystemsTest, f"test_{suite}", test)


for each_suite in SUITES:
    add_test(each_suite)

if __name__ == "__main__":
    unittest.main(verbosity=2)
