"""Several hosts on one machine: network namespaces, each with a NIC and a uroced that owns it."""

import concurrent.futures
import os
import subprocess

from harness import installation
from harness import users
from harness.daemons import Daemon, wait_for
from harness.programs import run_pair

FABRIC = "default"
INTERFACE = "eth0"

# The driver of a uroced with plain UDP sockets.
UDP = "udp"

# The GID table of every host: the link-local GID of its MAC, then the addresses given to uroced.
LINK_LOCAL, IPV4, IPV6 = GIDS = range(3)


def has_link_local(prefix):
    """Whether the network namespace behind the prefix has a usable link-local address: the kernel
    first checks that no other host has it."""
    show = [*prefix, "ip", "-6", "address", "show", "scope", "link"]
    done = subprocess.run(show, check=True, capture_output=True, text=True)
    return "fe80:" in done.stdout and "tentative" not in done.stdout


class Namespace:
    """A network namespace. It lives as long as a process in it, which ends with its standard input,
    so nothing is left behind however the test ends."""

    def __enter__(self):
        self._namespace = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._namespace.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self._namespace.communicate()

    @property
    def pid(self):
        return self._namespace.pid

    @property
    def prefix(self):
        """The prefix that makes a command run inside."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def ip(self, command):
        subprocess.run([*self.prefix, "ip", *command.split()], check=True)


class Host:
    """A namespace with an Ethernet interface, and a uroced to which it belongs."""

    def __init__(self, installed, number, driver):
        self.number = number
        self.ipv4 = f"10.11.12.{number}"
        self.ipv6 = f"fd00:11:12::{number}"
        self.namespace = Namespace()
        self._installed = installed
        options = ["--port", "udp"]  # has the host's own addresses
        if driver != UDP:
            options = ["--port", f"{driver}0,iface={INTERFACE}", "--ip", f"{self.ipv4}/24", "--ip",
                       f"{self.ipv6}/64"]
        self._make_daemon = lambda: Daemon(installed, FABRIC, options, self.namespace.prefix)
        self.daemon = None

    def bring_up(self, mtu):
        """Brings the interface up, which exists already."""
        # Without duplicate address detection the IPv6 addresses can be used at once.
        setting = f"/proc/sys/net/ipv6/conf/{INTERFACE}/accept_dad"
        subprocess.run([*self.namespace.prefix, "sh", "-c", f"echo 0 > {setting}"], check=True)
        ip = self.namespace.ip
        ip(f"address add {self.ipv4}/24 dev {INTERFACE}")
        ip(f"address add {self.ipv6}/64 dev {INTERFACE}")
        ip(f"link set {INTERFACE} mtu {mtu} up")

    def start(self):
        """Starts uroced on the interface."""
        # The address comes with the carrier, and a port over sockets uses the addresses at its
        # start.
        wait_for(lambda: has_link_local(self.namespace.prefix), "had a link-local address")
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
        self.installed = installed
        self._mtu = mtu
        self._options = list(options)
        self._switch = Namespace()

    @staticmethod
    def why_not():
        """The reason why it cannot be used here, or None."""
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
        for host in self.hosts:
            host.start()
        return self

    def __exit__(self, *arguments):
        for part in (*self.hosts, self._switch):
            part.__exit__(*arguments)

    # Linux reports a carrier at once if the indices of the two interfaces differ, and after up to a
    # second if they are equal (linkwatch_urgent_event).
    @staticmethod
    def _connect(namespace, interface, host):
        index = 100 + host.number
        namespace.ip(f"link add name {interface} index {index} type veth peer name {INTERFACE} "
                     f"netns {host.namespace.pid}")

    def command(self, host, command, user=None):
        """The command that runs `command` on that host (by index)."""
        return self.hosts[host].command(command, user, self._options)

    def run_pair(self, server, client, server_command, client_command, port, user=None):
        """As programs.run_pair, between two hosts (by index)."""
        command_on = self.command
        ends = (server, client)

        class Wire:
            """The two hosts as the ends for programs.run_pair."""

            @staticmethod
            def command(end, command, user=None):
                return command_on(ends[end], command, user)

        return run_pair(Wire, server_command, client_command, port, user)

    def run_pairs(self, pairs):
        """Runs several pairs at once; each is a tuple of arguments of run_pair. Returns their
        outputs."""
        with concurrent.futures.ThreadPoolExecutor(len(pairs)) as pool:
            running = [pool.submit(self.run_pair, *pair) for pair in pairs]
            return [each.result() for each in running]
