#!/usr/bin/python3
"""libfabric finds the device, and its ping-pong verifies every byte of what reliable datagrams move
over it (its provider ofi_rxd, over UD queue pairs)."""

import re

from harness import report
from harness.cases import InstallationTestCase
from harness.programs import Program, free_tcp_port, run_pair
from harness.wires import FabricWire

ITERATIONS = 100


class LibfabricTest(InstallationTestCase):

    def test_fi_info_describes_the_device(self):
        with FabricWire(self.installation) as wire, \
                Program(wire.command(0, ["fi_info", "-p", "verbs"])) as program:
            output = program.wait()
        self.assertRegex(output, r"domain: uroce0\n")
        self.assertRegex(output, r"domain: uroce0-dgram\n.*\n *type: FI_EP_DGRAM\n")

    def test_reliable_datagrams(self):
        for mode in ("msg", "tagged"):
            with self.subTest(mode):
                # The provider is named, so there is nothing else that it could use.
                port = str(free_tcp_port())
                command = ["fi_pingpong", "-p", "verbs;ofi_rxd", "-e", "rdm", "-m", mode, "-c",
                           "-I", str(ITERATIONS)]
                with FabricWire(self.installation) as wire:
                    outputs = run_pair(wire, [*command, "-B", port],
                                       [*command, "-P", port, "127.0.0.1"], int(port))
                sizes = re.findall(rf"^(\w+) +{ITERATIONS} +={ITERATIONS} ", outputs[1],
                                   re.MULTILINE)
                self.assertEqual(sizes[0], "64")
                self.assertEqual(sizes[-1], "1m")


if __name__ == "__main__":
    report.main()
