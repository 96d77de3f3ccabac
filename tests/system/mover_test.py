#!/usr/bin/python3
"""The mover over every wire, clean and with frames dropped, duplicated and reordered.

usage: mover_test.py fabric|memif|veth|udp [unittest arguments]
"""

import re
import sys

from harness import report
from harness.cases import InstallationTestCase
from harness.installation import MOVER
from harness.programs import free_tcp_port, run_pair
from harness.wires import IPV4, IPV6, EnginesWire, FabricWire, MemifWire, UdpWire, VethWire

WIRES = {wire.name: wire for wire in (EnginesWire, FabricWire, MemifWire, VethWire, UdpWire)}
WIRE = WIRES[sys.argv.pop(1)]
LINK_MTUS = (1500, 9000) if issubclass(WIRE, VethWire) else (None,)

IMPAIRMENTS = ("drop=1%", "duplicate=1%", "reorder=1%", "drop=1%,duplicate=1%,reorder=1%")
KINDS = ("send", "send_imm", "send_inv", "write", "write_imm", "read", "compare_swap",
         "fetch_add", "bind_window", "local_inv")

# Megabytes, as no frame is lost.
CLEAN = ["--rounds", "3", "--queue-pairs", "4"]
# Each loss at the end of a message costs a timeout.
SPOILED = ["--rounds", "2", "--queue-pairs", "3", "--max-message-bytes", "1000000",
           "--arena-bytes", "2000000"]
# 67 ms, eight times: a peer that is not scheduled for half a second counts as dead.
TIMEOUT = ["--timeout", "14", "--retry-count", "7"]


def counts(output):
    """The 'name=number' pairs of the mover's last line."""
    line = re.search(r"^mover: seed=.*$", output, re.MULTILINE)
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line.group())}


class MoverTest(InstallationTestCase):
    needs = VethWire if issubclass(WIRE, VethWire) else None

    def wire(self, ips, link_mtu, options=()):
        named = {} if link_mtu is None else {"mtu": link_mtu}
        return WIRE(self.installation, ips, options, **named)

    def move(self, wire, *options):
        port = free_tcp_port()
        mover = [self.installation.path(MOVER), *TIMEOUT, *options]
        with wire:
            outputs = run_pair(wire, [*mover, "server", wire.host(0), str(port)],
                               [*mover, "client", wire.host(0), str(port)], port)
        return [counts(output) for output in outputs]

    def check_complete(self, both):
        for done in both:
            self.assertGreater(done["bytes"], 1 << 20)
            for kind in KINDS:
                self.assertGreater(done[kind], 0, kind)

    def each_configuration(self):
        for link_mtu in LINK_MTUS:
            for ips in (IPV4, IPV6):
                yield ips, link_mtu

    def test_every_operation(self):
        for seed, (ips, link_mtu) in enumerate(self.each_configuration(), 1):
            with self.subTest(seed=seed, ips=ips, link_mtu=link_mtu):
                self.check_complete(self.move(self.wire(ips, link_mtu), *CLEAN,
                                              "--seed", str(seed)))

    def test_completion_events(self):
        for seed, (ips, link_mtu) in enumerate(self.each_configuration(), 11):
            with self.subTest(seed=seed, ips=ips, link_mtu=link_mtu):
                self.check_complete(self.move(self.wire(ips, link_mtu), *CLEAN, "--events",
                                              "--seed", str(seed)))

    def test_spoiled_frames(self):
        seed = 100
        for ips, link_mtu in self.each_configuration():
            for impairment in IMPAIRMENTS:
                seed += 1
                with self.subTest(seed=seed, ips=ips, link_mtu=link_mtu, impairment=impairment):
                    wire = self.wire(ips, link_mtu, ["--impair", f"{impairment},seed={seed}"])
                    self.check_complete(self.move(wire, *SPOILED, "--seed", str(seed)))


if __name__ == "__main__":
    report.main()
