#!/usr/bin/python3
"""Raw packet queue pairs with perftest's programs, over memif and over a veth pair, where a packet
socket of the kernel at the other end receives and sends frames.

usage: raw_ethernet_test.py memif|veth [unittest arguments]
"""

import ctypes
import socket
import sys

from harness import report
from harness.cases import InstallationTestCase
from harness.perftest import check_figures, check_no_error
from harness.programs import Program, ProgramFailed, wait_for_both
from harness.wires import IPV4, FabricWire, MemifWire, UdpWire, VethWire

WIRES = {wire.name: wire for wire in (MemifWire, VethWire)}
WIRE = WIRES[sys.argv.pop(1)]

# perftest needs both ends' addresses. They are not those of the interfaces, so the kernel answers
# no frame to them.
MACS = ("02:00:00:00:00:0a", "02:00:00:00:00:0b")

# Each end puts these into the frames that it sends, and its flow matches them in the frames that it
# receives: so both ends get the same.
SOURCE = "10.1.1.1"
DESTINATION = "10.1.1.2"
ADDRESSES = ["-j", SOURCE, "-J", DESTINATION]
IPV6_ADDRESSES = ["-j", "fd00::1", "-J", "fd00::2"]
PORTS = ["-k", "2000", "-K", "3000"]

EXPERIMENTAL = 0x88b5  # the EtherType of IEEE 802 for experiments
EVERYTHING = 3  # ETH_P_ALL
CLONE_NEWNET = 0x40000000

# The options for each kind of flow of a ping-pong.
STEERING = {
    "MAC": [],
    "VLAN": ["--vlan_en"],
    "IPv4": ADDRESSES,
    "UDP": [*ADDRESSES, *PORTS],
    "TCP": ["--tcp", *ADDRESSES, *PORTS],
    "IPv6 and UDP": ["--raw_ipv6", *IPV6_ADDRESSES, *PORTS],
}

# Nothing slows down the sender, and frames for which the receiver is too slow are lost. So these
# run for a second, not for a number of messages.
BANDWIDTH = {
    "as it is": [],
    "longest frames": ["-s", "1500"],
    "both directions": ["-b"],
    "4 queue pairs": ["-q", "4"],
    "shared receive queue": ["--use-srq"],
    "lists of requests": ["-l", "4"],
}


def ends_with(macs):
    """The options that tell perftest its own address and that of the other end."""
    return ["-B", macs[0], "-E", macs[1]]


class RawEthernetTest(InstallationTestCase):
    needs = VethWire if WIRE is VethWire else None

    @staticmethod
    def command(program, role, options):
        macs = MACS if role == "server" else MACS[::-1]
        # The table's header shows that the receive requests are posted: a ping before that would be
        # lost.
        return ["stdbuf", "-oL", program, "-F", "-d", "uroce0", f"--{role}", *ends_with(macs),
                *options]

    def run_pair(self, program, both, server=()):
        with WIRE(self.installation, IPV4) as wire:
            command = self.command(program, "server", [*both, *server])
            with Program(wire.command(0, command)) as first:
                first.wait_until(lambda: "#bytes" in first.output(), "was ready")
                command = self.command(program, "client", both)
                with Program(wire.command(1, command)) as second:
                    outputs = wait_for_both(first, second)
        for output in outputs:
            check_no_error(self, output)
            check_figures(self, output)
        return outputs

    def test_ping_pong_by_each_kind_of_flow(self):
        for name, options in STEERING.items():
            with self.subTest(name):
                self.run_pair("raw_ethernet_lat", ["-n", "200", "-s", "200", *options])

    def test_bandwidth(self):
        for name, options in BANDWIDTH.items():
            with self.subTest(name):
                self.run_pair("raw_ethernet_bw", ["-D", "1", "-s", "512", *options])

    def test_promiscuous_and_sniffing_receivers(self):
        for option in ("--promiscuous", "--sniffer"):
            with self.subTest(option):
                self.run_pair("raw_ethernet_bw", ["-D", "1", "-s", "512"], server=[option])

    def test_a_thousand_flows(self):
        with WIRE(self.installation, IPV4) as wire:
            command = self.command("raw_ethernet_fs_rate", "server", ["-n", "1000"])
            with Program(wire.command(0, command)) as program:
                output = program.wait()
        check_no_error(self, output)
        self.assertRegex(output, r"(?m)^\s*1000\s+\d+\.\d+")


