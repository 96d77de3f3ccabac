#!/usr/bin/python3
"""What tools/bench measures with prints figures that can be figures.

usage: bench_tools_test.py CACHE_LINE MEMORY_COPY TCP_PING_PONG
"""

import os
import re
import subprocess
import sys
import unittest

CACHE_LINE, MEMORY_COPY, TCP_PING_PONG = map(os.path.abspath, sys.argv[1:4])


def run(*command):
    return subprocess.run(command, check=False, text=True, capture_output=True, timeout=60)


class BenchToolsTest(unittest.TestCase):

    def test_the_cache_line_round_trip_is_classified(self):
        output = run(CACHE_LINE).stdout
        if len(os.sched_getaffinity(0)) == 1:
            self.assertEqual(output, "0 one cpu\n")
        else:
            nanoseconds, distance = re.fullmatch(r"(\d+) (near|far)\n", output).groups()
            self.assertGreater(int(nanoseconds), 0)
            if int(nanoseconds) != 250:  # Printed rounded, classified as measured.
                self.assertEqual(distance, "near" if int(nanoseconds) < 250 else "far")

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

    def test_a_wrong_mode_is_refused(self):
        self.assertEqual(run(TCP_PING_PONG, "dreaming").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
