"""A receiver and several senders behind one bottleneck: the network emulator of the system tests,
and hosts with taps."""

import json
import os
import subprocess

from hosts import Hosts

EMULATOR = "tests/system/network/network_emulator"
INTERFACE = "tap0"
RECEIVER = "receiver"
MTU = 1500
# TCP as on a server that talks to far peers; nothing is remembered of the cell before.
TCP_SETTINGS = ("net.ipv4.tcp_no_metrics_save=1", "net.ipv4.tcp_wmem=4096 16384 16777216",
                "net.ipv4.tcp_rmem=4096 131072 16777216")
# A queue of the host itself must not drop what the emulator would have taken.
TRANSMIT_QUEUE = 20000


def sender(number):
    return f"sender{number}"


def address(name):
    """The host's address: 10.77.0.1 of the receiver, 10.77.0.11 of the first sender."""
    return f"10.77.0.{1 if name == RECEIVER else 10 + int(name.removeprefix('sender'))}"


def why_not():
    """Why there can be no such network here, or None."""
    if os.geteuid() != 0:
        return "network namespaces with tap devices need root"
    probe = subprocess.run(["unshare", "--net", "ip", "tuntap", "add", INTERFACE, "mode", "tap"],
                           check=False, capture_output=True, text=True)
    return f"no tap device can be made: {probe.stderr.strip()}" if probe.returncode else None


class EmulatedNetwork(Hosts):
    """The hosts RECEIVER and sender(1) to sender(`senders`), for a `with` block."""

    def __init__(self, bin_folder, senders):
        self.senders = [sender(number) for number in range(1, senders + 1)]
        super().__init__(bin_folder, [RECEIVER, *self.senders])
        self._emulator = None

    def __enter__(self):
        super().__enter__()
        hosts = [RECEIVER, *self.senders]
        taps = [f"tap-{number}" for number in range(len(hosts))]
        self._emulator = subprocess.Popen(
            ["unshare", "--net", os.path.join(self.bin, EMULATOR), *taps], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self._answer("ready")
        for tap, host in zip(taps, hosts):
            subprocess.run(["nsenter", f"--net=/proc/{self._emulator.pid}/ns/net", "ip", "link",
                            "set", tap, "netns", str(self.pid(host))], check=True)
            self.ip(host, f"link set {tap} name {INTERFACE} txqueuelen {TRANSMIT_QUEUE} mtu {MTU}")
            for setting in (f"net.ipv6.conf.{INTERFACE}.accept_dad=0", *TCP_SETTINGS):
                subprocess.run([*self.inside(host), "sysctl", "-qw", setting], check=True)
            self.ip(host, f"address add {address(host)}/24 dev {INTERFACE}")
            self.ip(host, f"link set {INTERFACE} up")
        return self

    def __exit__(self, *arguments):
        if self._emulator is not None:
            self._emulator.communicate()
        super().__exit__(*arguments)

    def set_path(self, **properties):
        """Properties of tests/system/network/bottleneck.h; those that are not given are as of a
        perfect network."""
        perfect = {"rate": 0, "queue": 1 << 20, "mark": 0, "mtu": 0, "delay": 0, "jitter": 0,
                   "loss": 0, "burst": 0, "burst_frames": 1, "late": 0, "late_by": 0}
        words = [f"{key} {value}" for key, value in {**perfect, **properties}.items()]
        self._command(f"set {' '.join(words)}")

    def take_down(self, seconds):
        self._command(f"down {seconds}")

    def reset_counters(self):
        self._command("reset")

    def counters(self):
        """What the emulator has counted since reset_counters, see traffic.h."""
        self._emulator.stdin.write("stats\n")
        self._emulator.stdin.flush()
        return json.loads(self._emulator.stdout.readline())

    def _command(self, line):
        self._emulator.stdin.write(line + "\n")
        self._emulator.stdin.flush()
        self._answer("ok")

    def _answer(self, expected):
        answer = self._emulator.stdout.readline().strip()
        if answer != expected:
            raise RuntimeError(f"the network emulator said '{answer}'")
