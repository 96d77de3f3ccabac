#!/usr/bin/python3
"""What processes of a fabric notice when another one, or uroced, is killed at a random moment, or
stopped: nothing but what a dead host would make them notice, and no wrong byte.

The moments are derived from a seed, which is printed and can be given in FAULT_SEED.
"""

import collections
import contextlib
import itertools
import unittest

from harness import report
from harness.agents import Agent
from harness.daemons import Daemon, wait_for
from harness.faults import REPETITIONS, FaultTimes
from harness.installation import Installation
from harness.members import IMPATIENT, RETRY_EXCEEDED, Member, join, join_all
from harness.wires import IPV4, FabricWire

LANES = 4
VICTIMS_AT_ONCE = 5
# What uroced's allocator may keep back for later of what it once needed.
MEMORY_SLACK_KILOBYTES = 256


class FabricFaultsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.installation = Installation()
        cls.addClassCleanup(cls.installation.remove)
        cls.times = FaultTimes()

    def setUp(self):
        self.running = contextlib.ExitStack()
        self.addCleanup(self.running.close)
        self.wire = FabricWire(self.installation, IPV4)
        self.daemon = self.running.enter_context(Daemon(self.installation, self.wire.fabric))

    def survivors(self, count):
        """Members that are joined all to all, and have to stay so."""
        members = [self.running.enter_context(Member(self.wire, end % 2)) for end in range(count)]
        join_all(members, LANES)
        self.check_traffic(members)
        return members

    def check_traffic(self, members):
        for one, other in itertools.permutations(members, 2):
            one.await_turns(other, 2 * LANES)
            self.assertEqual(one.count(other).failed_lanes, 0)

    def usage(self):
        return self.daemon.memory_kilobytes(), self.daemon.descriptors()

    def test_clients_that_are_killed(self):
        survivors = self.survivors(2)
        blocks = collections.Counter(self.daemon.wait_for_clients(2).values())
        self.kill_some(survivors, blocks)  # What uroced needs from now on it has had once.
        before, descriptors = self.usage()
        for _ in range(REPETITIONS // VICTIMS_AT_ONCE):
            self.kill_some(survivors, blocks)
            self.check_traffic(survivors)
        # A dead process's block is given to nobody: what is sent to it late must not arrive.
        self.assertEqual(set(blocks.values()), {1})
        after, descriptors_now = self.usage()
        print(f"uroced has {before} kB of its own, then {after} kB")
        self.assertEqual(descriptors_now, descriptors)
        self.assertLessEqual(after, before + MEMORY_SLACK_KILOBYTES)

    def kill_some(self, survivors, blocks):
        """Victims talk to the survivors and are killed, each at a moment of its own."""
        with contextlib.ExitStack() as stack:
            victims = [stack.enter_context(Member(self.wire)) for _ in range(VICTIMS_AT_ONCE)]
            for victim, survivor in itertools.product(victims, survivors):
                join(victim, survivor, LANES, IMPATIENT)
            attached = self.daemon.wait_for_clients(len(survivors) + len(victims))
            blocks.update(attached[victim.pid] for victim in victims)
            for victim in victims:
                self.times.pause()
                victim.kill()
            for survivor, victim in itertools.product(survivors, victims):
                self.assertEqual(survivor.await_failures(victim, LANES), {RETRY_EXCEEDED})
                survivor.close(victim)
        self.daemon.wait_for_clients(len(survivors))

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
        """Links to those who came before uroced can be made, too."""
        with Member(self.wire) as newcomer:
            for member in members:
                join(newcomer, member, LANES)
            self.check_traffic([newcomer, *members])
            for member in members:
                member.close(newcomer)
                member.hear()

    def test_uroced_that_is_killed_while_links_are_made(self):
        members = self.survivors(2)
        for _ in range(REPETITIONS // VICTIMS_AT_ONCE):
            with contextlib.ExitStack() as stack:
                newcomers = [stack.enter_context(Member(self.wire))
                             for _ in range(VICTIMS_AT_ONCE)]
                for newcomer in newcomers:  # It is attached once it answers.
                    newcomer.ask("resume")
                for newcomer, member in itertools.product(newcomers, members):
                    join(newcomer, member, 1)
                self.daemon.kill()
                self.times.pause()
                self.daemon.start()
                for newcomer, member in itertools.product(newcomers, members):
                    member.await_turns(newcomer, 2)
                    member.close(newcomer)
        self.check_traffic(members)

    def test_uroced_that_is_killed_and_multicast(self):
        """What goes to a group goes through uroced. Datagrams may be lost, but not for ever."""
        agents = [self.running.enter_context(Agent(self.wire, end % 2)) for end in range(3)]
        for agent in agents:
            agent.ask("join")
        for repetition in range(REPETITIONS):
            self.check_group(agents, repetition % 256)
            self.times.pause()
            self.daemon.kill()
            agents[0].ask("tell 0")  # Nobody is there to hand it on.
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
            one.await_turns(other, 2 * LANES)
            self.times.pause()
            sleeper.resume()
            self.times.pause()
        self.check_traffic(members)


if __name__ == "__main__":
    report.main()
