"""Two hosts with a router between them."""

import itertools
import os
import subprocess

from harness import installation, users
from harness.daemons import status, wait_for
from harness.hosts import INTERFACE, Namespace, Network, has_link_local

# Of each host: the address of its way to the router, and that of an interface that leads nowhere,
# as that of virtual machines. The latter has more leading bits in common with the other host's
# address than the former has.
ADDRESSES = (("10.78.0.1", "192.168.122.1"), ("192.168.50.5", "10.78.9.1"))
GATEWAYS = ("10.78.0.254", "192.168.50.254")
IPV6 = ("fd00:78::1", "fd00:50::5")
IPV6_GATEWAYS = ("fd00:78::254", "fd00:50::254")
# The interface with the second address.
BRIDGE = "virbr0"

# A host without a route, and a neighbor of the first host that does not exist.
NOWHERE = "203.0.113.9"
NO_NEIGHBOR = "10.78.0.99"


class RoutedWire:
    """Two hosts, each with a fabric of its own and without any option but the fabric's name: MTU
    1500, a default route to the router between them. Needs root."""

    _names = itertools.count()

    def __init__(self, installed):
        self.installed = installed
        self.fabric = f"routed-{os.getpid()}-{next(self._names)}"
        self.namespaces = [Namespace() for _ in range(2)]
        self.router = Namespace()

    why_not = Network.why_not

    def __enter__(self):
        for namespace in (self.router, *self.namespaces):
            namespace.__enter__()
        for setting in ("ipv4.ip_forward", "ipv6.conf.all.forwarding"):
            self._set(self.router, setting, 1)
        for end in range(2):
            self._connect(end)
        wait_for(lambda: all(has_link_local(host.prefix) for host in self.namespaces),
                 "had a link-local address")
        return self

    def __exit__(self, *_):
        for namespace in (self.router, *self.namespaces):
            namespace.__exit__()

    @staticmethod
    def _set(namespace, setting, value):
        path = f"/proc/sys/net/{setting.replace('.', '/')}"
        subprocess.run([*namespace.prefix, "sh", "-c", f"echo {value} > {path}"], check=True)

    def _connect(self, end):
        host, port = self.namespaces[end], f"port{end}"
        # Different indices: see Network.
        self.router.ip(f"link add name {port} index {100 + end} type veth peer name {INTERFACE} "
                       f"netns {host.pid}")
        self.router.ip(f"address add {GATEWAYS[end]}/24 dev {port}")
        self.router.ip(f"address add {IPV6_GATEWAYS[end]}/64 dev {port} nodad")
        self.router.ip(f"link set {port} up")
        first, second = ADDRESSES[end]
        host.ip(f"address add {first}/24 dev {INTERFACE}")
        host.ip(f"address add {IPV6[end]}/64 dev {INTERFACE} nodad")
        host.ip(f"link set {INTERFACE} up")
        host.ip(f"link add {BRIDGE} type bridge")
        host.ip(f"address add {second}/24 dev {BRIDGE}")
        host.ip(f"link set {BRIDGE} up")
        host.ip(f"route add default via {GATEWAYS[end]}")
        host.ip(f"-6 route add default via {IPV6_GATEWAYS[end]}")
        self.router.ip(f"route add {second}/32 via {first}")

    def add_addresses(self, end, addresses):
        """Adds addresses to the interface of that end which leads to the router."""
        host, way = self.namespaces[end], ADDRESSES[end][0]
        added = "".join(f"address add {address}/32 dev {INTERFACE}\n" for address in addresses)
        routes = "".join(f"route add {address}/32 via {way}\n" for address in addresses)
        for namespace, commands in ((host, added), (self.router, routes)):
            subprocess.run([*namespace.prefix, "ip", "-batch", "-"], input=commands, text=True,
                           check=True)

    def host(self, end):
        return ADDRESSES[end][0]

    def command(self, end, command, user=None, options=()):
        uroce = self.installed.path(installation.UROCE)
        user = user or users.caller()
        return [*self.namespaces[end].prefix, *user.prefix, uroce, "run", "--fabric", self.fabric,
                *options, "--", *command]

    def received_bytes(self, end):
        """What all programs that run at that end have received."""
        report = status(self.installed, self.fabric, self.namespaces[end].prefix)
        return sum(client["counters"]["received_bytes"] for client in report["clients"])
