"""Several hosts on one machine: network namespaces, each with a NIC and a uroced that owns it."""

import concurrent.futures
import os
import subprocess

from harness import installation
from harness import users
from harness.daemons import Daemon
from harness.programs import run_pair

FABRIC = "default"
INTERFACE = "eth0"

# The GID table of every host: the link-local GID of its MAC, then the addresses given to uroced.
LINK_LOCAL, IPV4, IPV6 = GIDS = range(3)


class Namespace:
    """A network namespace. It lives as long as the process that holds it, which ends with its
    standard input: nothing is left behind however the test ends."""

    def __enter__(self):
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self._holder.communicate()

    @property
    def pid(self):
        return self._holder.pid

    @property
    def prefix(self):
        """What makes a command run inside."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def ip(self, command):
        subprocess.run([*self.prefix, "ip", *command.split()], check=True)


class Host:
    """A namespace with an Ethernet interface, and a uroced to which it belongs."""

    def __init__(self, installed, number, driver):
        self.ipv4 = f"10.11.12.{number}"
        self.ipv6 = f"fd00:11:12::{number}"
        self.namespace = Namespace()
        self._installed = installed
        options = ["--port", f"{driver}0,iface={INTERFACE}", "--ip", f"{self.ipv4}/24", "--ip",
                   f"{self.ipv6}/64"]
        self._make_daemon = lambda: Daemon(installed, FABRIC, options, self.namespace.prefix)
        self.daemon = None

    def bring_up(self, mtu):
        """The interface, which is there already, and uroced."""
        # Without duplicate address detection the IPv6 addresses can be used at once.
        setting = f"/proc/sys/net/ipv6/conf/{INTERFACE}/accept_dad"
        subprocess.run([*self.namespace.prefix, "sh", "-c", f"echo 0 > {setting}"], check=True)
        ip = self.namespace.ip
        ip(f"address add {self.ipv4}/24 dev {INTERFACE}")
        ip(f"address add {self.ipv6}/64 dev {INTERFACE}")
        ip(f"link set {INTERFACE} mtu {mtu} up")
        self.daemon = self._make_daemon()
        self.daemon.__enter__()

    def __enter__(self):
        self.namespace.__enter__()
        return self

    def __exit__(self, *arguments):
        if self.daemon is not None:
            self.daemon.__exit__(*arguments)
        self.namespace.__exit__(*arguments)

    def command(self, command, user=None, options=()):
        """The command that runs `command` on this host, with the NIC of uroced."""
        user = user or users.caller()
        uroce = self._installed.path(installation.UROCE)
        return [*self.namespace.prefix, *user.prefix, uroce, "run", *options, "--", *command]


class Network:
    """Two hosts with a cable between them, or more on a switch: a bridge in a namespace of its own.

    `options` are options of every `uroce run`, e.g. --impair. Needs root.
    """

    def __init__(self, installed, hosts, mtu=1500, driver="net_af_packet", options=()):
        self.hosts = [Host(installed, number, driver) for number in range(1, hosts + 1)]
        self._mtu = mtu
        self._options = list(options)
        self._switch = Namespace()

    @staticmethod
    def why_not():
        """Why it cannot be used here, or None."""
        if os.geteuid() != 0:
            return "network namespaces with veth pairs need root"
        for interface in (f"name {INTERFACE} type veth peer name eth1", "name br0 type bridge"):
            probe = subprocess.run(["unshare", "--net", "ip", "link", "add", *interface.split()],
                                   check=False, capture_output=True, text=True)
            if probe.returncode != 0:
                return f"'ip link add {interface}' fails: {probe.stderr.strip()}"
        return None

    def __enter__(self):
        for part in (self._switch, *self.hosts):
            part.__enter__()
        if len(self.hosts) == 2:
            self._connect(self.hosts[0].namespace, INTERFACE, self.hosts[1])
        else:
            self._switch.ip("link add br0 type bridge")
            self._switch.ip(f"link set br0 mtu {self._mtu} up")
            for number, host in enumerate(self.hosts):
                self._connect(self._switch, f"port{number}", host)
                self._switch.ip(f"link set port{number} mtu {self._mtu} master br0 up")
        for host in self.hosts:
            host.bring_up(self._mtu)
        return self

    def __exit__(self, *arguments):
        for part in (*self.hosts, self._switch):
            part.__exit__(*arguments)

    @staticmethod
    def _connect(namespace, interface, host):
        namespace.ip(f"link add name {interface} type veth peer name {INTERFACE} "
                     f"netns {host.namespace.pid}")

    def run_pair(self, server, client, server_command, client_command, port, user=None):
        """As programs.run_pair, between two of the hosts (by index)."""
        ends = (self.hosts[server], self.hosts[client])

        class Wire:
            """The ends as run_pair wants them."""

            @staticmethod
            def command(end, command, user=None):
                return ends[end].command(command, user, self._options)

        return run_pair(Wire, server_command, client_command, port, user)

    def run_pairs(self, pairs):
        """Several at once; each is a tuple of arguments of run_pair. Returns their outputs."""
        with concurrent.futures.ThreadPoolExecutor(len(pairs)) as pool:
            running = [pool.submit(self.run_pair, *pair) for pair in pairs]
            return [each.result() for each in running]
