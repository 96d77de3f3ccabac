#!/usr/bin/python3
"""Idle processes that are attached to a fabric, and its uroced, use hardly any processor time."""

import contextlib
import time

from harness import report
from harness.agents import Agent, join
from harness.cases import InstallationTestCase
from harness.daemons import Daemon
from harness.lines import cpu_seconds
from harness.wires import IPV4, FabricWire

PROCESSES = 8
SETTLE_SECONDS = 1  # Threads that have just worked poll for more work before they sleep.
IDLE_SECONDS = 10
MAX_LOAD = 0.01  # of one processor, for all processes together


class IdleTest(InstallationTestCase):

    def test_attached_processes_and_uroced(self):
        with contextlib.ExitStack() as running:
            wire = FabricWire(self.installation, IPV4)
            daemon = running.enter_context(Daemon(self.installation, wire.fabric))
            agents = [running.enter_context(Agent(wire, i % 2)) for i in range(PROCESSES)]
            # Each agent has links to its neighbours, and connections over them.
            for one, other in zip(agents, agents[1:] + agents[:1]):
                number, other_number = join(one, other, timeout=18)
                self.check_write(one, number, other, other_number, 7)
            pids = [daemon.pid, *(agent.pid for agent in agents)]
            self.assertEqual(len(daemon.status()["clients"]), PROCESSES)
            time.sleep(SETTLE_SECONDS)
            before = [cpu_seconds(pid) for pid in pids]
            time.sleep(IDLE_SECONDS)
            used = [cpu_seconds(pid) - start for pid, start in zip(pids, before)]
            print(f"in {IDLE_SECONDS} s uroced used {used[0]:.2f} s of a processor, and "
                  f"{PROCESSES} idle processes {sum(used[1:]):.2f} s")
            self.assertLessEqual(sum(used), MAX_LOAD * IDLE_SECONDS)


if __name__ == "__main__":
    report.main()
