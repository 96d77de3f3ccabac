"""Two hosts on one machine: network namespaces with a veth pair between them, and in each a user
without any capability who runs a copy of uroce."""

import json
import os
import shutil
import subprocess
import tempfile

# Bazel's output may lie where an unprivileged user cannot go.
FILES = ("tools/uroce", "tools/uroced", "verbs_provider/liburoce-provider.so",
         "verbs_provider/virtual_kernel/liburoce-preload.so")
INTERFACE = "veth0"
SIDES = ("server", "client")
ADDRESSES = {"server": "10.11.12.1", "client": "10.11.12.2"}
USER = 65534


def peer_of(side):
    return SIDES[1 - SIDES.index(side)]


def why_not():
    """Why there can be no such hosts here, or None."""
    if os.geteuid() != 0:
        return "network namespaces with a veth pair need root"
    probe = subprocess.run(["unshare", "--net", "ip", "link", "add", "name", INTERFACE, "type",
                            "veth", "peer", "name", "veth1"],
                           check=False, capture_output=True, text=True)
    return f"no veth pair can be made: {probe.stderr.strip()}" if probe.returncode else None


class VethHosts:
    """Two hosts, for a `with` block. A namespace lives as long as the process that holds it, which
    ends with its standard input: nothing is left behind however the bench ends."""

    def __init__(self, bin_folder, mtu):
        self._bin = bin_folder
        self._mtu = mtu
        self._folder = None
        self._namespaces = {}

    def __enter__(self):
        self._folder = tempfile.mkdtemp(prefix="uroce-bench-", dir="/tmp")
        for file in FILES:
            target = os.path.join(self._folder, file)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.join(self._bin, file), target)
        subprocess.run(["chmod", "-R", "a+rX,u+w", self._folder], check=True)
        for side in SIDES:
            namespace = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && cat"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._namespaces[side] = namespace
            namespace.stdout.readline()
        # With equal indices Linux would take up to a second to report the carrier.
        self._ip("server", f"link add name {INTERFACE} index 100 type veth peer name {INTERFACE} "
                           f"netns {self._namespaces['client'].pid}")
        for side in SIDES:
            self._ip(side, f"address add {ADDRESSES[side]}/24 dev {INTERFACE}")
            self._ip(side, f"link set {INTERFACE} mtu {self._mtu} up")
        return self

    def __exit__(self, *_):
        for namespace in self._namespaces.values():
            namespace.communicate()
        shutil.rmtree(self._folder)

    def inside(self, side):
        """The words in front of a command that make it run on that host."""
        return ["nsenter", f"--net=/proc/{self._namespaces[side].pid}/ns/net"]

    def uroce_run(self, side, *options):
        """`uroce run` of that host's user."""
        return [*self.inside(side), "setpriv", f"--reuid={USER}", f"--regid={USER}",
                "--clear-groups", "--no-new-privs", "env", "-u", "XDG_RUNTIME_DIR",
                os.path.join(self._folder, "tools/uroce"), "run", *options, "--"]

    def uroce_run_as_root(self, side, *options):
        """The same, for ports that need capabilities."""
        return [*self.inside(side), os.path.join(self._bin, "tools/uroce"), "run", *options, "--"]

    def mac(self, side):
        """The MAC address of the host's interface."""
        shown = subprocess.run([*self.inside(side), "ip", "-j", "link", "show", INTERFACE],
                               check=True, capture_output=True, text=True).stdout
        return json.loads(shown)[0]["address"]

    def _ip(self, side, command):
        subprocess.run([*self.inside(side), "ip", *command.split()], check=True)
