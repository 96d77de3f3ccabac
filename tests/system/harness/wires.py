"""The wires between two processes: how `uroce run` is to be called at either end."""

import ipaddress
import itertools
import os
import subprocess

from harness import installation
from harness import users

_names = itertools.count()


class Wire:
    """Ends are 0 and 1. `options` are options of `uroce run` for both ends, e.g. --impair.

    Without `ips` the ends have the address that `uroce run` gives a program on its own.
    """

    name = None

    def __init__(self, installed, ips=None, options=()):
        self.installed = installed
        self.ips = ips
        self.options = list(options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def host(self, end):
        """A TCP address at which the other end reaches this one."""
        del end
        return "127.0.0.1"

    def port_options(self, end):
        raise NotImplementedError

    def command(self, end, command, user=None, options=()):
        """The command that runs `command` with the device of that end."""
        user = user or users.caller()
        uroce = self.installed.path(installation.UROCE)
        address = ["--ip", self.ips[end]] if self.ips else []
        return [*user.prefix, uroce, "run", *address, *self.port_options(end), *self.options,
                *options, "--", *command]


class FabricWire(Wire):
    """A fabric of its own without a NIC: shared-memory links between any number of processes.

    Several processes of one end have the same address.
    """

    name = "fabric"

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.fabric = f"system-test-{os.getpid()}-{next(_names)}"

    def port_options(self, end):
        return ["--fabric", self.fabric]


class EnginesWire(FabricWire):
    """A FabricWire on which each process has several engines."""

    name = "engines"

    def port_options(self, end):
        return [*super().port_options(end), "--engines", "3"]


class MemifWire(Wire):
    """Direct mode: each end has a DPDK of its own, and memif between them."""

    name = "memif"

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.socket = os.path.join(self.installed.scratch, f"memif-{next(_names)}")

    def port_options(self, end):
        role = ("server", "client")[end]
        return ["--port", f"net_memif0,role={role},socket={self.socket}"]


class VethWire(Wire):
    """Direct mode over a veth pair between two network namespaces of its own. Needs root.

    A namespace lives as long as a process in it, which ends with its standard input, so nothing is
    left behind however the test ends.
    """

    name = "veth"
    interface = "veth0"

    def __init__(self, *arguments, mtu=1500, **named):
        super().__init__(*arguments, **named)
        self.mtu = mtu
        self.namespaces = []

    @staticmethod
    def why_not():
        """The reason why it cannot be used here, or None."""
        if os.geteuid() != 0:
            return "network namespaces with a veth pair need root"
        probe = subprocess.run(["unshare", "--net", "ip", "link", "add", "name", "veth0", "type",
                                "veth", "peer", "name", "veth1"],
                               check=False, capture_output=True, text=True)
        if probe.returncode != 0:
            return f"no veth pair can be made here: {probe.stderr.strip()}"
        return None

    def __enter__(self):
        for _ in range(2):
            namespace = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && cat"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.namespaces.append(namespace)
            assert namespace.stdout.readline() == "ready\n"
        # Linux reports a carrier at once if the indices of the two interfaces differ, and after up
        # to a second if they are equal (linkwatch_urgent_event).
        self._inside(0, "ip", "link", "add", "name", self.interface, "index", "100", "type", "veth",
                     "peer", "name", self.interface, "netns", str(self.namespaces[1].pid))
        for end in range(2):
            bits = 64 if ipaddress.ip_address(self.ips[end]).version == 6 else 24
            # Without duplicate address detection the address can be used at once.
            no_detection = ["nodad"] if bits == 64 else []
            self._inside(end, "ip", "address", "add", f"{self.ips[end]}/{bits}", "dev",
                         self.interface, *no_detection)
            self.ip(end, f"link set {self.interface} mtu {self.mtu} up")
        return self

    def __exit__(self, *_):
        for namespace in self.namespaces:
            namespace.communicate()

    def prefix(self, end):
        """The prefix that makes a command run inside the network namespace of that end."""
        return ["nsenter", f"--net=/proc/{self.namespaces[end].pid}/ns/net"]

    def _inside(self, end, *command):
        subprocess.run([*self.prefix(end), *command], check=True)

    def ip(self, end, command):
        self._inside(end, "ip", *command.split())

    def set_interface(self, end, state):
        """Sets the interface "down" or "up"; the carrier of the other end follows."""
        self.ip(end, f"link set {self.interface} {state}")

    def delete_interface(self, end):
        """Deletes the interfaces of both ends: a veth pair goes together."""
        self.ip(end, f"link delete {self.interface}")

    def host(self, end):
        return self.ips[end]

    def port_options(self, end):
        return ["--port", f"net_af_packet0,iface={self.interface}"]

    def command(self, end, command, user=None, options=()):
        return [*self.prefix(end), *super().command(end, command, user, options)]


class UdpWire(VethWire):
    """Direct mode over plain UDP sockets and the same veth pair. Both programs run as an
    unprivileged user without any capability.
    """

    name = "udp"

    def port_options(self, end):
        return ["--port", f"udp,address={self.ips[end]}"]

    def command(self, end, command, user=None, options=()):
        return super().command(end, command, user or users.nobody(), options)


IPV4 = ("10.11.12.1", "10.11.12.2")
IPV6 = ("fd00:11:12::1", "fd00:11:12::2")