class WithoutEthernetTest(InstallationTestCase):
    """A fabric and UDP sockets carry no Ethernet frames."""

    wires = [FabricWire] if WIRE is MemifWire else [UdpWire]
    needs = VethWire if WIRE is VethWire else None

    def test_queue_pair_is_refused(self):
        for kind in self.wires:
            command = RawEthernetTest.command("raw_ethernet_bw", "client", ["-n", "5"])
            with self.subTest(kind.name), kind(self.installation, IPV4) as wire:
                with Program(wire.command(0, command)) as program:
                    with self.assertRaisesRegex(ProgramFailed, "Unable to create QP"):
                        program.wait()


if WIRE is VethWire:

    class KernelTest(InstallationTestCase):
        """The kernel has the other end of the wire; the test uses it through a packet socket."""

        needs = VethWire

        @staticmethod
        def packet_socket(wire, end):
            """A packet socket in the network namespace of that end."""
            enter = ctypes.CDLL(None).setns
            with open("/proc/self/ns/net", "rb") as home, \
                    open(f"/proc/{wire.namespaces[end].pid}/ns/net", "rb") as there:
                enter(there.fileno(), CLONE_NEWNET)
                try:
                    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                            socket.htons(EVERYTHING))
                    packets.bind((wire.interface, EVERYTHING))
                finally:
                    enter(home.fileno(), CLONE_NEWNET)
            packets.settimeout(60)
            return packets

        def test_kernel_receives_frames_of_a_queue_pair(self):
            to, sender = (bytes.fromhex(mac.replace(":", "")) for mac in MACS)
            with VethWire(self.installation, IPV4) as wire, \
                    self.packet_socket(wire, 1) as packets:
                command = RawEthernetTest.command(
                    "raw_ethernet_bw", "client", ["-n", "5", "-s", "200", *ADDRESSES, *PORTS])
                with Program(wire.command(0, command)) as program:
                    check_figures(self, program.wait())
                frame = packets.recv(2048)
                while frame[:12] != to + sender:
                    frame = packets.recv(2048)
            self.assertEqual(len(frame), 200 - 4, "perftest counts the FCS")
            self.assertEqual(frame[12:14], b"\x08\x00")
            self.assertEqual(frame[26:34], socket.inet_aton(SOURCE) + socket.inet_aton(DESTINATION))
            self.assertEqual(frame[34:38], (2000).to_bytes(2, "big") + (3000).to_bytes(2, "big"))

        def test_queue_pair_receives_kernel_frames_by_its_flow(self):
            messages = 100
            with VethWire(self.installation, IPV4) as wire, \
                    self.packet_socket(wire, 1) as packets:
                command = RawEthernetTest.command("raw_ethernet_bw", "server",
                                                  ["-n", str(messages), "-s", "200"])
                with Program(wire.command(0, command)) as program:
                    program.wait_until(lambda: "#bytes" in program.output(), "was ready")
                    for mac, times in ((MACS[1], 5), (MACS[0], messages)):
                        to, sender = (bytes.fromhex(end.replace(":", "")) for end in (mac, MACS[1]))
                        frame = to + sender + EXPERIMENTAL.to_bytes(2, "big") + bytes(182)
                        for _ in range(times):
                            packets.send(frame)
                    output = program.wait()
            check_no_error(self, output)
            check_figures(self, output)


if __name__ == "__main__":
    report.main()
