#!/usr/bin/python3
"""A port over UDP sockets for unprivileged users: programs of two users, without any capability, in
two network namespaces; and the messages when the network fails."""


from harness import report
from harness.agents import TalkingAgent, join
from harness.cases import InstallationTestCase
from harness.daemons import wait_for
from harness.installation import MOVER
from harness.perftest import check_figures, check_no_error
from harness.programs import free_tcp_port, run_pair
from harness.users import NOBODY, unprivileged
from harness.wires import IPV4, IPV6, UdpWire

USERS = (NOBODY, NOBODY - 1)

# 2 s, eight times: no machine stalls for as long.
PATIENT = {"timeout": 19, "retry_count": 7}
# 4 ms, twice: for requests that cannot succeed.
HASTY = {"timeout": 10, "retry_count": 1}

PERFTEST = (
    ["ib_write_bw", "-s", "65536", "-n", "100"],
    ["ib_read_bw", "-s", "65536", "-n", "100"],
    ["ib_send_lat", "-s", "64", "-n", "50"],
    ["ib_atomic_lat", "-n", "50"],
)
MOVE = ["--rounds", "2", "--queue-pairs", "2", "--max-message-bytes", "500000", "--arena-bytes",
        "1000000", "--timeout", "19", "--retry-count", "7"]

# No host has this address, and no route leads to it.
NOWHERE = "198.51.100.1"


class TwoUsersWire(UdpWire):
    """Each end has a user of its own."""

    def command(self, end, command, user=None, options=()):
        return super().command(end, command, user or unprivileged(USERS[end]), options)


class UdpTest(InstallationTestCase):
    needs = UdpWire

    def wire(self, ips=IPV4, **named):
        return self.enterContext(TwoUsersWire(self.installation, ips, **named))

    def agents(self, wire):
        return [self.enterContext(TalkingAgent(wire, end)) for end in range(2)]

    def check_succeeds(self, agent, number, value=1, length=100_000):
        self.assertEqual(agent.write(number, value, length).status, "SUCCESS")

    def check_fails(self, agent, number, sentence):
        self.assertEqual(agent.write(number, 1, 100_000).status, "RETRY_EXC_ERR")
        wait_for(lambda: agent.hears(sentence), f"said '{sentence}'")

    def test_two_users_without_capabilities(self):
        for ips in (IPV4, IPV6):
            with self.subTest(ips=ips):
                with TwoUsersWire(self.installation, ips) as wire:
                    with TalkingAgent(wire, 0) as one, TalkingAgent(wire, 1) as other:
                        number, other_number = join(one, other, **PATIENT)
                        self.check_succeeds(one, number)
                        self.check_succeeds(other, other_number, 2)
                        for agent, uid in zip((one, other), USERS):
                            self.check_unprivileged(agent.pid, uid)

    # perftest's own TCP connection does not take an IPv6 address.
    def test_perftest_of_two_users(self):
        wire = self.wire()
        for program in PERFTEST:
            with self.subTest(program=program):
                port = free_tcp_port()
                command = [*program, "-F", "-d", "uroce0", "-x", "1", "-u", "19", "-p", str(port)]
                server, client = run_pair(wire, command, [*command, wire.host(0)], port)
                check_no_error(self, server)
                check_no_error(self, client)
                check_figures(self, client)

    def test_pingpongs_of_two_users(self):
        wire = self.wire()
        for service in ("rc", "uc", "ud", "srq"):
            with self.subTest(service):
                port = free_tcp_port()
                command = [f"ibv_{service}_pingpong", "-g", "1", "-p", str(port)]
                for output in run_pair(wire, command, [*command, wire.host(0)], port):
                    self.assertRegex(output, r"\d+ iters in [\d.]+ seconds")

    def test_mover_of_two_users(self):
        for mtu in (1500, 4200, 9000):
            with self.subTest(mtu=mtu):
                wire = self.wire(mtu=mtu)
                port = free_tcp_port()
                mover = [self.installation.path(MOVER), *MOVE, "--seed", str(mtu)]
                run_pair(wire, [*mover, "server", wire.host(0), str(port)],
                         [*mover, "client", wire.host(0), str(port)], port)

    def test_peer_that_is_gone_is_reported(self):
        one, other = self.agents(self.wire())
        number, _ = join(one, other, **HASTY)
        other.kill()
        self.check_fails(one, number, r"nothing receives RoCEv2 at 10\.11\.12\.2 \(ICMP port "
                                      r"unreachable\): start the peer there")

    def test_address_without_a_route_is_reported(self):
        one, other = self.agents(self.wire())
        number, _ = one.open()
        words = other.open()[1].split()
        octets = bytes(map(int, NOWHERE.split(".")))
        words[2] = (bytes(10) + b"\xff\xff" + octets).hex()
        one.connect(number, " ".join(words), **HASTY)
        self.check_fails(one, number, rf"packets to {NOWHERE} cannot be sent \(Network is "
                                      r"unreachable\): see 'ip route get")

    # A message tells that the path's MTU became smaller than a queue pair's packets, and the queue
    # pair with few retries fails. When the MTU is large again, the patient connection still works.
    def test_decrease_of_the_path_mtu_is_reported(self):
        wire = self.wire()
        one, other = self.agents(wire)
        number, _ = join(one, other, **PATIENT)
        self.check_succeeds(one, number)
        hasty, _ = join(one, other, **HASTY)
        route = f"route replace 10.11.12.0/24 dev {wire.interface}"
        wire.ip(0, f"{route} mtu lock 600")
        self.check_fails(one, hasty, r"packets are too long for the path to 10\.11\.12\.2, whose "
                                     r"MTU is 600: choose a smaller MTU with --mtu")
        wire.ip(0, f"{route} mtu lock 1500")
        self.check_succeeds(one, number, 3)
        self.assertEqual(other.count(0, 3), 100_000)

    # The carrier goes and comes back: the patient connection loses nothing.
    def test_interface_that_goes_down_and_up_loses_nothing(self):
        wire = self.wire()
        one, other = self.agents(wire)
        number, _ = join(one, other, **PATIENT)
        hasty, _ = join(one, other, **HASTY)
        wire.set_interface(1, "down")
        self.assertEqual(one.write(hasty, 1, 100_000).status, "RETRY_EXC_ERR")
        wire.set_interface(1, "up")
        self.check_succeeds(one, number, 4)
        self.assertEqual(other.count(0, 4), 100_000)


if __name__ == "__main__":
    report.main()
