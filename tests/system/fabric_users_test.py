#!/usr/bin/python3
"""Users of one machine: a user whom uroced does not let in cannot reach its fabric and gets a
fabric of their own; a user whom it lets in is like any other."""

import os
import subprocess
import unittest

from harness import report
from harness.cases import InstallationTestCase
from harness.daemons import Daemon, blocks_by_pid
from harness.faults import REPETITIONS
from harness.installation import UROCE
from harness.members import IMPATIENT, RETRY_EXCEEDED, Member, join
from harness.programs import clean_environment
from harness.users import NOBODY, all_users
from harness.wires import IPV4, FabricWire

LANES = 4


class FabricUsersTest(InstallationTestCase):

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can be two users")
        super().setUpClass()
        cls.nobody = all_users()[1]

    def setUp(self):
        self.wire = FabricWire(self.installation, IPV4)

    def ask_for_status(self, user):
        return subprocess.run([*user.prefix, self.installation.path(UROCE), "status", "--fabric",
                               self.wire.fabric], check=False, text=True, capture_output=True,
                              env=clean_environment())

    def test_user_not_permitted_gets_a_separate_fabric(self):
        with Daemon(self.installation, self.wire.fabric) as daemon, Member(self.wire) as roots:
            for _ in range(REPETITIONS):
                asked = self.ask_for_status(self.nobody)
                self.assertNotEqual(asked.returncode, 0)
                self.assertIn("--users", asked.stderr)
                self.assertEqual(asked.stdout, "")
            # The user gets a separate fabric of that name, from which root's cannot be reached.
            with Member(self.wire, user=self.nobody) as foreign:
                join(roots, foreign, LANES, IMPATIENT)
                for member, peer in ((roots, foreign), (foreign, roots)):
                    self.assertEqual(member.await_failures(peer, LANES), {RETRY_EXCEEDED})
                    self.assertEqual(member.count(peer).turns, 0)
                self.assertEqual(set(blocks_by_pid(daemon.status())), {roots.pid})

    def test_permitted_user_shares_the_fabric(self):
        for users in ("nobody", str(NOBODY), "all"):
            with self.subTest(users=users), \
                    Daemon(self.installation, self.wire.fabric, ["--users", users]) as daemon, \
                    Member(self.wire) as roots, \
                    Member(self.wire, user=self.nobody) as guest:
                join(roots, guest, LANES)
                roots.await_turns(guest, 10)
                guest.await_turns(roots, 10)
                self.assertEqual(set(blocks_by_pid(daemon.status())), {roots.pid, guest.pid})


if __name__ == "__main__":
    report.main()
