#!/usr/bin/python3
"""Processes that stand still for a while, as under a debugger, in a frozen container or where no
processor is free. On the links of a host nothing fails, nothing is lost, and nothing is sent again,
however short the timeouts are.
"""

import contextlib
import os
import signal
import time

from harness import report
from harness.cases import InstallationTestCase
from harness.daemons import Daemon
from harness.faults import FaultTimes
from harness.installation import MOVER, MPI_EXCHANGE
from harness.jobs import Job, descendants
from harness.length import LONG_RUN
from harness.members import Member, join_all, prepare_to_join
from harness.programs import Program, free_tcp_port, listens, wait_for_both
from harness.wires import IPV4, FabricWire

STANDSTILL_SECONDS = (0.5, 2, 10) if LONG_RUN else (0.5,)
# For so long a link waits for the process that it leads to, or for uroced.
MEETING_SECONDS = 10 if LONG_RUN else 1.5
# Eight timeouts of 4 ms: far less than each standstill.
TIMEOUT, RETRY_COUNT = 10, 7
LANES = 2
RANKS = (8, 16) if LONG_RUN else (4,)


@contextlib.contextmanager
def standing_still(pids):
    """Stops the processes while the `with` block lasts. One that has ended meanwhile is left."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class FrozenPeersTest(InstallationTestCase):
    programs = [MPI_EXCHANGE["openmpi"]]

    def setUp(self):
        self.times = FaultTimes()
        self.running = contextlib.ExitStack()
        self.addCleanup(self.running.close)
        self.wire = FabricWire(self.installation, IPV4)
        self.daemon = self.running.enter_context(Daemon(self.installation, self.wire.fabric))

    def stand_still(self, pids):
        """Stops the processes at a moment of its own, for each length of time."""
        for seconds in STANDSTILL_SECONDS:
            self.times.pause(0.1)
            with standing_still(pids):
                time.sleep(seconds)

    def check_nothing_was_sent_again(self):
        for client in self.daemon.status()["clients"]:
            counters = client["counters"]
            self.assertEqual(counters["retransmitted_packets"], 0, counters)
            self.assertEqual(counters["ack_timeouts"], 0, counters)

    def test_processes_that_write_read_and_send(self):
        members = [self.running.enter_context(Member(self.wire)) for _ in range(3)]
        join_all(members, LANES, (TIMEOUT, RETRY_COUNT))
        one, other, third = (member.pid for member in members)
        for still in ([one], [other, third], [one, other, third], [self.daemon.pid],
                      [one, self.daemon.pid]):
            self.stand_still(still)
            for member in members:
                for peer in members:
                    if peer is not member:
                        member.await_turns(peer, 2)
        self.check_nothing_was_sent_again()

    def test_processes_that_meet_while_one_of_them_or_uroced_stands_still(self):
        for still in ("peer", "uroced"):
            with self.subTest(still), Member(self.wire) as one, Member(self.wire) as other:
                # `other` connects first, and so asks for the link; `one` has the first turn.
                (other_again, connect_other), (_, connect_one) = prepare_to_join(
                    one, other, LANES, (TIMEOUT, RETRY_COUNT))
                self.assertIs(other_again, other)
                with standing_still([one.pid if still == "peer" else self.daemon.pid]):
                    other.tell(connect_other)
                    time.sleep(MEETING_SECONDS)
                self.assertEqual(other.answer(), "ok")
                one.ask(connect_one)
                one.await_turns(other, 2)
                other.await_turns(one, 2)
                self.check_nothing_was_sent_again()

    def test_every_operation(self):
        options = ["--rounds", "4", "--queue-pairs", "4", "--timeout", str(TIMEOUT),
                   "--retry-count", str(RETRY_COUNT)]
        for ends in ((0,), (1,), (0, 1)):
            for events in ([], ["--events"]):
                with self.subTest(ends=ends, events=events):
                    self.move([*options, *events], ends)

    def move(self, options, ends):
        port = free_tcp_port()
        mover = [self.installation.path(MOVER), *options]
        with Program(self.wire.command(0, [*mover, "server", "127.0.0.1", str(port)])) as server:
            server.wait_until(lambda: listens(server.pid, port), f"listened on port {port}")
            with Program(self.wire.command(
                    1, [*mover, "client", "127.0.0.1", str(port)])) as client:
                pids = (server.pid, client.pid)
                self.stand_still([pids[end] for end in ends])
                wait_for_both(server, client)

    def test_datagrams_into_posted_receives(self):
        """The program waits for ever for a datagram that is lost."""
        for end in (0, 1):
            with self.subTest(end=end):
                port = free_tcp_port()
                ping_pong = ["ibv_ud_pingpong", "-g", "1", "-n", "200000", "-p", str(port)]
                with Program(self.wire.command(0, ping_pong)) as server:
                    server.wait_until(lambda: listens(server.pid, port), "listened")
                    with Program(self.wire.command(1, [*ping_pong, "127.0.0.1"])) as client:
                        self.stand_still([(server.pid, client.pid)[end]])
                        wait_for_both(server, client)

    def test_ranks_of_a_job(self):
        os.environ.update(UCX_RC_TIMEOUT="4ms", UCX_RC_RETRY_COUNT="7")
        for ranks in RANKS:
            with self.subTest(ranks=ranks), \
                    Job(self.wire, "openmpi", "RC", ranks, rounds=3, parts="pc") as job:
                for rank in range(3):
                    self.stand_still(self.ranks_of(job, ranks)[rank:rank + 1])
                self.assertGreater(job.verified_bytes(), 0)
                self.check_nothing_was_sent_again()
                job.finish()

    def ranks_of(self, job, count):
        """The processes of the ranks, once all of them are there."""
        program = os.path.basename(MPI_EXCHANGE["openmpi"])
        while True:
            ranks = [pid for pid in descendants(job.pid) if self.is_program(pid, program)]
            if len(ranks) == count:
                return ranks
            time.sleep(0.01)

    @staticmethod
    def is_program(pid, name):
        try:
            return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name
        except OSError:
            return False


if __name__ == "__main__":
    report.main()
