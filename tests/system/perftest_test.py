#!/usr/bin/python3
"""perftest with every kind of traffic: both ends finish, and nothing completes in error.

A long run tries every variant with every program. A short run tries each variant with the first
program that has its options, and all programs without options.

usage: perftest_test.py fabric|memif [unittest arguments]
"""

import sys
import unittest

from harness import report
from harness.cases import InstallationTestCase
from harness.length import LONG_RUN
from harness.perftest import check_figures, check_no_error
from harness.programs import free_tcp_port, run_pair
from harness.wires import IPV4, FabricWire, MemifWire

WIRES = {wire.name: wire for wire in (FabricWire, MemifWire)}
WIRE = WIRES[sys.argv.pop(1)]

# The programs for each service, and the letters of the options that each has and VARIANTS needs.
PROGRAMS = {
    "RC": {
        "ib_send_bw": "abeIlLqsS",
        "ib_send_lat": "aeILs",
        "ib_write_bw": "abIlLq",
        "ib_write_lat": "aIL",
        "ib_read_bw": "abelLq",
        "ib_read_lat": "aeL",
        "ib_atomic_bw": "Abelq",
        "ib_atomic_lat": "Ae",
    },
    "XRC": {
        "ib_send_bw": "abelLqS",
        "ib_send_lat": "ae",
        "ib_write_bw": "ablLq",
        "ib_write_lat": "a",
        "ib_read_bw": "abelLq",
        "ib_read_lat": "ae",
        "ib_atomic_bw": "Abelq",
        "ib_atomic_lat": "Ae",
    },
    "UC": {
        "ib_send_bw": "abeIlLqs",
        "ib_send_lat": "aeILs",
        "ib_write_bw": "abIlLq",
        "ib_write_lat": "aIL",
    },
    "UD": {
        "ib_send_bw": "abeIlgqs",
        "ib_send_lat": "aeIs",
    },
}

# By name: the letters of the options that a program must have, and the arguments.
VARIANTS = {
    "as it is": ("", []),
    "ibv_post_send instead of ibv_wr_*": ("", ["--use_old_post_send"]),
    "all sizes": ("a", ["-a", "-n", "5"]),
    "long messages": ("L", ["-s", "8388608", "-n", "20"]),
    "both directions": ("b", ["-b"]),
    "events": ("e", ["-e"]),
    "8 queue pairs": ("q", ["-q", "8"]),
    "8 queue pairs, both directions": ("bq", ["-b", "-q", "8"]),
    "8 queue pairs, events": ("eq", ["-e", "-q", "8", "-n", "50"]),
    # After an event perftest 4.5 polls once for some of the receives, and waits for another event
    # (its pull request 138): the next arming must raise one for the rest.
    "8 queue pairs, both directions, events": ("beq", ["-b", "-e", "-q", "8", "-n", "50"]),
    "inline": ("I", ["-I", "256", "-s", "256"]),
    "lists of requests": ("l", ["-l", "4"]),
    "compare and swap": ("A", ["-A", "CMP_AND_SWAP"]),
    # Nothing slows down an unreliable sender: perftest's queue is long enough for one only.
    "shared receive queue": ("s", ["--use-srq"]),
    "8 queue pairs, shared receive queue": ("S", ["--use-srq", "-q", "8"]),
    # perftest uses an IPv6 group, so it must send from the link-local GID.
    "multicast": ("g", ["-g", "-x", "0"]),
}
if WIRE is MemifWire:
    # Direct mode differs from the fabric below the transport only.
    VARIANTS = {name: VARIANTS[name] for name in ("as it is", "long messages",
                                                  "8 queue pairs, both directions",
                                                  "8 queue pairs, events",
                                                  "8 queue pairs, shared receive queue",
                                                  "multicast")}

ITERATIONS = 200


class PerftestTest(InstallationTestCase):

    def check(self, service, program, options):
        port = free_tcp_port()
        command = [program, "-F", "-d", "uroce0", "-c", service, "-x", "1", "-p", str(port),
                   "-n", str(ITERATIONS), *options]
        with WIRE(self.installation, IPV4) as wire:
            outputs = run_pair(wire, command, [*command, wire.host(0)], port)
        for output in outputs:
            check_no_error(self, output)
        check_figures(self, outputs[1])

    @unittest.skipUnless(WIRE is FabricWire, "the same in direct mode")
    def test_RC_every_queue_pair_of_a_process(self):
        """Each has 128 requests before the first poll, which comes after the ACK timeout."""
        self.check("RC", "ib_write_bw", ["-q", "16384", "-s", "64", "-n", "400", "--noPeak"])

    def check_variant(self, service, name):
        needed, options = VARIANTS[name]
        programs = [program for program, known in PROGRAMS[service].items()
                    if set(needed) <= set(known)]
        if options and not LONG_RUN:
            programs = programs[:1]
        for program in programs:
            with self.subTest(program):
                self.check(service, program, options)


def add_tests():
    for service, programs in PROGRAMS.items():
        for name, (needed, _) in VARIANTS.items():
            if not any(set(needed) <= set(known) for known in programs.values()):
                continue

            def test(self, service=service, name=name):
                self.check_variant(service, name)
            words = "".join(c if c.isalnum() else "_" for c in name)
            setattr(PerftestTest, f"test_{service}_{words}", test)


add_tests()

if __name__ == "__main__":
    report.main()
