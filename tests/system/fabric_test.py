#!/usr/bin/python3
"""Many processes on one fabric at once: stock programs in pairs, and all to all with every byte
verified."""

import contextlib
import itertools

from harness import report
from harness.cases import InstallationTestCase
from harness.length import LONG_RUN
from harness.members import Member, join_all, pause_all
from harness.perftest import check_figures, check_no_error
from harness.programs import Program, free_tcp_port, listens
from harness.wires import IPV4, IPV6, FabricWire

PAIRS = 32
MEMBERS = 4
LANES = 64  # between each two members
TURNS = 150 if LONG_RUN else 40  # of each end of a lane

# Each runs in half of the pairs. Dozens of polling programs share a processor, so few iterations
# suffice.
PROGRAMS = (["ib_write_bw", "-s", "65536", "-n", "500"], ["ib_send_lat", "-s", "2", "-n", "500"])


class FabricTest(InstallationTestCase):

    def wire(self, ips=IPV4):
        return FabricWire(self.installation, ips)

    def test_pairs_of_stock_programs(self):
        with self.wire() as wire, contextlib.ExitStack() as running:
            servers = []
            for program, _ in zip(itertools.cycle(PROGRAMS), range(PAIRS)):
                port = free_tcp_port()
                command = [*program, "-F", "-d", "uroce0", "-x", "1", "-p", str(port)]
                servers.append((running.enter_context(Program(wire.command(0, command))), port,
                                command))
            clients = []
            for server, port, command in servers:
                server.wait_until(lambda: listens(server.pid, port), f"listened on port {port}")
                clients.append(running.enter_context(
                    Program(wire.command(1, [*command, wire.host(0)]))))
            for client in clients:
                check_figures(self, client.wait())
            for program in (*clients, *(server for server, _, _ in servers)):
                check_no_error(self, program.wait())

    def test_all_to_all(self):
        for ips in (IPV4, IPV6):
            with self.subTest(ips=ips), self.wire(ips) as wire, contextlib.ExitStack() as running:
                members = [running.enter_context(Member(wire, end % 2)) for end in range(MEMBERS)]
                join_all(members, LANES)
                for member, peer in itertools.permutations(members, 2):
                    member.await_turns(peer, TURNS)
                pause_all(members)
                for member, peer in itertools.permutations(members, 2):
                    ours, theirs = member.count(peer), peer.count(member)
                    self.assertEqual(ours.failed_lanes, 0)
                    # The ends of a lane take turns, so neither is ahead of the other by two.
                    self.assertLessEqual(abs(ours.turns - theirs.turns), 1)


if __name__ == "__main__":
    report.main()
