"""The wire between uroce and rxe: how programs are started at either end."""

import dataclasses
import itertools
import os

from harness.programs import Program, has_listener, listens, wait_for_both
from vm import machine

UROCE_PROGRAM = "tools/uroce"

_ports = itertools.count(20000)


class Installed:
    """Where the programs are: below the current directory, Bazel's runfiles or bazel-bin."""

    @staticmethod
    def path(program):
        return os.path.abspath(program)


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Where the two devices are, and at which index of their GID tables."""

    uroce_ip: str
    uroce_gid: int
    rxe_gid: int


ADDRESSES = {
    "IPv4": Addresses(machine.UROCE_IPV4, 1, 1),
    "IPv6 link-local": Addresses(machine.UROCE_IPV4, 0, 0),
    "IPv6 global": Addresses(machine.UROCE_IPV6, 1, 2),
}


@dataclasses.dataclass(frozen=True)
class End:
    """One end of the wire."""

    is_rxe: bool

    @property
    def device(self):
        return "rxe0" if self.is_rxe else "uroce0"

    @property
    def host(self):
        """The TCP address at which the other end reaches this one."""
        return machine.GUEST_IPV4 if self.is_rxe else machine.HOST_IPV4


RXE = End(is_rxe=True)
UROCE = End(is_rxe=False)


class Wire:
    """`options` are options of `uroce run`, e.g. --impair."""

    installed = Installed()

    def __init__(self, guest, ip, options=()):
        self.guest = guest
        self.addresses = ADDRESSES[ip]
        self.options = list(options)

    def gid(self, end):
        return str(self.addresses.rxe_gid if end.is_rxe else self.addresses.uroce_gid)

    def command(self, end, command):
        """The command that runs `command` with the device of that end."""
        if end.is_rxe:  # It has all programs in one folder.
            return self.guest.inside(os.path.basename(command[0]), *command[1:])
        return [*self.guest.prefix(), self.installed.path(UROCE_PROGRAM), "run",
                "--ip", self.addresses.uroce_ip,
                "--port", f"net_af_packet0,iface={machine.INTERFACE}",
                *self.options, "--", *command]

    def _listens(self, end, program, port):
        if not end.is_rxe:
            return listens(program.pid, port)
        sockets = self.guest.run("busybox", "cat", "/proc/net/tcp", "/proc/net/tcp6")
        return has_listener(sockets.splitlines(), port)

    def run_pair(self, server, make_command):
        """Runs the two ends of a client-server program; returns what server and client printed.

        `server` is the end that serves; `make_command(end, peer, port)` gives the command of an
        end. The server's `peer` is None.
        """
        client = RXE if server == UROCE else UROCE
        port = next(_ports)
        with Program(self.command(server, make_command(server, None, port))) as first:
            first.wait_until(lambda: self._listens(server, first, port),
                             f"listened on port {port}")
            with Program(self.command(client, make_command(client, server.host, port))) as second:
                return wait_for_both(first, second)
