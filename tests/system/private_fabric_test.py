#!/usr/bin/python3
"""Fabrics without a uroced: `uroce run` starts one, which ends with the last program; and programs
that fork, on such a fabric."""

import contextlib

from harness import report
from harness.agents import Agent, join
from harness.cases import InstallationTestCase
from harness.daemons import status, wait_for
from harness.faults import REPETITIONS
from harness.wires import IPV4, FabricWire


class PrivateFabricTest(InstallationTestCase):

    def check_left(self, fabric):
        wait_for(lambda: status(self.installation, fabric) is None, "left")

    def test_programs_that_start_at_once_share_one_uroced(self):
        for _ in range(REPETITIONS):
            wire = FabricWire(self.installation, IPV4)
            with Agent(wire, 0) as one, Agent(wire, 1) as other:
                number, other_number = join(one, other, timeout=18)
                self.check_write(one, number, other, other_number, 1)
                report_of_all = status(self.installation, wire.fabric)
                self.assertEqual({client["pid"] for client in report_of_all["clients"]},
                                 {one.pid, other.pid})
            self.check_left(wire.fabric)

    def test_it_stays_while_anybody_is_left(self):
        wire = FabricWire(self.installation, IPV4)
        with contextlib.ExitStack() as running:
            last = Agent(wire, 0)
            for _ in range(10):
                last = self.replace(running, wire, last)
            last.kill()
        self.check_left(wire.fabric)

    def replace(self, running, wire, last):
        """A newcomer talks to the last process, which then dies."""
        newcomer = running.enter_context(Agent(wire, 1))
        number, other_number = join(newcomer, last, timeout=18)
        self.check_write(newcomer, number, last, other_number, 2)
        before = status(self.installation, wire.fabric)["daemon"]["pid"]
        last.kill()
        self.assertEqual(status(self.installation, wire.fabric)["daemon"]["pid"], before)
        return newcomer

    def test_a_forked_child_opens_the_device_anew(self):
        wire = FabricWire(self.installation, IPV4)
        with Agent(wire, 0) as other, Agent(wire, 1) as agent:
            number, other_number = join(agent, other, timeout=18)
            for repetition in range(REPETITIONS):
                value = 1 + repetition % 100
                self.assertEqual(agent.ask("fork reopen"), "0")
                self.check_write(agent, number, other, other_number, value)
                self.check_write(other, other_number, agent, number, 100 + value)


if __name__ == "__main__":
    report.main()
