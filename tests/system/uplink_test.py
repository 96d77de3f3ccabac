#!/usr/bin/python3
"""The default uplink of a fabric: programs of two users, without any capability and without any
option, in two network namespaces; and the messages when the network fails."""

import concurrent.futures
import ipaddress
import itertools
import os
import signal
import subprocess

from harness import installation, report, users
from harness.agents import TalkingAgent, join
from harness.cases import InstallationTestCase
from harness.daemons import wait_for
from harness.hosts import Namespace
from harness.perftest import check_figures, check_no_error
from harness.programs import Program, free_tcp_port, run_pair
from harness.uplinks import ROCE_PORT, USERS, UplinkWire, listens_on_roce_port
from harness.users import NOBODY, unprivileged
from harness.wires import IPV4, IPV6, VethWire

# 2 s, eight times: no machine stalls for as long.
PATIENT = {"timeout": 19, "retry_count": 7}
# 4 ms, twice: for requests that cannot succeed.
HASTY = {"timeout": 10, "retry_count": 1}
# No host has this address, and no route leads to it.
NOWHERE = "198.51.100.1"
GID_CHANGE = "18"  # IBV_EVENT_GID_CHANGE

PERFTEST = (
    ["ib_write_bw", "-s", "65536", "-n", "100"],
    ["ib_read_lat", "-s", "65536", "-n", "50"],
    ["ib_send_bw", "-s", "65536", "-n", "100", "--use-srq"],
    ["ib_send_lat", "-s", "4096", "-n", "50", "-c", "UC"],
    ["ib_send_lat", "-n", "50", "-c", "UD"],
    # The server of this one names no address, as it only receives.
    ["ib_send_bw", "-n", "20", "-s", "1000", "-c", "UD"],
)


