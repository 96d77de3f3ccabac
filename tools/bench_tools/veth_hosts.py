"""Two hosts with a veth pair between them."""

import json
import os
import subprocess

from hosts import Hosts

INTERFACE = "veth0"
SIDES = ("server", "client")
ADDRESSES = {"server": "10.11.12.1", "client": "10.11.12.2"}


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


class VethHosts(Hosts):
    """The two hosts, by side."""

    def __init__(self, bin_folder, mtu):
        super().__init__(bin_folder, SIDES)
        self._mtu = mtu

    def __enter__(self):
        super().__enter__()
        # With equal indices Linux would take up to a second to report the carrier.
        self.ip("server", f"link add name {INTERFACE} index 100 type veth peer name {INTERFACE} "
                          f"netns {self.pid('client')}")
        for side in SIDES:
            self.ip(side, f"address add {ADDRESSES[side]}/24 dev {INTERFACE}")
            self.ip(side, f"link set {INTERFACE} mtu {self._mtu} up")
        return self

    def mac(self, side):
        """The MAC address of the host's interface."""
        shown = subprocess.run([*self.inside(side), "ip", "-j", "link", "show", INTERFACE],
                               check=True, capture_output=True, text=True).stdout
        return json.loads(shown)[0]["address"]
