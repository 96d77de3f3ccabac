#!/usr/bin/python3
"""QEMU migrates a virtual machine to another QEMU over RDMA: its memory arrives unchanged."""

import json
import os
import shutil
import socket
import unittest

from harness import report
from harness.cases import InstallationTestCase
from harness.daemons import wait_for
from harness.programs import Program, free_tcp_port
from harness.uplinks import UplinkWire
from harness.wires import FabricWire, VethWire

QEMU = "qemu-system-x86_64"
# Emulated, and without a boot device, so that only its firmware runs.
MACHINE = [QEMU, "-machine", "pc,accel=tcg", "-m", "64", "-nodefaults", "-display", "none"]
CONTENT_BYTES = 4_000_000
CONTENT_ADDRESS = 16 << 20  # which the firmware does not use


class Monitor:
    """QEMU's machine protocol, over a Unix socket."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        wait_for(lambda: self._socket.connect_ex(path) == 0, f"listened at {path}")
        self._lines = self._socket.makefile()
        self._lines.readline()  # the greeting
        self.ask("qmp_capabilities")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lines.close()
        self._socket.close()

    def ask(self, command, **arguments):
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        while True:
            answer = json.loads(self._lines.readline())
            if "event" not in answer:
                return answer["return"]


@unittest.skipUnless(shutil.which(QEMU), "QEMU is not installed")
class MigrationTest(InstallationTestCase):

    def setUp(self):
        self.folder = os.path.join(self.installation.scratch, self.id())
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o777)

    def machine(self, wire, end, *options):
        """Starts QEMU; returns the program and its monitor."""
        path = os.path.join(self.folder, f"monitor-{end}")
        program = self.enterContext(Program(wire.command(
            end, [*MACHINE, "-qmp", f"unix:{path},server=on,wait=off", *options])))
        return program, self.enterContext(Monitor(path))

    def check_migration(self, wire):
        content = os.urandom(CONTENT_BYTES)
        before, after = (os.path.join(self.folder, name) for name in ("before", "after"))
        with open(before, "wb") as file:
            file.write(content)
        os.chmod(before, 0o644)
        uri = f"rdma:{wire.host(0)}:{free_tcp_port()}"
        _, target = self.machine(wire, 0, "-incoming", uri)
        source_program, source = self.machine(
            wire, 1, "-device", f"loader,file={before},addr={CONTENT_ADDRESS},force-raw=on")
        source.ask("migrate", uri=uri)

        def is_done():
            state = source.ask("query-migrate")
            self.assertNotEqual(state.get("status"), "failed",
                                f"{state}\n{source_program.output()}")
            return state.get("status") == "completed"
        wait_for(is_done, "migrated")
        wait_for(lambda: target.ask("query-status")["running"], "ran there")
        target.ask("pmemsave", val=CONTENT_ADDRESS, size=CONTENT_BYTES, filename=after)
        with open(after, "rb") as file:
            self.assertEqual(file.read(), content)

    def test_on_a_fabric(self):
        self.check_migration(self.enterContext(FabricWire(self.installation)))

    def test_between_hosts(self):
        if why_not := VethWire.why_not():
            self.skipTest(why_not)
        self.check_migration(self.enterContext(UplinkWire(self.installation)))


if __name__ == "__main__":
    report.main()
