#!/usr/bin/python3
"""uroce against Linux rdma_rxe in a virtual machine: the rows of the matrix, in both directions.

A long run tries every row, a short one those of `is_short`.

Writes the outcomes to matrix.json among the test's undeclared outputs; write_matrix makes the table
in the README from it.
"""

import json
import os
import re
import sys
import tempfile
import time
import unittest

# The harness of the system tests, which start the same programs.
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
                             "system"))

import matrix
from harness import report
from harness.agents import Agent, join
from harness.daemons import wait_for
from harness.installation import AGENT, MOVER
from harness.length import LONG_RUN
from harness.programs import LIMIT_SECONDS, Program
from rows import GROUPS, PATIENT_TIMEOUT, all_rows, is_short
from rows_test_case import RowsTest
from vm.machine import RXE_SETUP
from wire import RXE, UROCE, Wire

OUTCOME_FILE = "matrix.json"


class RxeTest(RowsTest):

    outcomes = {}

    @classmethod
    def setUpClass(cls):
        cls.network = cls.make_network()
        cls.folder, cls.guest = cls.start_machine(RXE_SETUP, [MOVER, AGENT])

    @classmethod
    def tearDownClass(cls):
        folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
        if folder:
            with open(os.path.join(folder, OUTCOME_FILE), "w", encoding="utf-8") as file:
                json.dump(cls.outcomes, file, indent=1)

    def wire(self, row):
        options = []
        if row.fault.impair:
            options += ["--impair", row.fault.impair]
        if row.fault.rules:
            file, path = tempfile.mkstemp(suffix=".json", dir=self.folder)
            os.write(file, row.fault.scenario().encode())
            os.close(file)
            options += ["--scenario", path]
        return Wire(self.guest, row.port, row.ip, options)

    def retries(self, _, wire, server):
        """Once the serving end has been stopped, a request fails after its retries, and the
        requests behind it are flushed."""
        client = UROCE if server is RXE else RXE
        with Agent(wire, server) as silent, Agent(wire, client) as agent:
            # rxe treats a retry_cnt of 7 as endless.
            number, _ = join(agent, silent, timeout=PATIENT_TIMEOUT, retry_count=2)
            self.assertEqual(agent.write(number, 1, 100000).status, "SUCCESS")
            # rxe is in a kernel, which cannot be stopped: unplug its machine instead.
            stop, resume = ((self.guest.unplug, self.guest.plug) if server is RXE
                            else (silent.stop, silent.resume))
            stop()
            try:
                self.assertEqual(agent.write(number, 2, 100).status, "RETRY_EXC_ERR")
                self.assertEqual(agent.write(number, 3, 100).status, "WR_FLUSH_ERR")
            finally:
                resume()

    def connection_manager(self, row, wire, server):
        words = {"host": wire.address(server)}
        commands = [[word.format(**words) for word in (row.program, *row.options, *options)]
                    for options in row.end_options]
        wire.run_connected(server, *commands)

    def mckey(self, row, wire, server):
        """The server does not show when it has joined: clients send until it has all its
        messages."""
        def mckey(end, *options):
            return Program(wire.command(end, [row.program, *row.options, "-b", wire.address(end),
                                              *options]))
        with mckey(server) as receiver:
            deadline = time.monotonic() + LIMIT_SECONDS
            while receiver.process.poll() is None and time.monotonic() < deadline:
                with mckey(wire.other(server), "-s") as sender:
                    self.assertIn("return status 0", sender.wait())
            self.assertIn("return status 0", receiver.wait())

    def group(self, row, wire, server):
        """The server receives each datagram that the client sends to the group exactly once."""
        group = ("::ffff:" if row.ip == "IPv4" else "") + GROUPS[row.ip]
        value, last = 1, 2
        client = wire.other(server)
        with (self.guest.in_group(GROUPS[row.ip]), wire.one_interface(),
              Agent(wire, server) as receiver, Agent(wire, client) as sender):
            for agent, end in ((receiver, server), (sender, client)):
                self.assertEqual(agent.ask(f"join {group} {wire.gid(end)}"), "ok")
            for _ in range(10):
                self.assertEqual(sender.ask(f"tell {value}"), "ok")
            self.assertEqual(sender.ask(f"tell {last}"), "ok")
            wait_for(lambda: receiver.ask(f"heard {last}") != "0", "heard the last datagram")
            self.assertEqual(receiver.ask(f"heard {value}"), "10")

    def run_row(self, row, server):
        kinds = {"ping-pong": self.ping_pong, "perftest": self.perftest, "mover": self.mover,
                 "retries": self.retries, "connection manager": self.connection_manager,
                 "mckey": self.mckey, "group": self.group}
        direction = matrix.DIRECTIONS[0 if server is RXE else 1]
        both = self.outcomes.setdefault(matrix.key_of(row), {})
        both[direction] = "FAILED"
        try:
            kinds[row.kind](row, self.wire(row), server)
        except Exception:
            if self.guest.has_crashed():
                print(self.guest.console_output().decode(errors="replace"))
                print("the kernel of the virtual machine has crashed: once more with a new one")
            elif self.guest.lost_its_network():
                print("the virtual machine has lost its network: once more with a new one")
            else:
                raise
            self.guest.restart()
            kinds[row.kind](row, self.wire(row), server)
        both[direction] = "ok"


def add_tests():
    for number, row in enumerate(all_rows()):
        if not (LONG_RUN or is_short(row)):
            continue
        for server in (RXE, UROCE):
            def test(self, row=row, server=server):
                self.run_row(row, server)
            side = "rxe" if server is RXE else "uroce"
            words = re.sub(r"\W+", "_", f"{row.group} {row.name} {row.fault.name}")
            setattr(RxeTest, f"test_{number:03}_{words}_{side}_serves", test)


add_tests()

if __name__ == "__main__":
    report.main()
