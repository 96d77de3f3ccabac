#!/usr/bin/python3
"""Two and three hosts, each with a uroced, and Ethernet between them: verified traffic and
perftest, with two processes on each host at once.

usage: hosts_test.py 2|3 net_af_packet|udp [unittest arguments]
"""

import itertools
import re
import sys
import unittest

from harness import report
from harness.agents import Agent, join
from harness.cases import InstallationTestCase
from harness.hosts import GIDS, IPV4, IPV6, UDP, Network
from harness.installation import MOVER
from harness.length import combinations
from harness.perftest import check_figures, check_no_error
from harness.programs import free_tcp_port

HOSTS = int(sys.argv.pop(1))
DRIVER = sys.argv.pop(1)

# Every host serves one program and is the client of another.
NEIGHBORS = [(host, (host + 1) % HOSTS) for host in range(HOSTS)]

MTUS = (1500, 9000)
LOSS = ["--impair", "drop=1%"]

CLEAN = ["--rounds", "2", "--queue-pairs", "3", "--max-message-bytes", "4000000"]
# Each loss at the end of a message costs a timeout.
SPOILED = ["--rounds", "2", "--queue-pairs", "2", "--max-message-bytes", "500000",
           "--arena-bytes", "1000000"]
# 0.5 s, eight times: a dozen programs share the processors.
TIMEOUT = 17
# 2 s, eight times: detects a frame that is lost for good, but tolerates a machine that stalls.
PATIENT_TIMEOUT = 19

# Reliable, unreliable and datagram services; the unreliable ones send little, as nothing slows down
# their senders.
PERFTEST = (
    ["ib_write_bw", "-s", "65536", "-n", "500", "-u", str(TIMEOUT)],
    ["ib_read_bw", "-s", "65536", "-n", "500", "-u", str(TIMEOUT)],
    ["ib_send_lat", "-s", "64", "-n", "150", "-u", str(TIMEOUT)],
    ["ib_atomic_lat", "-n", "150", "-u", str(TIMEOUT)],
    ["ib_send_bw", "-c", "UC", "-s", "1024", "-n", "200"],
    ["ib_send_lat", "-c", "UD", "-s", "64", "-n", "200"],
)
RELIABLE = [program for program in PERFTEST if "-c" not in program]


class HostsTest(InstallationTestCase):
    needs = Network

    def network(self, mtu, driver=DRIVER, **named):
        return Network(self.installation, HOSTS, mtu, driver, **named)

    def move(self, network, gid, *options):
        """Runs the mover between all neighbours at once; each end checks every byte."""
        mover = [self.installation.path(MOVER), "--timeout", str(TIMEOUT), "--retry-count", "7",
                 "--gid-index", str(gid), *options]
        pairs = []
        for seed, (server, client) in enumerate(NEIGHBORS, 1):
            port = free_tcp_port()
            address = [network.hosts[server].ipv4, str(port)]
            pairs.append((server, client, [*mover, "--seed", str(seed), "server", *address],
                          [*mover, "--seed", str(seed), "client", *address], port))
        for output in itertools.chain(*network.run_pairs(pairs)):
            moved = int(re.search(r"^mover: seed=.* bytes=(\d+)", output, re.MULTILINE).group(1))
            self.assertGreater(moved, 1 << 19)

    def perftest(self, network, gid, program):
        pairs = []
        for server, client in NEIGHBORS:
            port = free_tcp_port()
            command = [*program, "-F", "-d", "uroce0", "-x", str(gid), "-p", str(port)]
            pairs.append((server, client, command, [*command, network.hosts[server].ipv4], port))
        for server_output, client_output in network.run_pairs(pairs):
            check_no_error(self, server_output)
            check_no_error(self, client_output)
            check_figures(self, client_output)

    def test_verified_traffic(self):
        for mtu in MTUS:
            with self.network(mtu) as network:
                for gid in GIDS:
                    with self.subTest(mtu=mtu, gid=gid):
                        self.move(network, gid, *CLEAN)

    # A program that has got its data destroys its queue pair at once. The acknowledgement is then
    # on its way to uroced and must still go out, else the peer ends in a retry error.
    def test_queue_pair_that_is_destroyed_at_once(self):
        with self.network(1500) as network, Agent(network, 0) as one, Agent(network, 1) as other:
            for value in range(1, 201):
                number, other_number = join(one, other, timeout=PATIENT_TIMEOUT)
                other.tell(f"close_after {other_number} {value} 1")
                with self.subTest(value):
                    self.assertEqual(one.write(number, value, 1).status, "SUCCESS")
                other.answer()
                one.ask(f"close {number}")

    def test_verified_traffic_with_loss(self):
        for mtu in MTUS:
            with self.network(mtu, options=LOSS) as network:
                for gid in (IPV4, IPV6):
                    with self.subTest(mtu=mtu, gid=gid):
                        self.move(network, gid, *SPOILED)

    def test_perftest(self):
        for mtu in MTUS:
            with self.network(mtu) as network:
                for gid, program in combinations((IPV4, IPV6), PERFTEST):
                    with self.subTest(mtu=mtu, gid=gid, program=program):
                        self.perftest(network, gid, program)

    def test_perftest_with_loss(self):
        for mtu in MTUS:
            with self.network(mtu, options=LOSS) as network:
                for gid, program in combinations((IPV4, IPV6), RELIABLE):
                    with self.subTest(mtu=mtu, gid=gid, program=program):
                        self.perftest(network, gid, program)

    # AF_XDP has no jumbo frames.
    @unittest.skipIf(DRIVER == UDP, "has a driver of its own")
    def test_verified_traffic_by_af_xdp(self):
        with self.network(1500, driver="net_af_xdp") as network:
            for gid in (IPV4, IPV6):
                with self.subTest(gid=gid):
                    self.move(network, gid, *CLEAN)
            with self.subTest("perftest"):
                self.perftest(network, IPV4, PERFTEST[0])


if __name__ == "__main__":
    report.main()
