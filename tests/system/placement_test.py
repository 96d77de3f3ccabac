#!/usr/bin/python3
"""ATOMIC WRITE between two processes, which the libibverbs of this release has. FLUSH came with the
next release, on which systems_test.py runs the same program."""

import subprocess

from harness import report
from harness.cases import InstallationTestCase
from harness.installation import PLACEMENT
from harness.wires import FabricWire

ROUNDS = "300"
LIMIT_SECONDS = 300


class PlacementTest(InstallationTestCase):
    programs = [PLACEMENT]

    def run_program(self, *options):
        wire = FabricWire(self.installation, options=options)
        ran = subprocess.run(wire.command(0, [self.installation.path(PLACEMENT), ROUNDS]),
                             check=False, text=True, timeout=LIMIT_SECONDS,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIn(f"{ROUNDS} rounds", ran.stdout)

    def test_numbers_arrive_after_the_data_they_announce(self):
        self.run_program()

    def test_frames_that_are_lost_doubled_and_late(self):
        self.run_program("--impair", "drop=2%,duplicate=2%,reorder=2%,seed=5")


if __name__ == "__main__":
    report.main()
