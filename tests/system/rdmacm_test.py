#!/usr/bin/python3
"""The stock programs of librdmacm (rdmacm-utils) connect by address and port and move their data,
as their users start them."""

import os
import time
import unittest

from harness import report
from harness.installation import Installation
from harness.programs import LIMIT_SECONDS, Program, ProgramFailed
from harness.wires import IPV4, IPV6, UdpWire

# The port of RoCEv2, as /proc/net/udp has it.
ROCE_PORT = ":12B7 "

# Server and client; "{host}" is the server's address.
PAIRS = {
    "rping": (["rping", "-s", "-C", "5", "-a", "{host}"],
              ["rping", "-c", "-C", "5", "-a", "{host}"]),
    "rping, validated": (["rping", "-s", "-V", "-S", "60000", "-C", "20"],
                         ["rping", "-c", "-V", "-S", "60000", "-C", "20", "-a", "{host}"]),
    "ucmatose": (["ucmatose", "-c", "3", "-C", "10", "-S", "1000"],
                 ["ucmatose", "-c", "3", "-C", "10", "-S", "1000", "-s", "{host}"]),
    "udaddy": (["udaddy", "-c", "2", "-C", "10"],
               ["udaddy", "-c", "2", "-C", "10", "-s", "{host}"]),
    "rdma_server": (["rdma_server"], ["rdma_client", "-s", "{host}"]),
    "rstream": (["rstream", "-S", "1000", "-I", "10", "-C", "10"],
                ["rstream", "-S", "1000", "-I", "10", "-C", "10", "-s", "{host}"]),
    "riostream": (["riostream", "-S", "1000", "-I", "10", "-C", "10"],
                  ["riostream", "-S", "1000", "-I", "10", "-C", "10", "-s", "{host}"]),
}
IPV6_PAIRS = {
    "rping": PAIRS["rping"],
    "ucmatose": (["ucmatose", "-b", "{host}"], ["ucmatose", "-s", "{host}"]),
}
# rping ends so when the client was the first to go.
SERVER_STATUSES = {"rping": (0, 255), "rping, validated": (0, 255)}


def has_device(pid):
    """Whether there is a device in the network namespace of the process."""
    for table in ("udp", "udp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as sockets:
            if ROCE_PORT in sockets.read():
                return True
    return False


class Server(Program):
    """One that clients are started for until a client reaches it: a client that comes before the
    server listens is rejected."""

    def run_client(self, command):
        self.wait_until(lambda: has_device(self.pid), "opened the device")
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            with Program(command) as client:
                try:
                    return client.wait()
                except ProgramFailed as error:
                    gone = self.process.poll() is not None
                    if gone or time.monotonic() > deadline:
                        raise ProgramFailed(f"{error}\nthe server printed:\n{self.output()}"
                                            ) from None


@unittest.skipIf(UdpWire.why_not(), UdpWire.why_not())
class RdmacmTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.installation = Installation()
        cls.addClassCleanup(cls.installation.remove)

    def run_pairs(self, ips, pairs):
        for name, (server, client) in pairs.items():
            with self.subTest(f"{name}, {ips[0]}"), UdpWire(self.installation, ips) as wire:
                in_place = [[word.format(host=wire.host(0)) for word in command]
                            for command in (server, client)]
                with Server(wire.command(0, in_place[0])) as running:
                    running.run_client(wire.command(1, in_place[1]))
                    running.process.wait(LIMIT_SECONDS)
                    self.assertIn(running.process.returncode, SERVER_STATUSES.get(name, (0,)),
                                  running.output())

    def test_pairs(self):
        self.run_pairs(IPV4, PAIRS)

    def test_pairs_over_ipv6(self):
        self.run_pairs(IPV6, IPV6_PAIRS)

    def test_rcopy_copies_a_file(self):
        content = os.urandom(300_000)
        folder = os.path.join(self.installation.scratch, "rcopy")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        source, copy = os.path.join(folder, "source"), os.path.join(folder, "copy")
        with open(source, "wb") as file:
            file.write(content)
        os.chmod(source, 0o644)
        with UdpWire(self.installation, IPV4) as wire, \
                Server(wire.command(0, ["rcopy"])) as server:
            server.run_client(wire.command(1, ["rcopy", source, f"{wire.host(0)}:{copy}"]))
            with open(copy, "rb") as file:
                self.assertEqual(file.read(), content)

    def test_rping_serves_one_client_after_the_other(self):
        with UdpWire(self.installation, IPV4) as wire, \
                Server(wire.command(0, ["rping", "-s", "-P"])) as server:
            client = wire.command(1, ["rping", "-c", "-C", "3", "-a", wire.host(0)])
            for _ in range(3):
                server.run_client(client)
            self.assertIsNone(server.process.poll(), server.output())


if __name__ == "__main__":
    report.main()
