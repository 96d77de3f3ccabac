#!/usr/bin/python3
"""The stock programs of librdmacm (rdmacm-utils) connect by address and port and move their data,
as their users start them."""

import contextlib
import glob
import os
import re
import shutil
import time
import unittest

from harness import report
from harness.cases import InstallationTestCase
from harness.programs import Program, ProgramFailed, free_tcp_port
from harness.rdma_cm import (run_anew_until_served, run_client, run_client_until_served,
                             wait_for_server)
from harness.uplinks import UplinkWire, listens_on_roce_port
from harness.wires import IPV4, IPV6, FabricWire, UdpWire, VethWire

# Server and client; "{host}" is the server's address.
PAIRS = {
    "rping": (["rping", "-s", "-C", "5", "-a", "{host}"],
              ["rping", "-c", "-C", "5", "-a", "{host}"]),
    "rping, validated": (["rping", "-s", "-V", "-S", "60000", "-C", "20"],
                         ["rping", "-c", "-V", "-S", "60000", "-C", "20", "-a", "{host}"]),
    "ucmatose": (["ucmatose", "-c", "3", "-C", "10", "-S", "1000"],
                 ["ucmatose", "-c", "3", "-C", "10", "-S", "1000", "-s", "{host}"]),
    "udaddy": (["udaddy", "-c", "2", "-C", "10"],
               ["udaddy", "-c", "2", "-C", "10", "-s", "{host}"]),
    "rdma_server": (["rdma_server"], ["rdma_client", "-s", "{host}"]),
    "rdma_xserver": (["rdma_xserver"], ["rdma_xclient", "-s", "{host}"]),
    "rdma_xserver, XRC": (["rdma_xserver", "-c", "x"], ["rdma_xclient", "-c", "x", "-s", "{host}"]),
    "rstream": (["rstream", "-S", "1000", "-I", "10", "-C", "10"],
                ["rstream", "-S", "1000", "-I", "10", "-C", "10", "-s", "{host}"]),
}
PERFTEST_PAIRS = {
    name: ([name, "-R", "-n", "100"], [name, "-R", "-n", "100", "{host}"])
    for name in ("ib_write_bw", "ib_send_lat")
}
RSTREAM = ["rstream", "-S", "60000", "-I", "10", "-C", "10"]
# The modes of the programs that show rsockets (-T f and -T s are TCP). A client that polls (-T a)
# is left out: rstream takes the end of its peer for an error, and may poll when both data and the
# end have come.
RSOCKET_PAIRS = {
    f"{program[0]} {server} and {client}": ([*program, *server.split()],
                                            [*program, *client.split(), "-s", "{host}"])
    for program, (server, client) in (
        (RSTREAM, ("-T b", "-T b")),
        (RSTREAM, ("-T n -T v", "-T n -T v")),
        (RSTREAM, ("-T a -T v", "-T v")),
        (RSTREAM, ("-k 10", "-k 10 -T r")),
        (RSTREAM, ("-i 0 -B 1048576 -T v", "-i 512 -B 4096 -T v")),
        (["rstream", "-I", "2", "-C", "2", "-S", "all"], ("-f ip", "-f ip")),
        (["riostream", "-S", "60000", "-I", "2", "-C", "2"], ("-T b -T v", "-T b -T v")),
        (["riostream", "-S", "60000", "-I", "2", "-C", "2"], ("-T a", "-T n")),
    )
}
IPV6_PAIRS = {
    "rping": PAIRS["rping"],
    "ucmatose": (["ucmatose", "-b", "{host}"], ["ucmatose", "-s", "{host}"]),
}


# Turns the sockets of unmodified TCP programs into rsockets of librdmacm.
RSOCKETS = next(iter(glob.glob("/usr/lib/*/rsocket/librspreload.so")), None)


def over_rsockets(command):
    return ["sh", "-c", 'LD_PRELOAD=$0:$LD_PRELOAD exec "$@"', RSOCKETS, *command]


class AddressedWire(FabricWire):
    """Each end has its own address, which the kernel does not have, so TCP does not reach it."""

    def host(self, end):
        return self.ips[end]


def make_file(folder, length):
    """Makes a file that every user may read; returns its path and its content."""
    content = os.urandom(length)
    path = os.path.join(folder, "source")
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o644)
    return path, content


