"""The base of the test cases of this folder."""

import unittest

from harness.installation import Installation


class InstallationTestCase(unittest.TestCase):
    """Cases that share an installation of their own."""

    needs = None  # a wire or network class, whose why_not() may skip the cases
    programs = ()  # further programs to install

    @classmethod
    def setUpClass(cls):
        if cls.needs and (why_not := cls.needs.why_not()):
            raise unittest.SkipTest(why_not)
        cls.installation = Installation(cls.programs)
        cls.addClassCleanup(cls.installation.remove)

    def check_unprivileged(self, pid, uid):
        with open(f"/proc/{pid}/status", encoding="ascii") as lines:
            status = lines.read()
        self.assertRegex(status, rf"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        self.assertRegex(status, r"CapPrm:\t0{16}\nCapEff:\t0{16}\n")

    def check_write(self, agent, number, other, other_number, value):
        self.assertEqual(agent.write(number, value, 100_000).status, "SUCCESS")
        self.assertEqual(other.count(other_number, value), 100_000)
