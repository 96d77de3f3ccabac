#!/usr/bin/python3
"""The harness of the system tests: a program's output is complete, a free port is free."""

import random
import socket
import unittest
import unittest.mock

from harness import report
from harness.length import LONG_RUN, combinations
from harness.programs import Program, free_tcp_port, is_free

LINES = 5000


class ProgramTest(unittest.TestCase):

    def test_output_that_is_read_while_it_is_written_stays_whole(self):
        command = ["sh", "-c", f"i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i + 1)); done"]
        with Program(command) as program:
            while program.process.poll() is None:
                program.output()
            self.assertEqual(program.output().split(), [str(line) for line in range(LINES)])


class CombinationsTest(unittest.TestCase):

    def test_every_value_is_in_one_and_a_long_run_has_all(self):
        few = [(1, "a"), (2, "b"), (3, "a")]
        every = [(number, letter) for number in (1, 2, 3) for letter in "ab"]
        self.assertEqual(combinations((1, 2, 3), "ab"), every if LONG_RUN else few)


class FreePortTest(unittest.TestCase):

    def test_port_is_not_free_while_somebody_listens_at_one_address(self):
        # A build server listens at ::1 only; a client would take it for the test's server.
        addresses = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.1.2.3")]
        if socket.has_dualstack_ipv6():
            addresses.append((socket.AF_INET6, "::1"))
        for family, address in addresses:
            with self.subTest(address), socket.create_server((address, 0), family=family) as server:
                self.assertFalse(is_free(server.getsockname()[1]))

    def test_port_is_free_and_not_one_that_the_kernel_hands_out(self):
        port = free_tcp_port()
        self.assertTrue(is_free(port))
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as ports:
            self.assertLess(port, int(ports.read().split()[0]))

    def test_no_port_is_handed_out_twice(self):
        few = random.Random()
        with unittest.mock.patch("random.randrange", lambda first, _: few.randrange(
                first, first + 20)):
            ports = [free_tcp_port() for _ in range(16)]
        self.assertEqual(len(set(ports)), len(ports))


if __name__ == "__main__":
    report.main()
