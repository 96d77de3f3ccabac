#!/usr/bin/python3
"""Multicast groups with members on one host and on two hosts, each with the default uplink of a
fabric and a user of its own without any capability."""

import os
import signal
import socket
import subprocess

from harness import installation, report
from harness.agents import TalkingAgent
from harness.cases import InstallationTestCase
from harness.daemons import wait_for
from harness.perftest import check_no_error
from harness.programs import Program, free_tcp_port, run_pair
from harness.uplinks import ROCE_PORT, UplinkWire, joined_groups
from harness.wires import IPV4, IPV6, FabricWire, VethWire

# The group's GID, and the index of the GID that its members send from: link-local, IPv4, IPv6.
GROUPS = {"link-local": ("ff12::1:7", 0),
          "IPv4": ("::ffff:239.1.2.3", 1),
          "IPv4, named as in RoCEv1": ("ff0e::ffff:239.1.2.3", 1),
          "IPv6": ("ff1e::1:7", 2)}
# The groups for mckey, and the addresses to which its ends are bound.
MCKEY_GROUPS = {"239.1.2.3": IPV4, "ff1e::1:7": IPV6}
# A member has room for this many datagrams between two commands.
BURST = 10
HEARD_ENOUGH = 250  # the value of a last datagram


class UdpHostsWire(UplinkWire):
    """Two hosts; on each a program in direct mode has the UDP sockets to itself."""

    def command(self, end, command, user=None, options=()):
        uroce = self.installed.path(installation.UROCE)
        return [*self.user_prefix(end, user), uroce, "run", "--port", "udp", *options, "--",
                *command]


def mckey(wire, end, group, *options):
    """mckey of rdmacm-utils, as a user starts it."""
    return Program(wire.command(end, ["mckey", "-m", group, "-C", "10", "-S", "1000", *options]))


def check_mckey(case, receivers, sender):
    """Checks that each receiver gets the sender's messages. Starts `sender`."""
    with sender:
        case.assertIn("return status 0", sender.wait())
    for receiver in receivers:
        case.assertIn("return status 0", receiver.wait())


class OneHostTest(InstallationTestCase):

    def test_mckey(self):
        for group in MCKEY_GROUPS:
            with self.subTest(group):
                wire = FabricWire(self.installation)
                receivers = [self.enterContext(mckey(wire, 0, group)) for _ in range(2)]
                wait_for(lambda: joined_groups(self.installation, wire.fabric) == 2,
                         "joined the group")
                check_mckey(self, receivers, mckey(wire, 1, group, "-s"))