class Server(Program):
    """A server. Over UDP sockets it must have opened the device before a client sends its request:
    the client would repeat the request only after seconds."""

    def __init__(self, wire, command):
        super().__init__(wire.command(0, command))
        self.wire = wire

    def wait_for_device(self):
        if isinstance(self.wire, VethWire):
            self.wait_until(lambda: listens_on_roce_port(self.pid), "opened the device")

    def run_client(self, command):
        self.wait_for_device()
        return run_client_until_served(self, self.wire.command(1, command))


class PairsTestCase(InstallationTestCase):

    def setUp(self):
        self.copies = os.path.join(self.installation.scratch, self.id())
        os.mkdir(self.copies)
        os.chmod(self.copies, 0o777)

    def run_pairs(self, make_wire, pairs):
        for name, pair in pairs.items():
            def run(head_start, pair=pair):
                with make_wire() as wire:
                    self.run_once(wire, pair, head_start)
            with self.subTest(name):
                run_anew_until_served(run)

    def run_pairs_between_hosts(self, pairs):
        with UplinkWire(self.installation) as wire:
            self.run_pairs(lambda: contextlib.nullcontext(wire), pairs)

    def run_once(self, wire, pair, head_start):
        server, client = ([word.format(host=wire.host(0)) for word in command] for command in pair)
        with Server(wire, server) as running:
            running.wait_for_device()
            time.sleep(head_start)
            run_client(wire.command(1, client))
            wait_for_server(running, server[0])

    def check_rcopy(self, wire):
        source, content = make_file(self.copies, 300_000)
        copy = os.path.join(self.copies, "copy")
        with wire, Server(wire, ["rcopy"]) as server:
            server.run_client(["rcopy", source, f"{wire.host(0)}:{copy}"])
            with open(copy, "rb") as file:
                self.assertEqual(file.read(), content)

    def check_persistent_rping(self, wire):
        with wire, Server(wire, ["rping", "-s", "-P"]) as server:
            for _ in range(3):
                server.run_client(["rping", "-c", "-C", "3", "-a", wire.host(0)])
            self.assertIsNone(server.process.poll(), server.output())

    # The server of cmtime goes on after its client.
    def check_cmtime(self, wire):
        with wire, Server(wire, ["cmtime"]) as server:
            output = server.run_client(["cmtime", "-c", "50", "-s", wire.host(0)])
            self.assertRegex(output, r"(?m)^connect +: +[\d.]+")
            self.assertIsNone(server.process.poll(), server.output())

    # The client of fio ends with 0 even if the server refused it.
    def run_fio(self, head_start, wire, server_options, client_options):
        common = ["fio", "--ioengine=rdma", f"--port={free_tcp_port()}", "--bs=64k", "--size=16m"]
        with Server(wire, [*common, "--name=server", "--rw=read", *server_options]) as server:
            server.wait_for_device()
            time.sleep(head_start)
            output = run_client(wire.command(1, [
                *common, "--name=client", "--rw=write", f"--hostname={wire.host(0)}",
                *client_options]))
            if "REJECTED" in output:
                raise ProgramFailed(output)
            self.assertRegex(output, r"WRITE: .* io=16.0MiB")
            server.wait()

    # The client of fio allows no RNR retries: a receiver that verifies its data needs a longer
    # queue than the sender.
    def check_fio(self, wire):
        verified = ["--verb=send", "--verify=crc32c"]
        for name, server_options, client_options in (
                ("write", [], ["--verb=write", "--iodepth=8"]),
                ("read", [], ["--verb=read", "--iodepth=8"]),
                ("verified", [*verified, "--iodepth=128"],
                 [*verified, "--do_verify=0", "--iodepth=4"])):
            with self.subTest(name):
                run_anew_until_served(lambda head_start, server_options=server_options,
                                             client_options=client_options: self.run_fio(
                                                 head_start, wire, server_options, client_options))


