"""Measures uroce against TCP and memcpy in one run; see tools/bench.

Every figure is the median of some rounds, and printed with the cache-line round trip between two
cpus at that time: figures that involve two cores depend on it, and on virtual machines it changes
within seconds.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import re
import statistics
import sys
import tempfile

import emulated_network
import veth_hosts
from paths import Paths
from program_pair import PairFailed, free_tcp_port, run, run_pair, run_together, started
from rounds import comparable_rounds

MIB = 1 << 20
# Between two processes of a fabric; in direct mode; and from a process of a fabric, through uroced
# and its NIC, to a process in direct mode: the loss against direct mode is the cost of sharing a
# NIC.
WIRES = ("fabric", "memif", "uroced")
WIRE_NAMES = {"fabric": "a fabric's link", "memif": "direct mode, net_memif",
              "uroced": "uroced and its net_memif"}
# Between two hosts: the uplink that a fabric has by default, and a program with sockets of its own.
HOST_WIRES = ("uplink", "udp")
# MTUs of the veth pair, and the bytes of a full datagram at each: path MTU 1024 and 4096, with BTH,
# RETH and ICRC.
MTUS = {1500: 1024 + 32, 9000: 4096 + 32}
# Ethernet, IPv4, UDP and RETH headers; those of a datagram are in MTUS.
HEADERS = 14 + 20 + 8 + 16
# Percent of the frames that each end drops. Without loss they go through the same code and carry
# the same ICRC: what is given for 0 drops one in a hundred million.
DROPS = {"0": "0.000001", "0.1": "0.1", "1": "1"}
# DPDK's drivers of kernel interfaces, and the MTUs that they take.
DRIVERS = {"af_packet": (1500, 9000), "af_xdp": (1500,)}


@dataclasses.dataclass
class Figure:
    name: str
    wire: str  # One of WIRES; uplink_1500; or what it is compared with: "tcp", "memory".
    values: list  # Of its rounds.
    unit: str
    cache_line_ns: float
    distance: str  # "near", "far", "one core" or "one cpu".

    @property
    def value(self):
        return statistics.median(self.values)

    def show(self):
        low, high = min(self.values), max(self.values)
        print(f"  {self.name:<48} {self.wire:<11} {self.value:>10.2f} {self.unit:<12}"
              f" {f'[{low:.2f} .. {high:.2f}]':<20} cache line {self.cache_line_ns:.0f} ns,"
              f" {self.distance}")
        print(f"result name={self.name} wire={self.wire} value={self.value:.4g} unit={self.unit}"
              f" low={low:.4g} high={high:.4g} rounds={len(self.values)}"
              f" cache_line_ns={self.cache_line_ns:.0f} distance={self.distance.replace(' ', '_')}",
              flush=True)


def print_load():
    """Prints how busy the machine is before the measurements: other programs spoil every figure."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    remark = " (it is busy: these figures will say little)" if load > cpus / 2 else ""
    print(f"{cpus} cpus, load average {load:.1f}{remark}")
    print(f"result name=load wire=none value={load:.4g} unit=runnable cpus={cpus}")


def switch_figure(name):
    """Named like our other figures: StraightIntoThePort/64/... is straight_into_the_port_64b."""
    words, size = name.split("/")[:2]
    return re.sub(r"(?<!^)(?=[A-Z])", "_", words).lower() + f"_{size}b"