class MulticastTest(InstallationTestCase):
    needs = VethWire

    def wire(self, **named):
        return self.enterContext(UplinkWire(self.installation, **named))

    def member(self, wire, end, group):
        agent = self.enterContext(TalkingAgent(wire, end))
        self.assertEqual(agent.ask("join {} {}".format(*group)), "ok")
        return agent

    def heard(self, member, value):
        return int(member.ask(f"heard {value}"))

    def is_told(self, member, sentence):
        self.heard(member, 0)  # Messages come before the next answer.
        return any(sentence in line for line in member.sentences)

    def check_all_hear_all(self, members, values):
        """Checks that every member, the sender too, gets every datagram once. Each sends its own
        value."""
        for _ in range(3):
            before = [[self.heard(member, value) for value in values] for member in members]
            for member, value in zip(members, values):
                for _ in range(BURST):
                    self.assertEqual(member.ask(f"tell {value}"), "ok")
            expected = [[count + BURST for count in counts] for counts in before]
            wait_for(lambda: all(self.heard(member, value) >= count
                                 for member, counts in zip(members, expected)
                                 for value, count in zip(values, counts)), "heard it all")
            self.hear_the_last(members)
            self.assertEqual([[self.heard(member, value) for value in values]
                              for member in members], expected)

    def hear_the_last(self, members):
        """Sends last datagrams and waits for them: all earlier ones have arrived then, also excess
        copies."""
        before = [self.heard(member, HEARD_ENOUGH) for member in members]
        for member in members:
            member.ask(f"tell {HEARD_ENOUGH}")
        wait_for(lambda: all(self.heard(member, HEARD_ENOUGH) >= count + len(members)
                             for member, count in zip(members, before)), "heard the last")

    def groups(self, wire, end):
        """The groups that the kernel of that host has joined on the interface of the wire."""
        done = subprocess.run([*wire.prefix(end), "ip", "maddress", "show", "dev", wire.interface],
                              check=True, capture_output=True, text=True)
        return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("\tinet")]

    def check_membership(self, wire, end, group, is_member):
        address = group[0].removeprefix("::ffff:")
        wait_for(lambda: (address in self.groups(wire, end)) == is_member,
                 f"{'joined' if is_member else 'left'} {address}")

    def test_three_members_on_two_hosts(self):
        for name, group in GROUPS.items():
            with self.subTest(name):
                wire = self.wire()
                members = [self.member(wire, end, group) for end in (0, 0, 1)]
                self.check_all_hear_all(members, (1, 2, 3))
                self.assertEqual([member.sentences for member in members], [[]] * 3)

    # The kernel of a host must not pass them datagrams of groups that they did not join.
    def test_members_of_other_groups_hear_nothing(self):
        wire = self.wire()
        members = [self.member(wire, end, GROUPS["IPv4"]) for end in (0, 1)]
        others = [self.member(wire, end, ("::ffff:239.1.2.4", 1)) for end in (0, 1)]
        self.check_all_hear_all(members, (1, 2))
        self.check_all_hear_all(others, (3, 4))
        self.assertEqual([self.heard(member, value) for member in others for value in (1, 2)],
                         [0] * 4)

    def test_group_is_left_with_its_last_member(self):
        wire = self.wire()
        group = GROUPS["IPv4"]
        one, other, far = (self.member(wire, end, group) for end in (0, 0, 1))
        self.check_membership(wire, 0, group, True)
        self.assertEqual(one.ask("leave"), "ok")
        self.check_all_hear_all([other, far], (1, 2))
        self.check_membership(wire, 0, group, True)
        other.kill()
        self.check_membership(wire, 0, group, False)
        self.check_membership(wire, 1, group, True)
        self.assertEqual(one.ask("join {} {}".format(*group)), "ok")
        self.check_all_hear_all([one, far], (3, 4))

    def test_next_uroced_joins_again(self):
        wire = self.wire()
        group = GROUPS["IPv6"]
        members = [self.member(wire, end, group) for end in (0, 0, 1)]
        self.check_all_hear_all(members, (1, 2, 3))
        os.kill(wire.uroced(0), signal.SIGKILL)
        self.check_membership(wire, 0, group, False)
        late = self.member(wire, 0, group)
        self.check_membership(wire, 0, group, True)
        # Each process of that host joins its groups again.
        def hear_the_far_host():
            before = [self.heard(member, 9) for member in members[:2]]
            members[2].ask("tell 9")
            return [self.heard(member, 9) for member in members[:2]] > before
        wait_for(hear_the_far_host, "were members of the next uroced")
        self.check_all_hear_all([*members, late], (1, 2, 3, 4))

    def test_group_is_joined_when_the_port_gets_free(self):
        wire = self.wire()
        group = GROUPS["IPv4"]
        program = ("import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                   f"s.bind(('', {ROCE_PORT})); print('ready', flush=True); sys.stdin.read()")
        with subprocess.Popen([*wire.prefix(0), "python3", "-c", program], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
            self.assertEqual(owner.stdout.readline(), "ready\n")
            near = [self.member(wire, 0, group) for _ in range(2)]
            self.check_all_hear_all(near, (1, 2))  # the members on this host reach each other
            wait_for(lambda: self.are_told_of_the_port(near), "were told of the port")
            owner.stdin.close()
        far = self.member(wire, 1, group)
        self.check_membership(wire, 0, group, True)
        self.check_all_hear_all([*near, far], (3, 4, 5))

    def are_told_of_the_port(self, members):
        """Datagrams to a group have to leave the host; joining it says nothing of other hosts."""
        members[0].ask("tell 9")
        return all(self.is_told(member, "UDP port 4791 of this host is taken")
                   for member in members)

    # Nothing is received on the port there: only uroced's sockets are asked to open.
    def test_datagram_of_another_program_to_the_group_is_dropped(self):
        wire = self.wire()
        group = GROUPS["IPv4"]
        members = [self.member(wire, end, group) for end in (0, 1)]
        program = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                   f"s.setsockopt({socket.IPPROTO_IP}, {socket.IP_MULTICAST_IF}, "
                   f"socket.inet_aton('{IPV4[1]}')); "
                   f"[s.sendto(bytes(n), ('239.1.2.3', {ROCE_PORT})) for n in range(1, 1400, 7)]")
        subprocess.run([*wire.prefix(1), "python3", "-c", program], check=True)
        self.check_all_hear_all(members, (1, 2))

    # Two receivers on the one host, one receiver and the sender on the other.
    def test_mckey(self):
        for group, addresses in MCKEY_GROUPS.items():
            with self.subTest(group):
                wire = self.wire()
                receivers = [self.enterContext(mckey(wire, end, group, "-b", addresses[end]))
                             for end in (0, 0, 1)]
                for end, count in ((0, 2), (1, 1)):
                    wait_for(lambda: wire.joined_groups(end) == count, "joined the group")
                check_mckey(self, receivers, mckey(wire, 1, group, "-b", addresses[1], "-s"))

    def test_mckey_that_has_the_port_to_itself(self):
        for group, addresses in MCKEY_GROUPS.items():
            with self.subTest(group):
                wire = self.enterContext(UdpHostsWire(self.installation))
                receiver = self.enterContext(mckey(wire, 0, group, "-b", addresses[0]))
                self.check_membership(wire, 0, (group,), True)
                check_mckey(self, [receiver], mckey(wire, 1, group, "-b", addresses[1], "-s"))

    # Each end sends and receives, and counts the messages of both.
    def test_perftest(self):
        for mgid, gid_index in (("0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:9", 1),
                                ("255:30:0:0:0:0:0:0:0:0:0:0:0:0:0:9", 2)):
            with self.subTest(mgid):
                wire = self.wire()
                port = free_tcp_port()
                command = ["ib_send_bw", "-F", "-c", "UD", "-g", "-M", mgid, "-x", str(gid_index),
                           "-s", "512", "-n", "100", "-p", str(port)]
                server, client = run_pair(wire, command, [*command, wire.host(0)], port)
                check_no_error(self, server)
                check_no_error(self, client)

    def test_programs_that_have_the_port_to_themselves(self):
        for name, group in GROUPS.items():
            with self.subTest(name):
                wire = self.enterContext(UdpHostsWire(self.installation))
                members = [self.member(wire, end, group) for end in range(2)]
                self.check_all_hear_all(members, (1, 2))


if __name__ == "__main__":
    report.main()
