#!/usr/bin/python3
"""Programs in containers: those of a pod, which share only a network and a folder, and two on a
bridge without any option; and the message to a program whose peer is out of reach."""

import itertools
import os
import re
import tempfile

from harness import report
from harness.cases import InstallationTestCase
from harness.daemons import wait_for
from harness.hosts import INTERFACE, Namespace, Network, has_link_local
from harness.installation import UROCE
from harness.perftest import check_no_error
from harness.programs import Program, free_tcp_port, listens, run_pair
from harness.users import NOBODY, unprivileged

PRIVILEGED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--uts"]
AS_NOBODY = unprivileged(NOBODY).prefix
# Mixtures of namespaces for a container of an unprivileged program. Each runs the program as
# NOBODY, or as root of NOBODY's user namespace.
MIXTURES = {
    "nothing": AS_NOBODY,
    "pid": ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *AS_NOBODY],
    "ipc": ["unshare", "--ipc", *AS_NOBODY],
    "user": [*AS_NOBODY, "unshare", "--user", "--map-root-user"],
    "all": [*AS_NOBODY, "unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
            "--mount-proc", "--ipc", "--uts"],
}


class Containers:
    """Two ends, each with its own command prefix. `variables` are set for both."""

    def __init__(self, installed, prefixes, options=((), ()), **variables):
        self._uroce = installed.path(UROCE)
        self._prefixes = prefixes
        self._options = options
        self._variables = [f"{name}={value}" for name, value in variables.items()]

    def command(self, end, command, _user=None):
        return [*self._prefixes[end], "env", *self._variables, self._uroce, "run",
                *self._options[end], "--", *command]


class ContainersTest(InstallationTestCase):
    needs = Network

    def namespace(self):
        return self.enterContext(Namespace())

    def ping(self, containers, gid, server_address="127.0.0.1"):
        port = free_tcp_port()
        # 4 s, seven times: a busy machine is no failure.
        command = ["ib_send_lat", "-d", "uroce0", "-x", gid, "-F", "-n", "100", "-u", "20", "-p",
                   str(port)]
        for output in run_pair(containers, command, [*command, server_address], port):
            check_no_error(self, output)

    def test_unprivileged_programs_of_a_pod(self):
        network = self.namespace().prefix
        for (one, first), (other, second) in itertools.product(MIXTURES.items(), repeat=2):
            with self.subTest(server=one, client=other), tempfile.TemporaryDirectory() as shared:
                os.chown(shared, NOBODY, NOBODY)
                self.ping(Containers(self.installation, ([*network, *first], [*network, *second]),
                                     XDG_RUNTIME_DIR=shared), "0")

    def test_root_of_a_pod(self):
        """The containers share /run/uroce."""
        network = self.namespace().prefix
        with tempfile.TemporaryDirectory() as shared:
            os.chmod(shared, 0o755)
            mounts = ('mount -t tmpfs none /run; mkdir /run/uroce; mount --bind "$0" /run/uroce; '
                      'exec "$@"')
            container = [*network, *PRIVILEGED, "sh", "-ec", mounts, shared]
            containers = Containers(self.installation, (container, container))
            self.ping(containers, "0")
            self.assertNotEqual(os.listdir(shared), [])

    def bridge(self, hosts):
        """Network namespaces of containers whose interfaces are on one bridge."""
        switch = self.namespace()
        switch.ip("link add br0 type bridge")
        switch.ip("link set br0 up")
        namespaces = []
        for number in range(1, hosts + 1):
            host = self.namespace()
            switch.ip(f"link add name port{number} index {100 + number} type veth peer name "
                      f"{INTERFACE} netns {host.pid}")
            switch.ip(f"link set port{number} master br0 up")
            host.ip(f"address add 172.17.0.{number}/16 dev {INTERFACE}")
            host.ip(f"link set {INTERFACE} up")
            namespaces.append(host)
        wait_for(lambda: all(has_link_local(host.prefix) for host in namespaces),
                 "had link-local addresses")
        return namespaces

    def gids(self, containers, end):
        with Program(containers.command(end, ["ibv_devinfo", "-v"])) as program:
            output = program.wait()
        guid = re.search(r"node_guid:\s+(\S+)", output).group(1)
        return [guid, *re.findall(r"GID\[ *\d+\]:\s+([^,]+),", output)]

    def test_two_containers_on_a_bridge(self):
        hosts = self.bridge(2)
        private = ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none /run; exec "$@"', "sh"]
        containers = Containers(
            self.installation,
            [[*host.prefix, *PRIVILEGED, *private] for host in hosts])
        self.assertEqual(set(self.gids(containers, 0)) & set(self.gids(containers, 1)), set())
        for gid in ("0", "1"):
            with self.subTest(gid=gid):
                self.ping(containers, gid, "172.17.0.1")

    def test_peer_on_another_fabric_is_reported(self):
        """Both have the GIDs of their host: without the message a timeout is the only sign."""
        prefix = [*self.namespace().prefix, *AS_NOBODY]
        # Once in a thousand times the two have the same block of QPNs, so that no peer is missing.
        for names in (("red", "blue"), ("green", "yellow")):
            containers = Containers(self.installation, (prefix, prefix),
                                    [("--fabric", name) for name in names])
            if self.hears_of_unknown_peer(containers):
                return
        self.fail("nothing was said of the peer")

    def hears_of_unknown_peer(self, containers):
        port = free_tcp_port()
        # 0.5 s, eight times: the message comes before the program ends.
        command = ["ib_write_bw", "-d", "uroce0", "-x", "0", "-F", "-u", "17", "-p", str(port)]
        with Program(containers.command(0, command)) as server:
            server.wait_until(lambda: listens(server.pid, port), "listened")
            with Program(containers.command(1, [*command, "127.0.0.1"])) as client:
                wait_for(lambda: client.process.poll() is not None, "ended")
                self.assertNotEqual(client.process.returncode, 0)
                return client.output().count("no process on this fabric has") == 1


if __name__ == "__main__":
    report.main()
