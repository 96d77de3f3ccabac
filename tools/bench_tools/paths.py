"""What uroce reaches on paths that are slow, lossy, reordering or shared, beside TCP cubic on the
same path; see tools/bench."""

import dataclasses
import json
import signal
import subprocess
import time

from emulated_network import RECEIVER, EmulatedNetwork, address, sender
from program_pair import LIMIT_SECONDS, PairFailed, await_listener, free_tcp_port, run

WARM_UP_SECONDS = 1.5
KIB, MIB = 1 << 10, 1 << 20
RATES = {"100M": 100e6, "1G": 1e9}
ROUND_TRIPS_MS = (0.1, 1, 10, 40)
QUEUES = {"32K": 32 * KIB, "256K": 256 * KIB, "1M": MIB, "4M": 4 * MIB}
# Programs, and the direction of their data.
PROGRAMS = {"write": ("ib_write_bw", "forward"), "send": ("ib_send_bw", "forward"),
            "read": ("ib_read_bw", "backward")}
# They sleep until a completion comes; of a WRITE perftest cannot.
EVENTS = {"ib_send_bw": ["-e"], "ib_read_bw": ["-e"]}
# Ethernet header in the emulator's bytes; preamble, FCS and gap besides.
FRAME_OVERHEAD = 24
MESSAGES_WITHOUT_END = "2000000"  # perftest keeps 8 bytes of each


@dataclasses.dataclass
class Outcome:
    """Of some flows in one cell. Shares are of the link's rate."""

    goodput: float  # payload whose PSN was never seen before
    offered: float  # all bytes that entered the path
    resent: float = 0.0  # share of the data packets
    fairness: float = 1.0  # Jain's index of the flows
    flows: tuple = ()  # the goodput of each
    ended: str = ""  # what a program said that ended before it was asked to

    def show(self):
        text = f"{100 * self.goodput:5.1f} %"
        if self.resent >= 0.0005:
            text += f", {100 * self.resent:.1f} % resent"
        if self.offered > 1.05:
            text += f", offered {self.offered:.1f} x"
        if len(self.flows) > 1:
            text += f", Jain {self.fairness:.2f}"
        return text + (f", ENDED: {self.ended}" if self.ended else "")


def jain(values):
    squares = len(values) * sum(value * value for value in values)
    return sum(values) ** 2 / squares if squares else 0.0


def path_of(rate, round_trip_ms, queue, **properties):
    return {"rate": RATES[rate], "delay": round_trip_ms * 500, "queue": QUEUES[queue],
            **properties}


class Pair:
    """A perftest program at a sender and at the receiver, until it is stopped."""

    def __init__(self, network, program, host, size, *options, uroce_options=()):
        port = str(free_tcp_port())
        common = [program, "-d", "uroce0", "-x", "1", "-p", port, "-F", "-s", str(size), "-N",
                  "-n", MESSAGES_WITHOUT_END, *EVENTS.get(program, ()), *options]
        self.host = host
        self._server = self._start([*network.uroce_run(RECEIVER, "--fabric", "paths",
                                                       *uroce_options), *common])
        await_listener(self._server, port, network.inside(RECEIVER))
        self.client = self._start([*network.uroce_run(host, "--fabric", "paths", *uroce_options),
                                   *common, address(RECEIVER)])

    @staticmethod
    def _start(command):
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def stop(self):
        """Ends both programs. Returns what the client said if it had ended by itself."""
        has_ended = self.client.poll() is not None
        for process in (self.client, self._server):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        said = [end_of(process) for process in (self.client, self._server)]
        return reason_in(said[0]) if has_ended else ""


def end_of(process):
    try:
        return process.communicate(timeout=5)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def reason_in(output):
    telling = [line.strip() for line in output.splitlines()
               if "ailed" in line or "uroce" in line.split(":")[0]]
    return (telling or output.strip().splitlines() or ["nothing"])[-1]