class UplinkTest(InstallationTestCase):
    needs = VethWire

    def wire(self, **named):
        return self.enterContext(UplinkWire(self.installation, **named))

    def agent(self, wire, end):
        return self.enterContext(TalkingAgent(wire, end))

    def agents(self, wire):
        return [self.agent(wire, end) for end in range(2)]

    def check_fails(self, agent, number, sentence):
        self.assertEqual(agent.write(number, 1, 100_000).status, "RETRY_EXC_ERR")
        self.check_hears(agent, sentence)

    def check_hears(self, agent, sentence):
        wait_for(lambda: agent.hears(sentence), f"said '{sentence}'")

    def connect_to(self, agent, address):
        """Connects to an address without an agent; returns the connection's number."""
        number, _ = agent.open()
        words = agent.open()[1].split()
        octets = bytes(map(int, address.split(".")))
        words[2] = (bytes(10) + b"\xff\xff" + octets).hex()
        agent.connect(number, " ".join(words), **HASTY)
        return number

    def test_pingpongs(self):
        wire = self.wire()
        for service in ("rc", "uc", "ud", "srq"):
            for gid in ("0", "1", "2"):  # link-local, IPv4, IPv6
                with self.subTest(service=service, gid=gid):
                    port = free_tcp_port()
                    command = [f"ibv_{service}_pingpong", "-g", gid, "-p", str(port)]
                    for output in run_pair(wire, command, [*command, wire.host(0)], port):
                        self.assertRegex(output, r"\d+ iters in [\d.]+ seconds")

    def test_xsrq_pingpong(self):
        wire = self.wire()
        for gid in ("0", "1", "2"):
            with self.subTest(gid=gid):
                port = free_tcp_port()
                command = ["ibv_xsrq_pingpong", "-g", gid, "-p", str(port)]
                for output in run_pair(wire, [*command, "-c", "1"], [*command, wire.host(0)], port):
                    self.assertTrue(output.endswith("success\n"), output)

    # Runs as one user: perftest leaves a file in /tmp behind, which another user could not open.
    def test_xrc_perftest(self):
        wire = self.wire()
        port = free_tcp_port()
        command = ["ib_send_bw", "-c", "XRC", "-s", "65536", "-n", "100", "-F", "-p", str(port)]
        server, client = run_pair(wire, command, [*command, wire.host(0)], port, users.caller())
        check_no_error(self, server)
        check_no_error(self, client)
        check_figures(self, client)

    # The device has an MTU of 4096, and the path between the hosts one of 1024.
    def test_perftest(self):
        wire = self.wire()
        for program in PERFTEST:
            with self.subTest(program=program):
                port = free_tcp_port()
                command = [*program, "-F", "-p", str(port)]
                server, client = run_pair(wire, command, [*command, wire.host(0)], port)
                check_no_error(self, server)
                check_no_error(self, client)
                check_figures(self, client)

    def test_programs_of_one_host_listen_nowhere(self):
        wire = self.wire()
        one, other = self.agent(wire, 0), self.agent(wire, 0)
        number, other_number = join(one, other, **PATIENT)
        self.check_write(one, number, other, other_number, 1)
        self.assertFalse(wire.listens(0))
        far = self.agent(wire, 1)
        number, far_number = join(one, far, **PATIENT)
        self.assertTrue(wire.listens(0))
        self.check_write(one, number, far, far_number, 2)
        # Programs of one host still have a link of their own.
        self.check_write(one, 0, other, other_number, 3)
        self.assertEqual(one.sentences + other.sentences + far.sentences, [])

    def test_two_hosts_are_of_users_without_capabilities(self):
        wire = self.wire()
        number, other_number = join(*(agents := self.agents(wire)), **PATIENT)
        self.check_write(agents[0], number, agents[1], other_number, 1)
        for end, uid in enumerate(USERS):
            self.check_unprivileged(wire.uroced(end), uid)

    def test_port_in_use_is_reported(self):
        wire = self.wire()
        one, other = self.agents(wire)
        program = ("import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                   f"s.bind(('', {ROCE_PORT})); print('ready', flush=True); sys.stdin.read()")
        with subprocess.Popen([*wire.prefix(0), "python3", "-c", program], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
            self.assertEqual(owner.stdout.readline(), "ready\n")
            number, _ = join(one, other, **HASTY)
            self.check_hears(one, "UDP port 4791 of this host is taken, by another uroce or by the "
                                  "kernel's rdma_rxe")
            self.assertEqual(one.write(number, 1, 100).status, "RETRY_EXC_ERR")
            owner.stdin.close()
        number, other_number = join(one, other, **PATIENT)
        self.check_write(one, number, other, other_number, 2)

    def test_address_without_a_route_is_reported(self):
        one = self.agent(self.wire(), 0)
        number = self.connect_to(one, NOWHERE)
        sentence = rf"packets to {NOWHERE} cannot be sent \(Network is unreachable\): see 'ip route"
        self.check_hears(one, sentence)  # before anything is sent
        self.check_fails(one, number, sentence)

    def test_unreachable_address_is_reported_to_its_user_only(self):
        wire = self.wire()
        one, other = self.agent(wire, 0), self.agent(wire, 0)
        number = self.connect_to(one, IPV4[1])  # the other host exists, without a program on it
        self.check_fails(one, number, r"nothing receives RoCEv2 at 10\.11\.12\.2 \(ICMP port "
                                      r"unreachable\): start the peer there with 'uroce run'")
        other.open()
        self.assertFalse(other.hears(""))

    def test_no_uplink(self):
        wire = self.wire()
        wire.options.append("--no-uplink")
        with Program(wire.command(0, ["ibv_devinfo", "-v"])) as program:
            output = program.wait()
        self.assertRegex(output, r"GID\[  1\]:\t\t::ffff:127\.0\.0\.1,")
        one = self.agent(wire, 0)
        number = self.connect_to(one, IPV4[1])
        self.assertEqual(one.write(number, 1, 100).status, "RETRY_EXC_ERR")
        self.assertFalse(wire.listens(0))
        # A later program cannot add an uplink to this fabric.
        wire.options[:] = ["--uplink", "udp"]
        refused = subprocess.run(wire.command(0, ["true"]), check=False, capture_output=True,
                                 text=True)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertRegex(refused.stderr, r"\Auroce run: this fabric has no uplink of UDP sockets: "
                                         r"choose a fabric of another name[^\n]*\.\n\Z")

    def test_address_of_the_uplink_is_chosen(self):
        wire = self.wire()
        wire.ip(0, f"address add 10.11.12.77/24 dev {wire.interface}")
        wire.options += ["--uplink", "udp,address=10.11.12.77"]
        with Program(wire.command(0, ["ibv_devinfo", "-v"])) as program:
            output = program.wait()
        self.assertRegex(output, r"GID\[  1\]:\t\t::ffff:10\.11\.12\.77,")
        self.assertNotRegex(output, r"10\.11\.12\.1,")

    def test_host_without_a_network_stays_local(self):
        with Namespace() as namespace:
            def run(*command):
                uroce = self.installation.path(installation.UROCE)
                return Program([*namespace.prefix, *unprivileged(NOBODY).prefix, uroce, "run",
                                "--fabric", f"uplink-{os.getpid()}-lo", "--", *command])
            with run("ibv_devinfo", "-v") as program:
                self.assertRegex(program.wait(), r"GID\[  1\]:\t\t::ffff:127\.0\.0\.1,")
            self.assertFalse(listens_on_roce_port(namespace.pid))

    # This holds in the steady state: uroced only prepares the path.
    def test_frames_to_another_host_do_not_cross_uroced(self):
        wire = self.wire()
        one, other = self.agents(wire)
        number, other_number = join(one, other, **PATIENT)
        before = [wire.frames_at_uroced(end) for end in range(2)]
        self.check_write(one, number, other, other_number, 1)
        self.check_write(other, other_number, one, number, 2)
        self.assertEqual([wire.frames_at_uroced(end) for end in range(2)], before)

    # The kernel steers frames of four peers to each process.
    def test_four_processes_a_side_talk_to_all_of_the_other_side(self):
        wire = self.wire()
        sides = [[self.agent(wire, end) for _ in range(4)] for end in range(2)]
        writes = []  # from, its number, to, its number, the value
        for pair in itertools.product(*sides):
            for one, other in (pair, pair[::-1]):  # a connection for each direction
                number, other_number = join(one, other, **PATIENT)
                writes.append((one, number, other, other_number, len(writes) + 1))

        def write_all(agent):
            return [agent.write(number, value, 100_000).status
                    for one, number, _, _, value in writes if one is agent]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for statuses in pool.map(write_all, sides[0] + sides[1]):
                self.assertEqual(statuses, ["SUCCESS"] * 4)
        for _, _, other, other_number, value in writes:
            self.assertEqual(other.count(other_number, value), 100_000)

    def test_process_that_is_killed_takes_no_other_with_it(self):
        wire = self.wire()
        killed, one, another = (self.agent(wire, 0) for _ in range(3))
        far = self.agent(wire, 1)
        pairs = [(near, *join(near, far, **PATIENT)) for near in (killed, one, another)]
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            near, number, _ = pairs[2]
            writes = pool.submit(lambda: [near.write(number, value, 100_000).status
                                          for value in range(200)])
            killed.kill()
            self.assertEqual(writes.result(), ["SUCCESS"] * 200)
        for value, (near, number, far_number) in enumerate(pairs[1:], start=1):
            self.check_write(near, number, far, far_number, value)
            self.check_write(far, far_number, near, number, value + 10)
        # The indices of the sockets have changed for the last process.
        far_number, number = join(far, late := self.agent(wire, 0), **PATIENT)
        self.check_write(far, far_number, late, number, 7)

    def check_gid(self, agent, index, address):
        """Checks an entry of the GID table in ibv_query_gid and sysfs; None: the entry is free."""
        gid = ipaddress.ip_address(address or "::")
        gid = ipaddress.ip_address(f"::ffff:{gid}") if gid.version == 4 else gid
        in_verbs, in_sysfs = agent.ask(f"gid {index}").split()
        self.assertEqual(ipaddress.ip_address(in_verbs), gid)
        self.assertEqual(in_sysfs, gid.exploded)

    # Entry 1 is IPv4, 2 is IPv6.
    def test_address_that_goes_ends_its_connections_alone(self):
        wire = self.wire()
        one, other = self.agents(wire)
        number, _ = join(one, other, **HASTY)
        by_ipv6, other_by_ipv6 = (self.enterContext(TalkingAgent(wire, end, gid_index=2))
                                  for end in range(2))
        number_by_ipv6, other_number_by_ipv6 = join(by_ipv6, other_by_ipv6, **PATIENT)
        self.check_gid(one, 1, IPV4[0])
        self.check_gid(one, 2, IPV6[0])
        wire.ip(0, f"address del {IPV4[0]}/24 dev {wire.interface}")
        for agent in (one, by_ipv6):
            self.assertEqual(agent.ask("event"), GID_CHANGE)
            self.check_gid(agent, 1, None)
            self.check_gid(agent, 2, IPV6[0])
        self.assertEqual(one.write(number, 1, 100).status, "RETRY_EXC_ERR")
        self.check_write(by_ipv6, number_by_ipv6, other_by_ipv6, other_number_by_ipv6, 2)

        wire.ip(0, f"address add {IPV4[0]}/24 dev {wire.interface}")
        self.assertEqual(by_ipv6.ask("event"), GID_CHANGE)
        self.check_gid(by_ipv6, 1, IPV4[0])
        late = self.agent(wire, 0)
        number, other_number = join(late, other, **PATIENT)
        self.check_write(late, number, other, other_number, 3)

    def test_rdma_cm_id_gets_an_event_when_its_address_goes(self):
        wire = self.wire()
        command = ["stdbuf", "--output=L", "rping", "-s", "-d", "-a", wire.host(0)]
        with Program(wire.command(0, command)) as server:
            server.wait_until(lambda: "rdma_listen" in server.output(), "listened")
            wire.ip(0, f"address del {IPV4[0]}/24 dev {wire.interface}")
            server.wait_until(lambda: "RDMA_CM_EVENT_ADDR_CHANGE" in server.output(),
                              "heard of the change of its address")

    def test_address_that_comes_can_be_used(self):
        wire = self.wire()
        one, other = self.agents(wire)
        number, other_number = join(one, other, **PATIENT)
        wire.ip(0, f"address add 10.11.12.77/24 dev {wire.interface}")
        self.assertEqual(one.ask("event"), GID_CHANGE)
        self.check_gid(one, 3, "10.11.12.77")
        self.check_write(one, number, other, other_number, 1)
        at_new = self.enterContext(TalkingAgent(wire, 0, gid_index=3))
        number, other_number = join(at_new, other, **PATIENT)
        self.check_write(at_new, number, other, other_number, 2)
        self.check_write(other, other_number, at_new, number, 3)

    # Data moves without uroced. The next uroced, which a program starts, has new sockets for all.
    def test_uroced_that_is_killed_and_started_anew(self):
        wire = self.wire()
        one, other = self.agents(wire)
        number, other_number = join(one, other, **PATIENT)
        self.check_write(one, number, other, other_number, 1)
        killed = wire.uroced(0)
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: wire.uroced(0) is None, "ended")
        self.check_write(one, number, other, other_number, 2)
        self.check_write(other, other_number, one, number, 3)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            writes = pool.submit(lambda: [other.write(other_number, 4, 100_000).status
                                          for _ in range(500)])
            late = self.agent(wire, 0)
            late.open()
            self.assertEqual(writes.result(), ["SUCCESS"] * 500)
        self.assertNotEqual(wire.uroced(0), killed)
        self.check_write(one, number, other, other_number, 5)
        late_number, other_number = join(late, other, **PATIENT)
        self.check_write(other, other_number, late, late_number, 6)


if __name__ == "__main__":
    report.main()
