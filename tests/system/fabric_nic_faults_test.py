#!/usr/bin/python3
"""Two hosts, each with a uroced that owns a NIC: their processes go on when the NIC goes down and
comes back, and when a uroced is killed and started anew.

The moments are derived from a seed, which is printed and can be given in FAULT_SEED.
"""

import contextlib

from harness import report
from harness.cases import InstallationTestCase
from harness.daemons import Daemon
from harness.faults import REPETITIONS, FaultTimes
from harness.members import Member, join
from harness.programs import Program
from harness.wires import IPV4, VethWire

LANES = 4
# 0.5 s for an acknowledgement, and 7 retries of 0.5 s each, all of which a busy machine may need.
RETRY_BUDGET = (17, 7)


class HostsWire(VethWire):
    """Two network namespaces with a veth pair between, and in each a uroced of the default
    fabric."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.daemons = []

    def __enter__(self):
        super().__enter__()
        for end in range(2):
            options = ["--port", f"net_af_packet0,iface={self.interface}", "--ip",
                       f"{self.ips[end]}/24"]
            self.daemons.append(Daemon(self.installed, "default", options, self.prefix(end)))
        for daemon in self.daemons:
            daemon.__enter__()
        return self

    def __exit__(self, *arguments):
        for daemon in self.daemons:
            daemon.__exit__(*arguments)
        super().__exit__(*arguments)

    def port_options(self, end):
        return []


class FabricNicFaultsTest(InstallationTestCase):
    needs = VethWire

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.times = FaultTimes()

    def setUp(self):
        self.running = contextlib.ExitStack()
        self.addCleanup(self.running.close)
        self.wire = self.running.enter_context(HostsWire(self.installation, IPV4))

    def joined_members(self):
        members = [self.running.enter_context(Member(self.wire, end)) for end in range(2)]
        join(*members, LANES, RETRY_BUDGET)
        self.check_traffic(*members)
        return members

    def check_traffic(self, one, other):
        # On every lane: a lane left behind would spend its retries over several repetitions.
        one.await_turns(other, 2)
        other.await_turns(one, 2)
        for member, peer in ((one, other), (other, one)):
            self.assertEqual(member.count(peer).failed_lanes, 0)

    def test_a_port_that_goes_down_and_comes_up(self):
        members = self.joined_members()
        # It would buffer its lines, as it does not write to a terminal.
        command = ["stdbuf", "--output=L", "ibv_asyncwatch", "-d", "uroce0"]
        watcher = self.running.enter_context(Program(self.wire.command(0, command)))
        watcher.wait_until(lambda: "async event FD" in watcher.output(), "was ready")
        for repetition in range(1, REPETITIONS + 1):
            self.times.pause()
            for state, event in (("down", "IBV_EVENT_PORT_ERR"), ("up", "IBV_EVENT_PORT_ACTIVE")):
                self.wire.set_interface(0, state)
                watcher.wait_until(lambda: watcher.output().count(event) == repetition,
                                   f"saw {event} for the {repetition}th time")
            self.check_traffic(*members)

    def test_uroced_that_is_killed_and_started_anew(self):
        members = self.joined_members()
        blocks = [daemon.wait_for_clients(1) for daemon in self.wire.daemons]
        # Kills both at once, as most of the time passes until the members send again.
        for repetition in range(REPETITIONS // 2):
            order = self.wire.daemons if repetition % 2 == 0 else self.wire.daemons[::-1]
            for daemon in order:
                self.times.pause()
                daemon.kill()
            for daemon in order:
                self.times.pause()
                daemon.start()
            self.assertEqual([daemon.wait_for_clients(1) for daemon in self.wire.daemons], blocks)
            self.check_traffic(*members)


if __name__ == "__main__":
    report.main()