class RdmacmTest(PairsTestCase):

    def udp_wire(self, ips):
        if why_not := UdpWire.why_not():
            self.skipTest(why_not)
        return UdpWire(self.installation, ips)

    def test_pairs_on_a_fabric(self):
        self.run_pairs(lambda: FabricWire(self.installation), {**PAIRS, **PERFTEST_PAIRS})

    def test_modes_of_rsockets_on_a_fabric(self):
        self.run_pairs(lambda: FabricWire(self.installation), RSOCKET_PAIRS)

    def test_pairs_of_processes_with_addresses_of_their_own(self):
        for ips in (IPV4, IPV6):
            self.run_pairs(lambda ips=ips: AddressedWire(self.installation, ips),
                           {"rping": PAIRS["rping"]})

    def test_rcopy_on_a_fabric(self):
        self.check_rcopy(FabricWire(self.installation))

    def test_listeners_at_all_addresses_on_a_fabric_without_an_uplink(self):
        pairs = {f"{bound}, {named}": (["rping", "-s", "-C", "5", "-a", bound],
                                       ["rping", "-c", "-C", "5", "-a", named])
                 for bound in ("::", "0.0.0.0", "::1") for named in ("::1", "127.0.0.1")
                 if (bound, named) not in (("0.0.0.0", "::1"), ("::1", "127.0.0.1"))}
        self.run_pairs(lambda: FabricWire(self.installation, options=["--no-uplink"]), pairs)

    def test_persistent_rping_on_a_fabric(self):
        self.check_persistent_rping(FabricWire(self.installation))

    def test_cmtime_on_a_fabric(self):
        self.check_cmtime(FabricWire(self.installation))

    def test_pairs_over_udp(self):
        self.run_pairs(lambda: self.udp_wire(IPV4), PAIRS)

    def test_pairs_over_udp_and_ipv6(self):
        self.run_pairs(lambda: self.udp_wire(IPV6), IPV6_PAIRS)

    def test_rcopy_over_udp(self):
        self.check_rcopy(self.udp_wire(IPV4))

    def test_persistent_rping_over_udp(self):
        self.check_persistent_rping(self.udp_wire(IPV4))


class HostsTest(PairsTestCase):
    """Two hosts, over the default uplink of a fabric."""

    needs = VethWire

    def wire(self):
        return UplinkWire(self.installation)

    def test_pairs(self):
        self.run_pairs_between_hosts({**PAIRS, **PERFTEST_PAIRS})

    def test_rcopy(self):
        self.check_rcopy(self.wire())

    def test_persistent_rping(self):
        self.check_persistent_rping(self.wire())

    def test_cmtime(self):
        self.check_cmtime(self.wire())


class RsocketModesTest(PairsTestCase):
    needs = VethWire

    def test_modes_between_hosts(self):
        self.run_pairs_between_hosts(RSOCKET_PAIRS)


@unittest.skipUnless(RSOCKETS, "librspreload.so is not installed")
class RsocketsTest(InstallationTestCase):
    """TCP programs by librspreload."""

    # Up to release 62 of librdmacm a server that waits in select() or poll() may see an accepted
    # connection after five seconds only: rpoll() misses what its own service thread has accepted.

    def setUp(self):
        self.wire = AddressedWire(self.installation, IPV4)
        self.port = str(free_tcp_port())

    @unittest.skipUnless(shutil.which("iperf3"), "iperf3 is not installed")
    def test_iperf3(self):
        server = over_rsockets(["iperf3", "-s", "-p", self.port])
        client = over_rsockets(["iperf3", "--bidir", "-p", self.port, "-t", "1", "-c",
                                self.wire.host(0)])
        with self.wire, Server(self.wire, server) as running:
            output = running.run_client(client)
            received = re.findall(r"([0-9.]+) [MG]Bytes .* receiver", output)
            self.assertEqual(len(received), 2, output)

    @unittest.skipUnless(all(map(shutil.which, ("curl", "socat", "busybox"))),
                         "curl, socat or busybox is not installed")
    def test_curl_and_web_server(self):
        source, content = make_file(self.installation.scratch, 10_000_000)
        folder, name = os.path.split(source)
        server = over_rsockets(["socat", f"TCP-LISTEN:{self.port}",
                                f"EXEC:busybox httpd -i -h {folder}"])
        copy = os.path.join(self.installation.scratch, "copy")
        client = over_rsockets(["curl", "-sS", "-o", copy,
                                f"http://{self.wire.host(0)}:{self.port}/{name}"])
        with self.wire, Server(self.wire, server) as running:
            running.run_client(client)
            running.wait()
        with open(copy, "rb") as file:
            self.assertEqual(file.read(), content)


@unittest.skipUnless(shutil.which("fio"), "fio is not installed")
class FioTest(PairsTestCase):

    def test_on_a_fabric(self):
        self.check_fio(self.enterContext(FabricWire(self.installation)))

    def test_between_hosts(self):
        if why_not := VethWire.why_not():
            self.skipTest(why_not)
        self.check_fio(self.enterContext(UplinkWire(self.installation)))


if __name__ == "__main__":
    report.main()