class Bench:

    def __init__(self, bin_folder, iterations_percent, rounds, scratch):
        self.bin = bin_folder
        self.percent = iterations_percent
        self.rounds = rounds
        self.scratch = scratch
        self.figures = {}
        self.hosts = None  # the hosts that are measured now; None: this host
        self.faults = ()  # options of `uroce run` on a fabric

    def tool(self, name):
        return os.path.join(self.bin, "tools", "bench_tools", name)

    def iterations(self, full):
        return max(1000, full * self.percent // 100)

    def cache_line(self):
        round_trip, _, distance = run([self.tool("cache_line")]).strip().partition(" ")
        return float(round_trip), distance

    def record(self, wire, unit, names, measure):
        """Records a figure for each of the names: `measure()` returns a value for each."""
        rounds = comparable_rounds(measure, self.cache_line, self.rounds)
        for name, values in zip(names, zip(*(values for values, _, _ in rounds))):
            figure = Figure(name, wire, list(values), unit,
                            statistics.median(line for _, line, _ in rounds), rounds[0][2])
            self.figures[name, wire] = figure
            figure.show()

    # Measurements of what users would use instead.

    def measure_memcpy(self):
        self.record("memory", "GB/s", ("memcpy_64k_hot", "memcpy_64k_cold"),
                    lambda: map(float, run([self.tool("memory_copy")]).split()))

    def iperf3(self, *options):
        """Returns the bytes per second that arrive."""
        port = str(free_tcp_port())
        seconds = str(max(1, 5 * self.percent // 100))
        host, server, client = "127.0.0.1", (), ()
        if self.hosts is not None:
            host = veth_hosts.ADDRESSES["server"]
            server, client = map(self.hosts.inside, veth_hosts.SIDES)
        output = run_pair([*server, "iperf3", "-s", "-1", "-B", host, "-p", port],
                          [*client, "iperf3", "-c", host, "-p", port, "-t", seconds, "-J",
                           *options], port, server)
        return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 8

    def measure_tcp_streams(self, wire):
        self.record(wire, "GB/s", ("iperf3",), lambda: (self.iperf3() / 1e9,))
        self.record(wire, "Mmessages/s", ("iperf3_64b",),
                    lambda: (self.iperf3("-l", "64", "--no-delay") / 64 / 1e6,))

    def measure_tcp_latency(self):
        for mode in ("blocking", "spinning"):
            self.record("tcp", "us", (f"ping_pong_2b_{mode}_p50", f"ping_pong_2b_{mode}_p99"),
                        lambda: map(float, run([self.tool("tcp_ping_pong"), mode]).split()))

    # Measurements of uroce.

    def uroce_run(self, wire, side):
        if self.hosts is not None:
            kind = wire.rpartition("_")[0]
            if kind in DRIVERS:
                return self.hosts.uroce_run_as_root(
                    side, "--port", f"net_{kind}0,iface={veth_hosts.INTERFACE}",
                    "--ip", veth_hosts.ADDRESSES[side])
            options = ("--port", "udp") if kind == "udp" else ("--fabric", self.fabric("hosts"))
            return self.hosts.uroce_run(side, *options, *self.faults)
        command = [os.path.join(self.bin, "tools", "uroce"), "run"]
        if wire == "fabric" or (wire == "uroced" and side == "server"):
            return [*command, "--fabric", self.fabric(wire), *self.faults, "--"]
        return [*command, *self.memif_options(wire, side), "--"]

    @staticmethod
    def fabric(wire):
        return f"bench-{wire}-{os.getpid()}"

    def memif_options(self, wire, side):
        path = os.path.join(self.scratch, f"memif-{wire}")
        address = {"server": "10.0.0.1", "client": "10.0.0.2"}[side]
        return ["--port", f"net_memif0,role={side},socket={path}", "--ip", address]

    @contextlib.contextmanager
    def uroced_of(self, wire):
        """Runs the uroced of the wire, if it has one, beside the programs."""
        if wire != "uroced":
            yield
            return
        command = [os.path.join(self.bin, "tools", "uroced"), "--fabric", self.fabric(wire),
                   *self.memif_options(wire, "server")]
        with started(command, "is served"):
            yield

    def perftest(self, wire, program, size, *options):
        """Runs a perftest pair; returns the columns of its line of figures."""
        port = str(free_tcp_port())
        host, gid, inside = "127.0.0.1", "0", ()
        if self.hosts is not None:  # by their IPv4 addresses
            host, gid, inside = veth_hosts.ADDRESSES["server"], "1", self.hosts.inside("server")
        common = [program, "-d", "uroce0", "-x", gid, "-p", port, "-F", "-s", str(size), *options]
        output = run_pair([*self.uroce_run(wire, "server"), *common],
                          [*self.uroce_run(wire, "client"), *common, host], port, inside)
        for line in output.splitlines():
            columns = line.split()
            if columns and columns[0] == str(size):
                return [float(column) for column in columns]
        raise PairFailed(f"{program} printed no figures:\n{output}")

    def measure_bandwidth(self, wire):
        count = str(self.iterations(40000))
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            self.record(
                wire, "GB/s", (f"{program}_64k",),
                lambda: (self.perftest(wire, program, 65536, "-n", count)[3] * MIB / 1e9,))

    def measure_latency(self, wire):
        count = str(self.iterations(100000))

        def percentiles():
            columns = self.perftest(wire, "ib_send_lat", 2, "-n", count)
            return columns[4], columns[7]

        self.record(wire, "us", ("ib_send_lat_2b_p50", "ib_send_lat_2b_p99"), percentiles)

    def measure_message_rate(self, wire):
        count = str(self.iterations(5000000))
        for name, program, options in (
                ("ib_write_bw_64b", "ib_write_bw", ()),
                ("ib_write_bw_64b_postlist_16", "ib_write_bw", ("-l", "16")),
                ("ib_send_bw_64b", "ib_send_bw", ())):
            self.record(wire, "Mmessages/s", (name,),
                        lambda: (self.perftest(wire, program, 64, "-n", count, *options)[4],))

    def measure_loss(self, wire):
        count = str(self.iterations(4000))
        for program in ("ib_write_bw", "ib_read_bw"):
            for drop, option in DROPS.items():
                self.faults = ("--impair", f"drop={option}%")
                self.record(
                    wire, "GB/s", (f"{program}_1m_drop_{drop}",),
                    lambda: (self.perftest(wire, program, MIB, "-n", count)[3] * MIB / 1e9,))
        self.faults = ()

    def print_loss(self, wire):
        for program in ("ib_write_bw", "ib_read_bw"):
            rates = {drop: self.value(f"{program}_1m_drop_{drop}", wire) for drop in DROPS}
            for drop in ("0.1", "1"):
                print(f"  {wire:<24} {f'{program} 1 MiB, {drop} % lost / none':<38}"
                      f" {rates[drop] / rates['0']:8.3f}")

    def measure_threads(self):
        """Threads of one program that exchange messages with themselves, each on its own cpu."""
        seconds = str(max(0.5, 5 * self.percent / 100))
        for engines in (1, 2):
            for threads in (1, 2):
                command = [os.path.join(self.bin, "tools", "uroce"), "run", "--fabric",
                           self.fabric(f"engines-{engines}"), "--engines", str(engines), "--",
                           self.tool("thread_pairs"), "write", "own", str(threads), seconds]
                self.record(f"engines_{engines}", "Mmessages/s",
                            (f"threads_{threads}_write_64b",), lambda: (float(run(command)),))

    def udp_sockets(self, server, client, *options):
        """Runs bare UDP sockets between the hosts; returns what the client printed."""
        port, tool = str(free_tcp_port()), self.tool("udp_sockets")
        address = veth_hosts.ADDRESSES["server"]
        inside = self.hosts.inside("server")
        return run_pair([*inside, tool, server, address, port],
                        [*self.hosts.inside("client"), tool, client, address, port, *options], port,
                        inside)

    def measure_bare_udp(self, mtu):
        seconds = str(max(1, 5 * self.percent // 100))
        for figure, client in (("udp_sockets", "send"), ("udp_sockets_write_64k", "write")):
            stream = ("receive", client, seconds, str(MTUS[mtu]))
            self.record(f"bare_{mtu}", "GB/s", (figure,),
                        lambda stream=stream: (float(self.udp_sockets(*stream)),))
        # A SEND of 2 bytes: BTH, payload, pad, ICRC.
        echo = ("echo", "ping", str(self.iterations(100000)), "20")
        self.record(f"bare_{mtu}", "us", ("udp_sockets_ping_pong_p50",),
                    lambda: (float(self.udp_sockets(*echo).split()[0]),))

    def dpdk_frames(self, driver, mtu, frame_bytes, both_ways):
        """Millions of frames a second that the driver carries by itself."""
        vdev = f"net_{driver}0,iface={veth_hosts.INTERFACE}"
        if driver == "af_packet":  # a ring as uroce's port has it
            slot = 2048 if mtu == 1500 else 5120
            vdev += f",qdisc_bypass=1,framesz={slot},blocksz={4 * slot},framecnt=1024"
        else:
            vdev += ",busy_budget=0"
        seconds = str(max(1, 5 * self.percent // 100))

        def command(side, mode):
            peer = veth_hosts.peer_of(side)
            stream = (seconds, str(frame_bytes), self.hosts.mac(peer), veth_hosts.ADDRESSES[side],
                      veth_hosts.ADDRESSES[peer])
            return [*self.hosts.inside(side), self.tool("dpdk_frames"), vdev, mode,
                    *(stream if mode != "receive" else ())]

        return sum(run_together(command("server", "answer" if both_ways else "receive"),
                                command("client", "send")))

    def measure_driver(self, driver, mtu):
        """Frames a second of WRITEs through uroce's port, beside those of the driver alone."""
        wire, payload = f"{driver}_{mtu}", MTUS[mtu] - 32
        count = str(self.iterations(20000))
        for name, options, both_ways in (("one_way", (), False), ("both_ways", ("-b",), True)):
            def bare():
                return (self.dpdk_frames(driver, mtu, HEADERS + MTUS[mtu] - 16, both_ways),)

            def ours():
                columns = self.perftest(wire, "ib_write_bw", 65536, "-n", count, *options)
                return (columns[3] * MIB / payload / 1e6,)

            self.record(f"bare_{wire}", "Mframes/s", (f"frames_{name}",), bare)
            self.record(wire, "Mframes/s", (f"frames_{name}",), ours)

    def measure_hosts(self, mtu):
        """Between two hosts, each with a user without any capability."""
        with veth_hosts.VethHosts(self.bin, mtu) as self.hosts:
            self.measure_bare_udp(mtu)
            self.measure_tcp_streams(f"tcp_{mtu}")
            for kind in HOST_WIRES:
                wire = f"{kind}_{mtu}"
                self.measure_bandwidth(wire)
                self.measure_latency(wire)
                self.measure_message_rate(wire)
            self.measure_loss(f"uplink_{mtu}")
            for driver, mtus in DRIVERS.items():
                if mtu in mtus:
                    self.measure_driver(driver, mtu)
        self.hosts = None

    def measure_wire(self):
        if problem := veth_hosts.why_not():
            print(f"  not measured: {problem}")
            return
        for mtu in MTUS:
            self.measure_hosts(mtu)
        print("\nbetween two hosts, in proportion:")
        for mtu in MTUS:
            self.print_loss(f"uplink_{mtu}")
            for name, figure, wire, to_figure, to_wire in (
                    ("ib_write_bw 64 KiB, uplink / TCP", "ib_write_bw_64k", "uplink", "iperf3",
                     "tcp"),
                    ("ib_write_bw 64 KiB, uplink / bare UDP", "ib_write_bw_64k", "uplink",
                     "udp_sockets", "bare"),
                    ("the same / bare UDP by the same calls", "ib_write_bw_64k", "uplink",
                     "udp_sockets_write_64k", "bare"),
                    ("ib_write_bw 64 KiB, udp / TCP", "ib_write_bw_64k", "udp", "iperf3", "tcp"),
                    ("ib_write_bw 64 KiB, uplink / udp", "ib_write_bw_64k", "uplink",
                     "ib_write_bw_64k", "udp"),
                    ("ib_write_bw 64 B, uplink / TCP sends", "ib_write_bw_64b", "uplink",
                     "iperf3_64b", "tcp"),
                    ("ib_write_bw 64 B, uplink / udp", "ib_write_bw_64b", "uplink",
                     "ib_write_bw_64b", "udp"),
                    ("ib_send_lat 2 B, uplink / bare UDP", "ib_send_lat_2b_p50", "uplink",
                     "udp_sockets_ping_pong_p50", "bare"),
                    ("ib_send_lat 2 B, uplink / udp", "ib_send_lat_2b_p50", "uplink",
                     "ib_send_lat_2b_p50", "udp")):
                ratio = self.value(figure, f"{wire}_{mtu}") / self.value(to_figure,
                                                                        f"{to_wire}_{mtu}")
                print(f"  MTU {mtu:<20} {name:<38} {ratio:8.3f}")
            for driver, mtus in DRIVERS.items():
                for figure in ("frames_one_way", "frames_both_ways"):
                    if mtu in mtus:
                        wire = f"{driver}_{mtu}"
                        ratio = self.value(figure, wire) / self.value(figure, f"bare_{wire}")
                        print(f"  MTU {mtu:<20} {f'{figure}, {driver} / its driver':<38}"
                              f" {ratio:8.3f}")

    def measure_switch(self):
        """Frames a second into a port that takes every frame, by itself and through the switch."""
        benchmark = os.path.join(self.bin, "tests", "benchmarks", "switch_benchmark")
        command = [benchmark, "--benchmark_format=json",
                   f"--benchmark_min_time={0.5 * self.percent / 100}"]

        def frames():
            output = run(command)
            figures = json.loads(output[output.index("{"):])["benchmarks"]
            return [figure["items_per_second"] / 1e6 for figure in figures]

        names = map(switch_figure, run([benchmark, "--benchmark_list_tests"]).split())
        self.record("switch", "Mframes/s", names, frames)

    def value(self, name, wire):
        return self.figures[name, wire].value

    def print_ratios(self):
        print("\nin proportion:")
        for wire in WIRES:
            bandwidth = self.value("ib_write_bw_64k", wire)
            latency = self.value("ib_send_lat_2b_p50", wire)
            rate = self.value("ib_write_bw_64b", wire)
            ratios = (
                ("ib_write_bw 64 KiB / TCP", bandwidth / self.value("iperf3", "tcp")),
                ("ib_write_bw 64 B / TCP sends", rate / self.value("iperf3_64b", "tcp")),
                ("ib_write_bw 64 KiB / direct mode",
                 bandwidth / self.value("ib_write_bw_64k", "memif")),
                ("ib_write_bw 64 B / direct mode", rate / self.value("ib_write_bw_64b", "memif")),
                ("ib_write_bw 64 KiB / memcpy hot",
                 bandwidth / self.value("memcpy_64k_hot", "memory")),
                ("ib_send_lat 2 B / TCP spinning",
                 latency / self.value("ping_pong_2b_spinning_p50", "tcp")),
                ("ib_send_lat 2 B / TCP blocking",
                 latency / self.value("ping_pong_2b_blocking_p50", "tcp")))
            for name, ratio in ratios:
                print(f"  {WIRE_NAMES[wire]:<24} {name:<34} {ratio:8.3f}")
        self.print_loss("fabric")
        for engines in (1, 2):
            one, two = (self.value(f"threads_{threads}_write_64b", f"engines_{engines}")
                        for threads in (1, 2))
            print(f"  {f'one process, --engines {engines}':<24} {'two threads / one':<34}"
                  f" {two / one:8.3f}")

    def run(self, only_wire):
        print_load()
        if only_wire:
            self.measure_wire()
            return
        print("what users would use instead:")
        self.measure_memcpy()
        self.measure_tcp_streams("tcp")
        self.measure_tcp_latency()
        for wire in WIRES:
            print(f"uroce over {WIRE_NAMES[wire]}:")
            with self.uroced_of(wire):
                self.measure_bandwidth(wire)
                self.measure_latency(wire)
                self.measure_message_rate(wire)
        print("a fabric's link that loses frames:")
        self.measure_loss("fabric")
        print("threads of one program:")
        self.measure_threads()
        print("the wire: two hosts, with a veth pair between them:")
        self.measure_wire()
        print("a frame's way to the NIC:")
        self.measure_switch()
        self.print_ratios()


def measure_paths(bin_folder, tables, seconds):
    print_load()
    if problem := emulated_network.why_not():
        print(f"  not measured: {problem}")
        return
    Paths(bin_folder, seconds).run(tables)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true",
                        help="a tenth of the iterations, three rounds instead of five")
    parser.add_argument("--wire", action="store_true",
                        help="nothing but what goes between two hosts")
    parser.add_argument("--paths", nargs="*", choices=Paths.TABLES, metavar="TABLE",
                        help="nothing but network paths: all tables, or these of "
                             f"{', '.join(Paths.TABLES)}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            if arguments.paths is not None:
                measure_paths(arguments.bin, arguments.paths, 2 if arguments.quick else 4)
                return 0
            percent, rounds = (10, 3) if arguments.quick else (100, 5)
            Bench(arguments.bin, percent, rounds, scratch).run(arguments.wire)
        except PairFailed as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
