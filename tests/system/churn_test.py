#!/usr/bin/python3
"""Connections that rdma_cm makes and ends by the thousand leave nothing behind: neither in the two
processes nor in uroced."""

import os

from harness import report
from harness.cases import InstallationTestCase
from harness.daemons import Daemon, descriptors, wait_for, wait_for_descriptors
from harness.installation import CHURN
from harness.programs import Program, free_tcp_port
from harness.wires import FabricWire

# Allocators and ids in timewait may differ by this much. 10,000 connections that each leave an id
# of the connection manager behind (1 KB), or even a queue pair, exceed it.
MAX_GROWTH_KIB = 4_000
# Connections per second; a lost message costs four seconds.
MIN_RATE = 200


def resident_kib(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


class ChurnTest(InstallationTestCase):
    programs = [CHURN]

    def setUp(self):
        wire = FabricWire(self.installation)
        self.daemon = self.enterContext(Daemon(self.installation, wire.fabric))
        churn, self.port = self.installation.path(CHURN), str(free_tcp_port())
        self.client = wire.command(1, [churn, "client", "127.0.0.1", self.port])
        self.server = self.enterContext(
            Program(wire.command(0, [churn, "server", "127.0.0.1", self.port])))
        self.server.wait_until(lambda: "listening" in self.server.output(), "listened")
        self.uroced_descriptors = descriptors(self.daemon.pid)

    def is_quiet(self):
        """Whether uroced has forgotten the client, and the server has no queue pair left."""
        clients = self.daemon.status()["clients"]
        return [client["pid"] for client in clients] == [self.server.pid] and \
            not clients[0]["queue_pairs"]

    def run_client(self, connections, at_once):
        """Runs a client. Returns the memory of the server and of uroced afterwards, in KiB."""
        with Program([*self.client, str(connections), str(at_once)]) as client:
            half, end, rate = client.wait().splitlines()
        print(f"{connections} connections, {at_once} at once: {rate}")
        self.assertGreater(int(rate.split()[0]), MIN_RATE)
        (_, half_kib, half_fds), (_, end_kib, end_fds) = (map(int, line.split())
                                                          for line in (half, end))
        self.assertLess(end_kib - half_kib, MAX_GROWTH_KIB, "of the client")
        self.assertEqual(end_fds, half_fds, "descriptors of the client")
        wait_for(self.is_quiet, "forgot the client")
        wait_for_descriptors(self.daemon.pid, self.uroced_descriptors)
        self.assertIsNone(self.server.process.poll(), self.server.output())
        return resident_kib(self.server.pid), resident_kib(self.daemon.pid)

    def check_churn(self, connections, at_once):
        before = self.run_client(connections, at_once)
        server_descriptors = descriptors(self.server.pid)
        after = self.run_client(connections, at_once)
        self.assertEqual(descriptors(self.server.pid), server_descriptors)
        for name, first, last in zip(("server", "uroced"), before, after):
            self.assertLess(last - first, MAX_GROWTH_KIB, name)

    def test_short_500_connections_100_at_once(self):
        self.check_churn(500, 100)

    def test_10_000_connections(self):
        self.check_churn(10_000, 50)

    def test_1_000_connections_at_once(self):
        self.check_churn(3_000, 1_000)


if __name__ == "__main__":
    report.main()
