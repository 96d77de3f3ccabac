#!/usr/bin/python3
"""tools/install builds and installs uroce on Debian 13, in a bare image, and uroce runs there.

usage: newer_debian_test.py [unittest's arguments]

Downloads half a gigabyte of packages. Needs root.
"""

import os
import subprocess
import sys
import tempfile
import unittest

from harness import images, places
from harness.sources import ROOT, copy_sources

sys.path.insert(0, os.path.join(ROOT, "tools", "packaging"))

import debian_root  # noqa: E402

SUITE = "trixie"
BUILD_AND_RUN = """
cd /src
tools/install --prefix /opt/uroce
export PATH=/opt/uroce/bin:$PATH UROCE_FABRIC=newer-debian-test
uroce check
[[ $(uroce run -- ibv_devinfo) == *uroce0* ]]
[[ $(uroce run --port net_null0 -- ibv_devinfo) == *uroce0* ]]
"""


class NewerDebianTest(unittest.TestCase):

    def test_installed_programs_run(self):
        if reason := images.why_not():
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "root")
            images.make(SUITE, debian_root.machine_mirror(), root)
            copy_sources(os.path.join(root, "src"))
            environment = ["env", "-i", "PATH=/usr/sbin:/usr/bin", "HOME=/root", "LC_ALL=C.UTF-8"]
            with places.chroot(root, places.ROOT,
                               [*environment, "bash", "-ec", BUILD_AND_RUN]) as command:
                built = subprocess.run(command, check=False, text=True, cwd="/", errors="replace",
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(built.returncode, 0, built.stdout[-10_000:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