class Paths:
    """Measures the cells of the tables in turn, each for `seconds`."""

    def __init__(self, bin_folder, seconds):
        self._bin = bin_folder
        self._seconds = seconds
        self._network = None

    # One cell.

    def roce(self, kind, path, senders=(1,), size=64 * KIB, options=()):
        """Flows of one kind, one from each of the senders."""
        program, direction = PROGRAMS[kind]
        network = self._network
        network.set_path(**path)
        pairs = [Pair(network, program, sender(number), size, *options) for number in senders]
        time.sleep(WARM_UP_SECONDS)
        network.reset_counters()
        time.sleep(self._seconds)
        counters = network.counters()
        ended = [reason for pair in pairs if (reason := pair.stop())]
        return self.outcome(counters, direction, path["rate"], len(pairs), ended)

    @staticmethod
    def outcome(counters, direction, rate, flows, ended):
        seconds, side = counters["seconds"], counters[direction]
        by_host = {}
        fresh = resent = 0
        for stream in side["streams"]:
            fresh += stream["fresh_packets"]
            resent += stream["resent_packets"]
            by_host[stream["host"]] = by_host.get(stream["host"], 0) + stream["fresh_bytes"]
        shares = tuple(sorted(8 * sent / seconds / rate for sent in by_host.values() if sent))
        shares = (0.0,) * (flows - len(shares)) + shares
        offered = sum(volume["bytes_in"] + FRAME_OVERHEAD * volume["frames_in"]
                      for volume in side["traffic"] if volume["kind"] == "roce")
        return Outcome(sum(shares), 8 * offered / seconds / rate,
                       resent / (fresh + resent) if fresh else 0.0, jain(shares), shares,
                       "; ".join(ended))

    def start_tcp(self, number, seconds):
        port = str(free_tcp_port())
        inside = self._network.inside(RECEIVER)
        server = subprocess.Popen([*inside, "iperf3", "-s", "-1", "-p", port],
                                  stdout=subprocess.DEVNULL)
        await_listener(server, port, inside)
        client = subprocess.Popen(
            [*self._network.inside(sender(number)), "iperf3", "-c", address(RECEIVER), "-p", port,
             "-C", "cubic", "-t", str(seconds), "-O", str(WARM_UP_SECONDS), "-J"],
            stdout=subprocess.PIPE, text=True)
        return server, client

    @staticmethod
    def finish_tcp(flow):
        """The bits per second that arrived."""
        server, client = flow
        output = client.communicate(timeout=LIMIT_SECONDS)[0]
        server.wait()
        return json.loads(output)["end"]["sum_received"]["bits_per_second"]

    def tcp(self, path, senders=(1,)):
        self._network.set_path(**path)
        flows = [self.start_tcp(number, self._seconds) for number in senders]
        rates = tuple(self.finish_tcp(flow) / path["rate"] for flow in flows)
        return Outcome(sum(rates), 0.0, 0.0, jain(rates), rates)

    # The tables.

    def report(self, table, cell, who, outcome):
        print(f"  {cell:<34} {who:<6} {outcome.show()}")
        print(f"result name={table} cell={cell.replace(' ', '_')} wire={who} "
              f"goodput={outcome.goodput:.4f} resent={outcome.resent:.4f} "
              f"offered={outcome.offered:.3f} jain={outcome.fairness:.3f} "
              f"ended={'yes' if outcome.ended else 'no'}", flush=True)

    def compare(self, table, cell, path, senders=(1,), size=64 * KIB, kinds=PROGRAMS):
        for kind in kinds:
            self.report(table, cell, kind, self.roce(kind, path, senders, size))
        self.report(table, cell, "cubic", self.tcp(path, senders))

    def one_flow(self):
        for rate in RATES:
            for round_trip in ROUND_TRIPS_MS:
                for queue in ("32K", "256K", "1M"):
                    self.compare("one_flow", f"{rate}, {round_trip} ms, {queue}",
                                 path_of(rate, round_trip, queue), size=MIB)

    def loss(self):
        for round_trip in (0.1, 1, 10):
            for percent in (0, 0.01, 0.1, 1, 3):
                self.compare("loss", f"1G, {round_trip} ms, {percent} % lost",
                             path_of("1G", round_trip, "4M", loss=percent / 100))

    def reordering(self):
        for rate, round_trip, percent, late_by in (
                ("1G", 1, 1, 200), ("1G", 1, 50, 20), ("1G", 1, 50, 200), ("100M", 10, 1, 2000),
                ("100M", 10, 50, 2000)):
            self.compare("reordering", f"{rate}, {round_trip} ms, {percent} % {late_by} us late",
                         path_of(rate, round_trip, "4M", late=percent / 100, late_by=late_by))

    def flows(self):
        for count in (2, 4, 8):
            for queue in ("64K", "256K", "1M", "4M"):
                queues = {"64K": 64 * KIB, **QUEUES}
                path = {**path_of("100M", 1, "1M"), "queue": queues[queue]}
                self.compare("flows", f"100M, 1 ms, {queue}, {count} flows", path,
                             range(1, count + 1), kinds=("send", "read"))
        self.compare("flows", "1G, 1 ms, 1M, 4 flows", path_of("1G", 1, "1M"), range(1, 5),
                     kinds=("send", "read"))

    def beside_tcp(self):
        for rate, queue in (("100M", 64 * KIB), ("100M", 256 * KIB), ("100M", MIB),
                            ("1G", 256 * KIB), ("1G", MIB)):
            for each in (1, 2):
                path = {**path_of(rate, 1, "1M"), "queue": queue}
                self._network.set_path(**path)
                ours, theirs = range(1, each + 1), range(each + 1, 2 * each + 1)
                flows = [self.start_tcp(number, 2 * self._seconds + 3) for number in theirs]
                outcome = self.roce("send", path, ours)
                shares = tuple(self.finish_tcp(flow) / path["rate"] for flow in flows)
                cell = f"{rate}, 1 ms, {queue // KIB}K, {each} and {each}"
                self.report("beside_tcp", cell, "send", outcome)
                self.report("beside_tcp", cell, "cubic",
                            Outcome(sum(shares), 0.0, 0.0, jain(shares), shares))

    def latency(self):
        for queue in ("256K", "1M"):
            path = path_of("100M", 1, queue)
            for beside in ("nothing", "a flow"):
                self._network.set_path(**path)
                bulk = (Pair(self._network, "ib_send_bw", sender(2), 64 * KIB)
                        if beside == "a flow" else None)
                time.sleep(WARM_UP_SECONDS)
                p50, p99 = self.send_latency()
                if bulk:
                    bulk.stop()
                cell = f"100M, 1 ms, {queue}, beside {beside}"
                print(f"  {cell:<34} p50 {p50 / 1000:.2f} ms, p99 {p99 / 1000:.2f} ms")
                print(f"result name=latency cell={cell.replace(' ', '_')} p50_us={p50:.0f} "
                      f"p99_us={p99:.0f}", flush=True)

    def send_latency(self):
        port, network = str(free_tcp_port()), self._network
        common = ["ib_send_lat", "-d", "uroce0", "-x", "1", "-p", port, "-F", "-s", "64", "-n",
                  "1000"]
        server = subprocess.Popen([*network.uroce_run(RECEIVER, "--fabric", "paths"), *common],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        await_listener(server, port, network.inside(RECEIVER))
        output = run([*network.uroce_run(sender(1), "--fabric", "paths"), *common,
                      address(RECEIVER)])
        server.wait()
        for line in output.splitlines():
            columns = line.split()
            if columns and columns[0] == "64":
                return float(columns[4]), float(columns[7])
        raise PairFailed(f"ib_send_lat printed no figures:\n{output}")

    def outages(self):
        path = path_of("100M", 1, "256K")
        for timeout in (14, 20):
            for seconds in (0.3, 0.5, 1, 3, 10):
                self._network.set_path(**path)
                pair = Pair(self._network, "ib_send_bw", sender(1), 64 * KIB, "-u", str(timeout))
                time.sleep(WARM_UP_SECONDS)
                self._network.take_down(seconds)
                time.sleep(seconds)
                self._network.reset_counters()
                after = self.time_until_data(20)
                reason = pair.stop()
                survived = after is not None and not reason
                print(f"  {f'-u {timeout}, {seconds} s':<34} "
                      + (f"data after {after:.3f} s" if survived else f"died: {reason}"))
                print(f"result name=outage cell=-u_{timeout},_{seconds}_s "
                      f"survived={'yes' if survived else 'no'} after_s={after or -1:.3f}",
                      flush=True)

    def time_until_data(self, limit_seconds):
        """Seconds until a packet with data that was never sent before enters the path, or None."""
        started = time.monotonic()
        while time.monotonic() - started < limit_seconds:
            counters = self._network.counters()
            if any(stream["fresh_packets"] for stream in counters["forward"]["streams"]):
                return time.monotonic() - started
            time.sleep(0.005)
        return None

    TABLES = {"one_flow": (one_flow, 1), "loss": (loss, 1), "reordering": (reordering, 1),
              "flows": (flows, 8), "beside_tcp": (beside_tcp, 4), "latency": (latency, 2),
              "outages": (outages, 1)}

    def run(self, tables):
        for name in tables or self.TABLES:
            measure, senders = self.TABLES[name]
            print(f"{name.replace('_', ' ')}:")
            with EmulatedNetwork(self._bin, senders) as self._network:
                measure(self)
