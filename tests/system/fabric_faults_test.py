#!/usr/bin/python3
"""Processes of a fabric while another one, or uroced, is killed at a random moment, or stopped:
they see no more than if a host had died, and no wrong byte.

The moments are derived from a seed, which is printed and can be given in FAULT_SEED.
"""

import contextlib
import itertools
import time

from harness import report
from harness.agents import Agent
from harness.cases import InstallationTestCase
from harness.daemons import Daemon, descriptors, wait_for, wait_for_descriptors
from harness.faults import REPETITIONS, FaultTimes
from harness.length import LONG_RUN
from harness.members import (IMPATIENT, RETRY_EXCEEDED, Member, join, join_all, pause_all,
                             prepare_to_join, resume_all)
from harness.transient_clients import BLOCKS, attach_and_leave
from harness.wires import IPV4, FabricWire

LANES = 4
VICTIMS_AT_ONCE = 5
CROWD = 21 if LONG_RUN else 8  # has a link for each of the repetitions
assert CROWD * (CROWD - 1) // 2 >= REPETITIONS
# Longer than making a link takes.
LINKING_SECONDS = 0.006
# uroced's allocator may keep this much freed memory. A link has 3,200.
MEMORY_SLACK_KILOBYTES = 256
QUARANTINE_SECONDS = 60  # of a block whose process ended


