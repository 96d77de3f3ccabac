#!/usr/bin/python3
"""libfabric finds the device, and its ping-pong verifies every byte that its providers move over
it: messages and reliable datagrams, over connections of rdma_cm and over UD queue pairs
(ofi_rxd)."""

import re

from harness import report
from harness.cases import InstallationTestCase
from harness.programs import Program, free_tcp_port, run_pair
from harness.uplinks import UplinkWire
from harness.wires import FabricWire, VethWire

ITERATIONS = 20
# Arguments of fi_pingpong. They name a provider, so it cannot use another one.
CONNECTED = (["-p", "verbs", "-e", "msg"], ["-p", "verbs;ofi_rxm", "-e", "rdm"])
DATAGRAMS = (["-p", "verbs;ofi_rxd", "-e", "rdm", "-m", "msg"],
             ["-p", "verbs;ofi_rxd", "-e", "rdm", "-m", "tagged"])


class LibfabricTest(InstallationTestCase):

    def test_fi_info_describes_the_device(self):
        with FabricWire(self.installation) as wire, \
                Program(wire.command(0, ["fi_info", "-p", "verbs"])) as program:
            output = program.wait()
        self.assertRegex(output, r"domain: uroce0\n")
        self.assertRegex(output, r"domain: uroce0-dgram\n.*\n *type: FI_EP_DGRAM\n")

    def check(self, wire, modes):
        for mode in modes:
            with self.subTest(mode):
                port = str(free_tcp_port())
                command = ["fi_pingpong", *mode, "-c", "-I", str(ITERATIONS)]
                outputs = run_pair(wire, [*command, "-B", port],
                                   [*command, "-P", port, wire.host(0)], int(port))
                sizes = re.findall(rf"^(\w+) +{ITERATIONS} +={ITERATIONS} ", outputs[1],
                                   re.MULTILINE)
                self.assertEqual(sizes[0], "64")
                self.assertEqual(sizes[-1], "1m")

    def check_between_hosts(self, modes, *options):
        if why_not := VethWire.why_not():
            self.skipTest(why_not)
        self.check(self.enterContext(UplinkWire(self.installation, options=options)), modes)

    def test_connections(self):
        self.check(self.enterContext(FabricWire(self.installation)), CONNECTED)

    def test_reliable_datagrams(self):
        self.check(self.enterContext(FabricWire(self.installation)), DATAGRAMS)

    def test_connections_between_hosts(self):
        self.check_between_hosts(CONNECTED)

    # ofi_rxd makes datagrams as long as the device's MTU allows.
    def test_reliable_datagrams_between_hosts(self):
        self.check_between_hosts(DATAGRAMS[1:], "--mtu", "1500")


if __name__ == "__main__":
    report.main()
