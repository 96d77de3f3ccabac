#!/usr/bin/python3
"""Threads of one program, each on its own engine, and completion queues that unite the engines."""

from harness import report
from harness.cases import InstallationTestCase
from harness.daemons import Daemon, status, wait_for
from harness.installation import THREAD_PAIRS
from harness.programs import Program
from harness.wires import FabricWire

ENGINES = 3


class EnginesTest(InstallationTestCase):
    programs = [THREAD_PAIRS]

    def exchange(self, engines, *arguments, seconds=0.3):
        """Starts a program whose threads verify every message; returns the running program and its
        fabric."""
        wire = FabricWire(self.installation, options=["--engines", str(engines)])
        self.enterContext(Daemon(self.installation, wire.fabric))
        command = wire.command(0, [self.installation.path(THREAD_PAIRS), *arguments,
                                   str(ENGINES), str(seconds)])
        return self.enterContext(Program(command)), wire.fabric

    def test_threads_verify_exchanged_data(self):
        for engines in (1, ENGINES, 64):
            for arguments in (("write", "own"), ("send", "own"), ("send", "tied")):
                with self.subTest(engines=engines, arguments=arguments):
                    program, _ = self.exchange(engines, *arguments)
                    self.assertGreater(float(program.wait()), 0)

    def test_an_engine_is_a_member_of_the_fabric(self):
        for engines, members in ((1, 1), (2, 2), (64, ENGINES)):
            with self.subTest(engines=engines):
                program, fabric = self.exchange(engines, "write", "own", seconds=3)

                def has_queue_pairs(fabric=fabric):
                    clients = status(self.installation, fabric)["clients"]
                    counts = [len(client["queue_pairs"]) for client in clients]
                    return sum(counts) == 2 * ENGINES and clients

                clients = wait_for(has_queue_pairs, "made its queue pairs")
                self.assertEqual(len(clients), members)
                self.assertEqual(len({client["pid"] for client in clients}), 1)
                self.assertGreater(float(program.wait()), 0)


if __name__ == "__main__":
    report.main()
