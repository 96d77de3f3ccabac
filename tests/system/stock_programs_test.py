#!/usr/bin/python3
"""The stock programs of ibverbs-utils find the device and talk over a fabric of their own."""

import contextlib
import os
import pathlib

from harness import report
from harness.cases import InstallationTestCase
from harness.programs import Program, ProgramFailed, free_tcp_port, listens, run_pair
from harness.users import all_users
from harness.wires import IPV4, IPV6, FabricWire, VethWire

PINGPONGS = {
    "plain": [],
    "events": ["-e"],
    "one byte": ["-s", "1"],
    "long messages": ["-s", "1048576", "-m", "4096", "-n", "100"],
    "validation": ["-c"],
    "validation of long messages, with events": ["-c", "-e", "-s", "1048576", "-m", "4096",
                                                 "-n", "20"],
}
# Options of ibv_rc_pingpong alone: kinds of memory, and completion timestamps.
MORE_RC_PINGPONGS = {
    "with timestamps": ["-t"],
    "on demand": ["-o"],
    "on demand, prefetched": ["-o", "-P"],
    "on demand, all of it": ["-O"],
    "of the device": ["-j"],
}
XRC_PINGPONGS = {
    "plain": [],
    "events": ["-e"],
    "one byte": ["-s", "1"],
    "long messages": ["-s", "1048576", "-m", "4096", "-n", "50"],
}
# The expected value of every attribute of the device and its port.
DEVINFO = pathlib.Path(__file__).with_name("devinfo.golden.txt")
PROCESSORS = str(os.sysconf("SC_NPROCESSORS_CONF"))

# A datagram is no longer than a packet.
DATAGRAM_PINGPONGS = {
    "plain": [],
    "events": ["-e"],
    "one byte": ["-s", "1"],
    "validation": ["-c"],
}


class StockProgramsTest(InstallationTestCase):

    def wire(self, ips):
        return FabricWire(self.installation, ips)

    def output_of(self, user, *command):
        with Program(self.wire(IPV4).command(0, command, user)) as program:
            return program.wait()

    def test_ibv_devices_lists_the_device(self):
        for user in all_users():
            with self.subTest(user.name):
                self.assertRegex(self.output_of(user, "ibv_devices"), r"\buroce0\s+[0-9a-f]{16}\n")

    def test_ibv_devinfo_describes_the_device(self):
        for user in all_users():
            with self.subTest(user.name):
                output = self.output_of(user, "ibv_devinfo", "-v", "-d", "uroce0")
                expected = DEVINFO.read_text("ascii").replace("PROCESSORS", PROCESSORS)
                self.assertMultiLineEqual(output, expected)

    def check_pingpongs(self, service):
        pingpongs = DATAGRAM_PINGPONGS if service == "ud" else PINGPONGS
        for user in all_users():
            for ips in (IPV4, IPV6):
                for gid_index in ("0", "1"):
                    for name, options in pingpongs.items():
                        with self.subTest(f"{name}, {user.name}, GID {gid_index}, {ips[0]}"):
                            self.pingpong(service, user, ips, ["-g", gid_index, *options])

    def test_rc_pingpong(self):
        self.check_pingpongs("rc")

    def test_rc_pingpong_with_timestamps_and_memory_of_every_kind(self):
        for name, options in MORE_RC_PINGPONGS.items():
            with self.subTest(name):
                self.pingpong("rc", None, IPV4, ["-g", "1", "-c", *options])

    def test_uc_pingpong(self):
        self.check_pingpongs("uc")

    def test_ud_pingpong(self):
        self.check_pingpongs("ud")

    def test_srq_pingpong(self):
        self.check_pingpongs("srq")

    def test_xsrq_pingpong(self):
        for user in all_users():
            for ips in (IPV4, IPV6):
                for gid_index in ("0", "1"):
                    for name, options in XRC_PINGPONGS.items():
                        with self.subTest(f"{name}, {user.name}, GID {gid_index}, {ips[0]}"):
                            self.xsrq_pingpong(user, ips, ["-g", gid_index, *options])

    def test_xsrq_pingpong_of_several_clients(self):
        self.xsrq_pingpong(None, IPV4, ["-g", "1", "-n", "50"], clients=3)

    def xsrq_pingpong(self, user, ips, options, clients=1):
        """Runs a server with a target for each client and one shared receive queue, and its
        clients."""
        wire = self.wire(ips)
        port = free_tcp_port()
        command = ["ibv_xsrq_pingpong", "-p", str(port), *options]
        server_command = wire.command(0, [*command, "-c", str(clients)], user)
        with wire, contextlib.ExitStack() as ends:
            server = ends.enter_context(Program(server_command))
            server.wait_until(lambda: listens(server.pid, port), f"listened on port {port}")
            programs = [ends.enter_context(Program(wire.command(1, [*command, wire.host(0)], user)))
                        for _ in range(clients)]
            for program in [*programs, server]:
                self.assertTrue(program.wait().endswith("success\n"), program.output())

    # Over Ethernet uroce resolves its neighbours' addresses, by ARP and by neighbour discovery.
    def test_every_service_over_ethernet(self):
        if why_not := VethWire.why_not():
            self.skipTest(why_not)
        with VethWire(self.installation, IPV4) as wire:
            for service in ("rc", "uc", "ud", "srq"):
                for gid_index in ("0", "1"):
                    with self.subTest(f"{service}, GID {gid_index}"):
                        self.pingpong_over(wire, service, None, ["-g", gid_index])

    def pingpong(self, service, user, ips, options):
        self.pingpong_over(self.wire(ips), service, user, options)

    def pingpong_over(self, wire, service, user, options):
        port = free_tcp_port()
        command = [f"ibv_{service}_pingpong", "-p", str(port), *options]
        for output in run_pair(wire, command, [*command, wire.host(0)], port, user):
            self.assertRegex(output, r"\d+ iters in [\d.]+ seconds")
            self.assertNotIn("invalid data", output)
            self.assertNotIn("Couldn't", output)

    def test_pingpong_without_a_grh_fails_with_the_reason(self):
        """Without -g, as in the examples that people try first."""
        with self.assertRaises(ProgramFailed) as failed:
            self.pingpong("rc", None, IPV4, [])
        self.assertIn("RoCE has no other route. Set is_global = 1", str(failed.exception))


if __name__ == "__main__":
    report.main()
