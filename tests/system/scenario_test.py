#!/usr/bin/python3
"""Fault scenarios under stock programs: exactly the packets that a file names meet faults.

Here `uroce run --scenario` reads the files whose consequences the simulator tests in detail:
tests/simulation/fault_scenario_test.cc.
"""

import collections
import os

from harness import report
from harness.capture import icrc_is_right, read_frames, tshark
from harness.cases import InstallationTestCase
from harness.programs import free_tcp_port, run_pair
from harness.wires import IPV4, FabricWire

SCENARIOS = os.path.abspath("tests/simulation/scenarios")
MESSAGE_BYTES = 65536
PATH_MTU = 4096
PSN_MASK = 0xFFFFFF
READ_REQUEST = 12
ACKNOWLEDGEMENTS = range(13, 19)  # READ responses, ACKs, atomic ACKs

Request = collections.namedtuple("Request", "offset opcode dma_length")


class ScenarioWire(FabricWire):
    """A fabric whose second process, the client, has a scenario; both ends write captures."""

    def __init__(self, installed, scenario):
        super().__init__(installed, IPV4)
        self.scenario = os.path.join(SCENARIOS, scenario)
        self.captures = [os.path.join(installed.scratch, f"{scenario}-{end}.pcapng")
                         for end in range(2)]

    def command(self, end, command, user=None, options=()):
        own = ["--capture", self.captures[end]]
        if end == 1:
            own += ["--scenario", self.scenario]
        return super().command(end, command, user, [*own, *options])


class ScenarioTest(InstallationTestCase):

    def run_perftest(self, program, scenario):
        """Runs perftest; returns the captures of server and client."""
        wire = ScenarioWire(self.installation, scenario)
        port = free_tcp_port()
        command = [program, "-d", "uroce0", "-F", "-x", "1", "-s", str(MESSAGE_BYTES), "-n", "20",
                   "-m", str(PATH_MTU), "-p", str(port)]
        with wire:
            run_pair(wire, command, [*command, wire.host(0)], port)
        return wire.captures

    @staticmethod
    def requests(path):
        """The requests that the client sent, with the offset of their PSN from the first one's."""
        rows = tshark(path, "-Y", f"infiniband.bth && ip.src == {IPV4[1]}", "-T", "fields",
                      "-e", "infiniband.bth.psn", "-e", "infiniband.bth.opcode",
                      "-e", "infiniband.reth.dmalen")
        found = []
        first = None
        for row in rows:
            psn, opcode, length = row.split("\t")
            if int(opcode) in ACKNOWLEDGEMENTS:
                continue
            first = int(psn) if first is None else first
            found.append(Request((int(psn) - first) & PSN_MASK, int(opcode), int(length or 0)))
        return found

    def missing(self, captures):
        """How often each packet was sent but did not arrive, by its offset."""
        server, client = ([request.offset for request in self.requests(path)] for path in captures)
        missing = collections.Counter(client)
        missing.subtract(server)
        # The first packet may arrive before the server receives on the link.
        missing.pop(0)
        return {offset: times for offset, times in missing.items() if times != 0}

    def test_a_lost_packet_of_a_send(self):
        captures = self.run_perftest("ib_send_bw", "drop_middle_send.json")
        self.assertEqual(self.missing(captures), {3: 1})

    def test_a_packet_that_is_lost_twice(self):
        captures = self.run_perftest("ib_send_bw", "drop_same_packet_twice.json")
        self.assertEqual(self.missing(captures), {3: 2})

    def test_a_corrupted_packet_of_a_send(self):
        captures = self.run_perftest("ib_send_bw", "corrupt_payload.json")
        self.assertEqual(self.missing(captures), {})
        arrived = [icrc_is_right(frame) for frame in read_frames(captures[0])]
        self.assertEqual(arrived.count(False), 1)

    def test_a_lost_response_of_a_read(self):
        _, client = self.run_perftest("ib_read_bw", "drop_middle_read_response.json")
        partial = [request for request in self.requests(client)
                   if request.opcode == READ_REQUEST and request.dma_length != MESSAGE_BYTES]
        # On a busy machine, where a process is silent for long, probes may follow.
        self.assertEqual(partial[:1], [Request(4, READ_REQUEST, MESSAGE_BYTES - 4 * PATH_MTU)])

    def test_marked_packets(self):
        captures = self.run_perftest("ib_send_bw", "mark_congestion.json")
        self.assertEqual(self.missing(captures), {})
        marks = tshark(captures[0], "-Y", f"infiniband.bth && ip.src == {IPV4[1]}", "-T", "fields",
                       "-e", "ip.dsfield.ecn")
        self.assertEqual(set(marks), {"3"})


if __name__ == "__main__":
    report.main()
