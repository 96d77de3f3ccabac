#!/usr/bin/python3
"""The programs with which tools/bench measures print plausible figures.

usage: bench_tools_test.py CACHE_LINE DPDK_FRAMES MEMORY_COPY TCP_PING_PONG UDP_SOCKETS
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tools/bench_tools")
import program_pair  # noqa: E402
import rounds  # noqa: E402

CACHE_LINE, DPDK_FRAMES, MEMORY_COPY, TCP_PING_PONG, UDP_SOCKETS = map(os.path.abspath,
                                                                       sys.argv[1:6])


def run(*command):
    return subprocess.run(command, check=False, text=True, capture_output=True, timeout=60)


class BenchToolsTest(unittest.TestCase):

    def test_the_cache_line_round_trip_is_classified(self):
        output = run(CACHE_LINE).stdout
        if len(os.sched_getaffinity(0)) == 1:
            self.assertEqual(output, "0 one cpu\n")
        else:
            nanoseconds, distance = re.fullmatch(r"(\d+) (near|far|one core)\n", output).groups()
            self.assertGreater(int(nanoseconds), 0)
            classes = ("one core", 45), ("near", 170), ("far", float("inf"))
            if int(nanoseconds) not in (45, 170):  # Printed rounded, classified as measured.
                self.assertEqual(distance, next(name for name, beyond in classes
                                                if int(nanoseconds) < beyond))

    def rounds_with_lines(self, lines, wanted):
        """The rounds chosen of figures 1, 2, 3 ..., with the cache line's classes before and after
        them."""
        figures, lines = iter(range(1, 100)), iter(lines)
        chosen = rounds.comparable_rounds(lambda: (next(figures),), lambda: (60, next(lines)),
                                          wanted)
        return [values[0] for values, _, _ in chosen]

    def test_rounds_count_while_the_processors_stay_near(self):
        self.assertEqual(self.rounds_with_lines(["near"] * 4, 3), [1, 2, 3])
        self.assertEqual(
            self.rounds_with_lines(["near", "near", "far", "near", "near", "near"], 3), [1, 4, 5])
        self.assertEqual(self.rounds_with_lines(["one core"] + ["near"] * 3, 2), [2, 3])

    def test_rounds_end_where_the_processors_stay_far(self):
        self.assertEqual(self.rounds_with_lines(["far"] * 7, 2), [1, 2, 3, 4, 5, 6])
        self.assertEqual(self.rounds_with_lines(["far"] * 4 + ["near"] * 2 + ["far"], 2), [5])

    def test_one_round_is_enough_on_one_cpu(self):
        self.assertEqual(self.rounds_with_lines(["one cpu"] * 2, 3), [1])

    def test_one_cpu_is_no_distance(self):
        self.assertEqual(run("taskset", "-c", str(min(os.sched_getaffinity(0))), CACHE_LINE).stdout,
                         "0 one cpu\n")

    def test_memory_is_copied(self):
        hot, cold = map(float, run(MEMORY_COPY).stdout.split())
        self.assertGreater(min(hot, cold), 0)

    def test_tcp_is_timed_in_both_modes(self):
        for mode in ("blocking", "spinning"):
            median, tail = map(float, run(TCP_PING_PONG, mode).stdout.split())
            self.assertGreater(median, 0)
            self.assertGreaterEqual(tail, median)

    def test_bare_udp_is_measured(self):
        for server, client, count in (("receive", "send", "0.1"), ("receive", "write", "0.1"),
                                      ("echo", "ping", "1000")):
            port = str(program_pair.free_tcp_port())
            output = program_pair.run_pair([UDP_SOCKETS, server, "127.0.0.1", port],
                                           [UDP_SOCKETS, client, "127.0.0.1", port, count, "1056"],
                                           port)
            self.assertGreater(float(output.split()[0]), 0)

    def test_the_frames_of_a_driver_are_counted_where_they_arrive(self):
        stream = ("0.2", "1100", "02:00:00:00:00:01", "10.0.0.1", "10.0.0.2")
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            server, client = (
                f"net_memif0,role={role},socket={folder}/memif,socket-abstract=no"
                for role in ("server", "client"))
            for first, both_ways in ((("receive",), False), (("answer", *stream), True)):
                at_server, at_client = program_pair.run_together(
                    [DPDK_FRAMES, server, *first], [DPDK_FRAMES, client, "send", *stream])
                self.assertGreater(at_server, 0)
                self.assertEqual(at_client > 0, both_ways)

    def test_a_wrong_mode_is_refused(self):
        self.assertEqual(run(TCP_PING_PONG, "dreaming").returncode, 2)
        self.assertEqual(run(UDP_SOCKETS, "dreaming").returncode, 2)
        for no_mtu in ("32", "4129"):
            self.assertEqual(run(UDP_SOCKETS, "write", "127.0.0.1", "1", "1", no_mtu).returncode, 2)
        self.assertEqual(run(DPDK_FRAMES).returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
