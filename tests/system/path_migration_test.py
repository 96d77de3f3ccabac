#!/usr/bin/python3
"""Automatic path migration by plain verbs between two hosts on two common networks: over the
default uplink of a fabric and over NICs that belong to uroced."""

import ipaddress

from harness import report
from harness.agents import TalkingAgent, join
from harness.cases import InstallationTestCase
from harness.hosts import IPV4, IPV6, Network
from harness.uplinks import UplinkWire
from harness.wires import VethWire

PATH_MIGRATED = "6"  # IBV_EVENT_PATH_MIG
TIMEOUT = 12  # 17 ms
GIDS = 16
# The second network.
INTERFACE = "veth1"
OTHER_IPV4 = ("10.11.13.1", "10.11.13.2")
NOBODYS_MAC = "02:00:00:00:00:99"


def mapped(address):
    address = ipaddress.ip_address(address)
    return ipaddress.ip_address(f"::ffff:{address}") if address.version == 4 else address


class TwoPaths:
    """A connection between two agents, and both addresses of each."""

    def __init__(self, test, agents, addresses):
        self.test = test
        self.agents = agents
        self.addresses = addresses  # for each end: of the primary and of the alternate path
        self.numbers = join(*agents, timeout=TIMEOUT, retry_count=2)

    def gid_index(self, end, path):
        wanted = mapped(self.addresses[end][path])
        for index in range(GIDS):
            if ipaddress.ip_address(self.agents[end].ask(f"gid {index}").split()[0]) == wanted:
                return index
        raise AssertionError(f"no GID is {wanted}")

    def ask(self, end, command, *words):
        return self.agents[end].ask(" ".join([command, str(self.numbers[end]), *map(str, words)]))

    def arm(self, alternate):
        for end in range(2):
            gid = mapped(self.addresses[1 - end][alternate]).packed.hex()
            self.ask(end, "alternate", gid, self.gid_index(end, alternate), TIMEOUT)
        self.write(0, 1)
        for end in range(2):
            self.check(end, "ARMED", 1 - alternate)

    def check(self, end, state, path):
        now, gid = self.ask(end, "path").split()
        self.test.assertEqual((now, ipaddress.ip_address(gid)),
                              (state, mapped(self.addresses[1 - end][path])))

    def write(self, end, value):
        self.test.check_write(self.agents[end], self.numbers[end], self.agents[1 - end],
                              self.numbers[1 - end], value)

    def check_migrated(self, path):
        for end in range(2):
            self.test.assertEqual(self.agents[end].ask("event"), PATH_MIGRATED)
            self.check(end, "MIGRATED", path)


class PathMigrationTest(InstallationTestCase):
    needs = VethWire

    def setUp(self):
        self.wire = self.enterContext(UplinkWire(self.installation))
        pid = self.wire.namespaces[1].pid
        self.wire.ip(0, f"link add name {INTERFACE} index 102 type veth peer name {INTERFACE} "
                        f"netns {pid}")
        for end in range(2):
            self.wire.ip(end, f"address add {OTHER_IPV4[end]}/24 dev {INTERFACE}")
            self.wire.ip(end, f"link set {INTERFACE} up")
        agents = [self.enterContext(TalkingAgent(self.wire, end)) for end in range(2)]
        self.paths = TwoPaths(self, agents, list(zip(self.wire.ips, OTHER_IPV4)))

    def silence(self):
        """Frames between the hosts on the first network no longer arrive anywhere."""
        for end in range(2):
            self.wire.ip(end, f"neighbor replace {self.wire.ips[1 - end]} lladdr {NOBODYS_MAC} "
                              f"nud permanent dev {self.wire.interface}")

    def test_path_that_goes_silent_is_left(self):
        self.paths.arm(alternate=1)
        self.silence()
        self.paths.write(0, 2)
        self.paths.check_migrated(1)
        self.paths.write(1, 3)

    def test_connection_without_an_alternate_path_ends(self):
        self.silence()
        one, number = self.paths.agents[0], self.paths.numbers[0]
        self.assertEqual(one.write(number, 2, 100).status, "RETRY_EXC_ERR")

    def test_path_is_left_by_request_and_taken_again(self):
        for alternate in (1, 0, 1):
            self.paths.arm(alternate)
            self.paths.ask(0, "migrate")
            self.paths.write(0, 2)
            self.paths.check_migrated(alternate)
            self.paths.write(1, 3)


class NicTest(InstallationTestCase):
    """uroced has the NIC, and sends only frames to peers that were declared to it."""

    needs = Network

    def test_connection_migrates_to_another_address_of_its_peer(self):
        network = self.enterContext(Network(self.installation, 2))
        agents = [self.enterContext(TalkingAgent(network, end, gid_index=IPV4))
                  for end in range(2)]
        addresses = [(host.ipv4, host.ipv6) for host in network.hosts]
        paths = TwoPaths(self, agents, addresses)
        self.assertEqual(paths.gid_index(0, 1), IPV6)
        for alternate in (1, 0):
            paths.arm(alternate)
            paths.ask(1, "migrate")
            paths.write(1, 2)
            paths.check_migrated(alternate)
            paths.write(0, 3)


if __name__ == "__main__":
    report.main()
