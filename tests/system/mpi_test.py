#!/usr/bin/python3
"""Open MPI and MPICH over UCX and uroce: the ranks verify every byte that they exchange, and the
device's counters show that uroce moved them.
"""

from harness import report
from harness.cases import InstallationTestCase
from harness.installation import MPI_EXCHANGE
from harness.jobs import LAUNCHERS, TRANSPORTS, Job
from harness.length import LONG_RUN
from harness.users import all_users
from harness.wires import FabricWire

# Ranks, and rounds of each job.
JOBS = {2: 10, 4: 5, 8: 3} if LONG_RUN else {4: 1}
STARTS = 20 if LONG_RUN else 2
STARTING_RANKS = (2, 4, 8) if LONG_RUN else (8,)


def parts(library, transport):
    """The parts of the program to run (tests/system/mpi/exchange.cc)."""
    if (library, transport) == ("openmpi", "UD"):
        # Not one-sided: at its end, Open MPI 4.1's osc/ucx destroys a rank's worker without waiting
        # for the others. A late rank then sends its unacknowledged data to a queue pair that is
        # gone, and UCX aborts it after 30 s. Over reliable connections the late rank waits until
        # retry_cnt is used up, 10 s a peer, and then ends without an error.
        return "poc"
    return "pocs"


class MpiTest(InstallationTestCase):
    programs = MPI_EXCHANGE.values()

    def check(self, library, transport, ranks, **settings):
        with FabricWire(self.installation) as wire, \
                Job(wire, library, transport, ranks, **settings) as job:
            verified = job.verified_bytes()
            clients = job.clients()
            job.finish()
        self.assertGreater(verified, 0)
        self.assertEqual(len(clients), ranks)
        received = sum(client["counters"]["received_bytes"] for client in clients)
        self.assertGreaterEqual(received, verified)

    def test_every_kind_of_traffic(self):
        for library in LAUNCHERS:
            for transport in TRANSPORTS:
                for ranks, rounds in JOBS.items():
                    with self.subTest(f"{library}, {transport}, {ranks} ranks"):
                        self.check(library, transport, ranks, rounds=rounds,
                                   parts=parts(library, transport))

    def test_starts_in_a_row(self):
        for library in LAUNCHERS:
            for transport in TRANSPORTS:
                for ranks in STARTING_RANKS:
                    for start in range(STARTS):
                        with self.subTest(f"{library}, {transport}, {ranks} ranks, start {start}"):
                            self.check(library, transport, ranks, parts="c")

    def test_an_unprivileged_user(self):
        for library in LAUNCHERS:
            with self.subTest(library):
                self.check(library, "RC", 2, user=all_users()[-1])


if __name__ == "__main__":
    report.main()
