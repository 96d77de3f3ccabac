#!/usr/bin/python3
"""Stock programs on two hosts with a router between them, with their defaults: the ping-pongs say
hop limit 1, and each host has a second address that is more like the peer's than its first is."""

import os
import stat
import subprocess
import time

from harness import claims, report
from harness.cases import InstallationTestCase
from harness.installation import MPI_EXCHANGE
from harness.perftest import check_figures, check_no_error
from harness.programs import (LIMIT_SECONDS, Program, ProgramFailed, clean_environment,
                              free_tcp_port, listens, run_pair)
from harness.rdma_cm import run_anew_until_served, run_client, wait_for_server
from harness.routed import ADDRESSES, IPV6, NO_NEIGHBOR, NOWHERE, RoutedWire
from harness.uplinks import listens_on_roce_port

PAIRS = {
    "rping": (["rping", "-s", "-C", "5"], ["rping", "-c", "-C", "5", "-a", "{host}"]),
    "ucmatose": (["ucmatose"], ["ucmatose", "-s", "{host}"]),
    "udaddy": (["udaddy"], ["udaddy", "-s", "{host}"]),
}
# Index 1 is the IPv4 address, and 2 another one.
IPV4_GID = "1"
UNRELIABLE_LIMIT_SECONDS = 20
UNRELIABLE_ATTEMPTS = 3


class RouterTest(InstallationTestCase):
    needs = RoutedWire
    programs = (MPI_EXCHANGE["openmpi"],)

    def setUp(self):
        self.wire = self.enterContext(RoutedWire(self.installation))

    def run_both(self, server, client):
        """Runs a server that does not report when it listens, and its client."""
        def run(head_start):
            with Program(self.wire.command(0, server)) as running:
                running.wait_until(lambda: listens_on_roce_port(running.pid), "opened the device")
                time.sleep(head_start)
                run_client(self.wire.command(1, client))
                wait_for_server(running, server[0])
        run_anew_until_served(run)

    def test_programs_that_connect_by_address(self):
        for name, (server, client) in PAIRS.items():
            for host in (ADDRESSES[0][0], ADDRESSES[0][1]):
                with self.subTest(name=name, host=host):
                    self.run_both(server, [word.format(host=host) for word in client])
        with self.subTest("IPv6"):
            self.run_both(["rping", "-s", "-C", "5", "-a", IPV6[0]],
                          ["rping", "-c", "-C", "5", "-a", IPV6[0]])

    # rc, uc and srq say hop limit 1 in the path of their connection.
    def test_pingpongs(self):
        for service in ("rc", "uc", "srq"):
            with self.subTest(service):
                for output in self.run_pingpong(service):
                    self.assertRegex(output, r"\d+ iters in [\d.]+ seconds")

    def run_pingpong(self, service):
        """A message that an unreliable connection loses is waited for without end: once more."""
        limit = ["timeout", str(UNRELIABLE_LIMIT_SECONDS)] if service == "uc" else []
        for attempts_left in reversed(range(UNRELIABLE_ATTEMPTS if limit else 1)):
            port = free_tcp_port()
            command = [*limit, f"ibv_{service}_pingpong", "-g", IPV4_GID, "-p", str(port)]
            try:
                return run_pair(self.wire, command, [*command, self.wire.host(0)], port)
            except ProgramFailed:
                if attempts_left == 0:
                    raise

    # It says hop limit 1 in its address handle, where it counts.
    def test_hop_limit_of_an_address_handle_ends_at_the_router(self):
        port = free_tcp_port()
        command = ["ibv_ud_pingpong", "-g", IPV4_GID, "-p", str(port)]
        with Program(self.wire.command(0, command)) as server:
            server.wait_until(lambda: listens(server.pid, port), f"listened on port {port}")
            with Program(self.wire.command(1, [*command, self.wire.host(0)])) as client:
                client.wait_until(lambda: "hop limit" in client.output(), "said why")
                self.assertRegex(
                    client.output(),
                    r"packets to 10\.78\.0\.1 were dropped on the way, as their hop limit had run "
                    r"out \(ICMP time exceeded, from 192\.168\.50\.254\)")

    def test_perftest(self):
        for program in ("ib_write_bw", "ib_send_lat"):
            with self.subTest(program):
                port = free_tcp_port()
                command = [program, "-F", "-n", "200", "-p", str(port)]
                for output in run_pair(self.wire, command, [*command, self.wire.host(0)], port):
                    check_no_error(self, output)
                    check_figures(self, output)

    # The GID table has room for 255 of them, as that of mlx5.
    def test_host_with_many_addresses(self):
        addresses = [f"10.78.{third}.{fourth}" for third in (1, 2) for fourth in range(1, 201)]
        self.wire.add_addresses(0, addresses)
        with self.subTest("in the table"):
            self.run_both(["rping", "-s", "-C", "2", "-a", addresses[200]],
                          ["rping", "-c", "-C", "2", "-a", addresses[200]])
        with self.subTest("beyond it"):
            output = self.fails(0, ["rping", "-s", "-a", addresses[-1]])
            self.assertIn("rdma_bind_addr: No such device", output)
            self.assertIn(f"{addresses[-1]} (ENODEV): the address is not in the GID table", output)

    def fails(self, end, command):
        """Runs a program that ends with an error. Returns what it printed."""
        with Program(self.wire.command(end, command)) as program:
            program.process.wait(LIMIT_SECONDS)
            self.assertNotEqual(program.process.returncode, 0)
            return program.output()

    # rping prints the errors of librdmacm.
    def test_address_that_cannot_be_reached(self):
        def rping(host):
            return self.fails(0, ["rping", "-c", "-d", "-a", host])
        with self.subTest("no route"):
            self.wire.namespaces[0].ip("route del default")
            self.assertIn("rdma_resolve_addr: Network is unreachable", rping(NOWHERE))
        with self.subTest("no neighbor"):
            # ETIMEDOUT, after the two seconds that rping waits.
            self.assertRegex(rping(NO_NEIGHBOR), r"RDMA_CM_EVENT_ADDR_ERROR.* error -110")

    def test_open_mpi(self):
        agent = os.path.join(self.installation.scratch, "remote_shell")
        with open(agent, "w", encoding="ascii") as script:
            # mpirun calls it as it calls ssh: HOST COMMAND...
            words = " ".join(self.wire.command(1, ["sh", "-c", '"$*"']))
            script.write(f"#!/bin/sh\nshift\nexec {words}\n")
        os.chmod(agent, os.stat(agent).st_mode | stat.S_IXUSR)
        command = ["mpirun.openmpi", "--allow-run-as-root", "--host",
                   f"{ADDRESSES[0][0]}:1,{ADDRESSES[1][0]}:1", "-n", "2", "--mca",
                   "plm_rsh_agent", agent, "--mca", "pml", "ucx", "--mca", "osc", "ucx",
                   "-x", "UCX_TLS=rc_v,self", self.installation.path(MPI_EXCHANGE["openmpi"]), "1",
                   "pocs"]
        claims.note_start(command)
        done = subprocess.run(self.wire.command(0, command), check=False, capture_output=True,
                              text=True, input="\n", env=clean_environment(),
                              timeout=LIMIT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^verified [1-9]")


if __name__ == "__main__":
    report.main()
