"""The wire between uroce and rxe: starts programs at either end."""

import contextlib
import dataclasses
import itertools
import os
import subprocess
import time

from harness.programs import Program, has_listener, listens, wait_for_both
from harness.rdma_cm import run_anew_until_served, run_client, wait_for_server
from vm import machine

UROCE_PROGRAM = "tools/uroce"
# These servers run until they are killed.
ENDLESS_SERVERS = ("cmtime",)

_ports = itertools.count(20000)


class Installed:
    """The programs below the current directory: Bazel's runfiles or bazel-bin."""

    @staticmethod
    def path(program):
        return os.path.abspath(program)


@dataclasses.dataclass(frozen=True)
class End:
    """One end of a wire: its device, and the TCP address at which the other end reaches it."""

    device: str
    host: str


RXE = End("rxe0", machine.GUEST_IPV4)
UROCE = End("uroce0", machine.HOST_IPV4)

RXE_GIDS = {"IPv4": 1, "IPv6 link-local": 0, "IPv6 global": 2}
RXE_IPS = {"IPv4": machine.GUEST_IPV4, "IPv6 global": machine.GUEST_IPV6}


@dataclasses.dataclass(frozen=True)
class Port:
    """A kind of port for uroce: the options of `uroce run`, and the IP address of the device with
    its index in the GID table."""

    options: tuple
    ip: str
    gid: int


def _packet_socket(ip, gid):
    return Port(("--ip", ip, "--port", f"net_af_packet0,iface={machine.INTERFACE}"), ip, gid)


FABRIC = ("--fabric", f"interop-{os.getpid()}")
PORTS = {
    ("af_packet", "IPv4"): _packet_socket(machine.UROCE_IPV4, 1),
    ("af_packet", "IPv6 link-local"): _packet_socket(machine.UROCE_IPV4, 0),
    ("af_packet", "IPv6 global"): _packet_socket(machine.UROCE_IPV6, 1),
    # The port of a program that is started without any option, but for the fabric's name, which
    # keeps other network namespaces out.
    ("UDP sockets", "IPv4"): Port(FABRIC, machine.HOST_IPV4, 1),
    ("UDP sockets", "IPv6 global"): Port(FABRIC, machine.HOST_IPV6, 2),
}


def inside(guest, command):
    """The command that runs a program of ours or Debian's in a machine, which has all programs in
    one folder."""
    return guest.inside(os.path.basename(command[0]), *command[1:])


def listens_in(guest, port):
    """Whether a socket in the machine listens on the TCP port."""
    sockets = guest.run("busybox", "cat", "/proc/net/tcp", "/proc/net/tcp6")
    return has_listener(sockets.splitlines(), port)


class Wire:
    """`port` and `ip` are a key of PORTS; `options` are options of `uroce run`, e.g. --impair."""

    installed = Installed()
    ends = (RXE, UROCE)

    def __init__(self, guest, port, ip, options=()):
        self.guest = guest
        self._ip = ip
        self._port = PORTS[port, ip]
        self._options = list(options)

    def gid(self, end):
        return str(RXE_GIDS[self._ip] if end is RXE else self._port.gid)

    def address(self, end):
        """The IP address of the end's device."""
        return RXE_IPS[self._ip] if end is RXE else self._port.ip

    @contextlib.contextmanager
    def one_interface(self):
        """Makes sockets receive datagrams to a group only once: without options uroce uses all
        interfaces of the host, of which two are on the bridge."""
        if self._port.options != FABRIC:
            yield
            return
        interface = [*self.guest.prefix(), "ip", "link", "set", machine.INTERFACE]
        subprocess.run([*interface, "down"], check=True)
        try:
            yield
        finally:
            subprocess.run([*interface, "up"], check=True)

    def command(self, end, command):
        """The command that runs `command` with the device of that end."""
        if end is RXE:
            return inside(self.guest, command)
        return [*self.guest.prefix(), self.installed.path(UROCE_PROGRAM), "run",
                *self._port.options, *self._options, "--", *command]

    def _listens(self, end, program, port):
        return listens_in(self.guest, port) if end is RXE else listens(program.pid, port)

    def other(self, end):
        return self.ends[0 if end is self.ends[1] else 1]

    def run_pair(self, server, make_command):
        """Runs the two ends of a client-server program; returns the outputs of server and client.

        `server` is the end that serves; `make_command(end, peer, port)` gives the command of an
        end. The server's `peer` is None.
        """
        client = self.other(server)
        port = next(_ports)
        with Program(self.command(server, make_command(server, None, port))) as first:
            first.wait_until(lambda: self._listens(server, first, port),
                             f"listened on port {port}")
            with Program(self.command(client, make_command(client, server.host, port))) as second:
                return wait_for_both(first, second)

    def run_connected(self, server, server_command, client_command):
        """Runs the two ends of a program of rdma_cm. Returns the client's output."""
        client = self.other(server)

        def run(head_start):
            with Program(self.command(server, server_command)) as listening:
                time.sleep(head_start)
                output = run_client(self.command(client, client_command))
                if server_command[0] not in ENDLESS_SERVERS:
                    wait_for_server(listening, server_command[0])
                return output
        return run_anew_until_served(run)
