"""Shared by the tests with virtual machines: starting a machine, and running a row."""

import atexit
import os
import shutil
import tempfile
import unittest

from harness.installation import MOVER
from rows import PATIENT_TIMEOUT
from vm.kernel import Unavailable
from vm.machine import Machine, Network
from wire import RXE

GUEST_AGENT = "tests/interop/vm/guest_agent"
PERFTEST_ERRORS = ("Completion with error", "Failed status", "Couldn't", "Unable to", "Failed to")


def is_result(line):
    """Whether it is a line of perftest's table: a message size, the iterations, figures."""
    words = line.split()
    return len(words) >= 4 and words[0].isdigit() and words[1].isdigit()


class RowsTest(unittest.TestCase):

    @classmethod
    def make_network(cls):
        if why_not := Network.why_not():
            raise unittest.SkipTest(why_not)
        return cls.enterClassContext(Network())

    @classmethod
    def start_machine(cls, setup, programs, libraries=()):
        """Starts a machine; returns its folder and the machine. `programs` and `libraries` are
        ours."""
        folder = tempfile.mkdtemp(prefix="uroce-interop-", dir="/tmp")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        try:
            guest = Machine(folder, cls.network, setup, [GUEST_AGENT, *programs], libraries)
        except Unavailable as reason:
            raise unittest.SkipTest(str(reason)) from None
        return folder, cls.enterClassContext(guest)

    def ping_pong(self, row, wire, server):
        def command(end, peer, port):
            path_mtu = ["-m", str(row.path_mtu)] if row.path_mtu else []
            return [row.program, "-g", wire.gid(end), "-p", str(port), *path_mtu, *row.options,
                    *([peer] if peer else [])]
        for output in wire.run_pair(server, command):
            self.assertNotIn("invalid data", output)

    def perftest(self, row, wire, server):
        def command(end, peer, port):
            return [row.program, "-F", "-d", end.device, "-x", wire.gid(end), "-p", str(port),
                    "-u", str(PATIENT_TIMEOUT), "-m", str(row.path_mtu), *row.options,
                    *([peer] if peer else [])]
        outputs = wire.run_pair(server, command)
        for output in outputs:
            for error in PERFTEST_ERRORS:
                self.assertNotIn(error, output)
        self.assertTrue(any(map(is_result, outputs[1].splitlines())), outputs[1])

    def mover(self, row, wire, server):
        plain = ["--plain", "server" if server is RXE else "client"] if row.rxe_is_plain else []

        def command(end, peer, port):
            role = "client" if peer else "server"
            return [wire.installed.path(MOVER), "--gid-index", wire.gid(end),
                    "--path-mtu", str(row.path_mtu), *plain, *row.options, role,
                    peer or end.host, str(port)]
        for output in wire.run_pair(server, command):
            self.assertRegex(output, r"(?m)^mover: seed=.*\bbytes=[1-9]")