class FabricFaultsTest(InstallationTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.times = FaultTimes()

    def setUp(self):
        self.running = contextlib.ExitStack()
        self.addCleanup(self.running.close)
        self.wire = FabricWire(self.installation, IPV4)
        self.daemon = self.running.enter_context(Daemon(self.installation, self.wire.fabric))

    def survivors(self, count):
        """Members that are joined all to all, and must stay joined."""
        members = [self.running.enter_context(Member(self.wire, end % 2)) for end in range(count)]
        join_all(members, LANES)
        self.check_traffic(members)
        return members

    def check_traffic(self, members):
        for one, other in itertools.permutations(members, 2):
            one.await_turns(other, 2)
            self.assertEqual(one.count(other).failed_lanes, 0)

    def test_clients_that_are_killed(self):
        survivors = self.survivors(2)
        blocks = set(self.daemon.wait_for_clients(2).values())
        died_at = self.kill_some(survivors)  # From now on uroced needs no more than it had once.
        before = self.daemon.memory_kilobytes()
        links, most = self.daemon.mapped_links(), descriptors(self.daemon.pid)
        for _ in range(REPETITIONS // VICTIMS_AT_ONCE):
            died_at.update(self.kill_some(survivors))
            self.check_traffic(survivors)
        after = self.daemon.memory_kilobytes()
        print(f"uroced has {before} kB in all and of its own, then {after} kB")
        self.assertEqual(self.daemon.mapped_links(), links)
        wait_for_descriptors(self.daemon.pid, most)
        for kilobytes_before, kilobytes in zip(before, after):
            self.assertLessEqual(kilobytes, kilobytes_before + MEMORY_SLACK_KILOBYTES)
        self.check_quarantine(blocks, died_at)

    def kill_some(self, survivors):
        """Victims talk to the survivors and are killed, each at a moment of its own. Returns the
        time of death by block."""
        died_at = {}
        with contextlib.ExitStack() as stack:
            victims = [stack.enter_context(Member(self.wire)) for _ in range(VICTIMS_AT_ONCE)]
            for victim, survivor in itertools.product(victims, survivors):
                join(victim, survivor, LANES, IMPATIENT)
            # One more victim, whose link leads to uroced.
            listener = stack.enter_context(Agent(self.wire, 0))
            listener.ask("join")
            self.assertEqual(self.daemon.mapped_links(), 1)
            doomed = [*victims, listener]
            attached = self.daemon.wait_for_clients(len(survivors) + len(doomed))
            for victim in doomed:
                self.times.pause()
                died_at[attached[victim.pid]] = time.monotonic()
                victim.kill()
            for survivor, victim in itertools.product(survivors, victims):
                self.assertEqual(survivor.await_failures(victim, LANES), {RETRY_EXCEEDED})
                survivor.close(victim)
        self.daemon.wait_for_clients(len(survivors))
        return died_at

    def check_quarantine(self, used, died_at):
        """uroced gives a dead process's block to no other: late frames for it must not arrive."""
        given = [attach_and_leave(self.wire.fabric) for _ in range(BLOCKS)]
        now = time.monotonic()
        self.assertLess(len(set(given)), len(given), "not every block that is free was given")
        dead = {block for block, when in died_at.items() if now - when < QUARANTINE_SECONDS}
        self.assertTrue(dead)
        self.assertEqual((used | dead) & set(given), set())

    def test_uroced_that_is_killed_and_started_anew(self):
        members = self.survivors(3)
        blocks = self.daemon.wait_for_clients(len(members))
        for repetition in range(REPETITIONS):
            self.times.pause()
            self.daemon.kill()
            self.times.pause()
            self.daemon.start()
            self.assertEqual(self.daemon.wait_for_clients(len(members)), blocks)
            if repetition % 10 == 0:
                self.check_traffic(members)
                self.check_newcomer(members)
                self.daemon.wait_for_clients(len(members))
        self.check_traffic(members)

    def check_newcomer(self, members):
        """A newcomer can make links to members that are older than this uroced."""
        with Member(self.wire) as newcomer:
            for member in members:
                join(newcomer, member, LANES)
            self.check_traffic([newcomer, *members])
            for member in members:
                member.close(newcomer)
                member.hear()

    def test_uroced_that_is_killed_while_links_are_made(self):
        """A link is made once and lasts as long as its processes, so each repetition takes another
        pair."""
        members = [self.running.enter_context(Member(self.wire, end % 2)) for end in range(CROWD)]
        pause_all(members)
        pairs = list(itertools.combinations(members, 2))[-REPETITIONS:]
        for pair in pairs:
            self.kill_while_joining(*pair)
        resume_all(members)
        for one, other in pairs:
            one.await_turns(other, 1)

    def kill_while_joining(self, one, other):
        """The member that connects first makes the link."""
        (first, connect_first), (second, connect_second) = prepare_to_join(one, other, 1)
        first.tell(connect_first)
        self.times.pause(LINKING_SECONDS)
        self.daemon.kill()
        self.times.pause()
        self.daemon.start()
        self.assertEqual(first.answer(), "ok")
        second.ask(connect_second)
        resume_all((one, other))
        one.await_turns(other, 2)
        other.await_turns(one, 2)
        pause_all((one, other))

    def test_uroced_that_is_killed_and_multicast(self):
        """Datagrams to a group go through uroced. Some may be lost, but later ones must arrive."""
        agents = [self.running.enter_context(Agent(self.wire, end % 2)) for end in range(3)]
        for agent in agents:
            agent.ask("join")
        for repetition in range(REPETITIONS):
            self.check_group(agents, repetition % 256)
            self.times.pause()
            self.daemon.kill()
            agents[0].ask("tell 0")  # No uroced runs to pass it on.
            self.times.pause()
            self.daemon.start()

    def check_group(self, agents, value):
        speaker, *others = agents
        before = [int(agent.ask(f"heard {value}")) for agent in others]

        def all_have_heard():
            speaker.ask(f"tell {value}")
            return all(int(agent.ask(f"heard {value}")) > heard
                       for agent, heard in zip(others, before))
        wait_for(all_have_heard, f"heard the datagram of {value}")

    def test_a_peer_that_is_stopped(self):
        one, other, sleeper = members = self.survivors(3)
        for _ in range(REPETITIONS):
            sleeper.stop()
            one.await_turns(other, 2)
            self.times.pause()
            sleeper.resume()
            self.times.pause()
        self.check_traffic(members)


if __name__ == "__main__":
    report.main()
