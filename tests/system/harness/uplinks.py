"""Two hosts whose fabrics have the default uplink."""

import os

from harness import installation
from harness.daemons import status, wait_for
from harness.hosts import has_link_local
from harness.users import NOBODY, unprivileged
from harness.wires import IPV4, IPV6, VethWire

USERS = (NOBODY, NOBODY - 1)
ROCE_PORT = 4791


def listens_on_roce_port(pid):
    """Whether a socket is bound to the RoCEv2 port in the network namespace of the process."""
    for table in ("udp", "udp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as sockets:
            if f":{ROCE_PORT:04X} " in sockets.read():
                return True
    return False


def joined_groups(installed, fabric, prefix=()):
    """How many groups the processes of a fabric have joined; a group counts once per process."""
    report_of_all = status(installed, fabric, prefix)
    return sum(client["groups"] for client in report_of_all["clients"]) if report_of_all else 0


class UplinkWire(VethWire):
    """Two hosts, each with a fabric and a user of its own, and without any option but the fabric's
    name, which separates it from other tests. Programs of one end share its fabric."""

    _hosts = 0

    def __init__(self, installed, **named):
        super().__init__(installed, IPV4, **named)
        UplinkWire._hosts += 1
        self.fabric = f"uplink-{os.getpid()}-{UplinkWire._hosts}"

    def __enter__(self):
        super().__enter__()
        for end in range(2):
            self.ip(end, f"address add {IPV6[end]}/64 dev {self.interface} nodad")
        wait_for(lambda: all(has_link_local(self.prefix(end)) for end in range(2)),
                 "had a link-local address")
        return self

    def command(self, end, command, user=None, options=()):
        user = user or unprivileged(USERS[end])
        uroce = self.installed.path(installation.UROCE)
        return [*self.user_prefix(end, user), uroce, "run", "--fabric", self.fabric, *options,
                *self.options, "--", *command]

    def user_prefix(self, end, user=None):
        return [*self.prefix(end), *(user or unprivileged(USERS[end])).prefix]

    def uroced(self, end):
        """The process id of the uroced of that end, or None."""
        report_of_all = status(self.installed, self.fabric, self.user_prefix(end))
        return report_of_all and report_of_all["daemon"]["pid"]

    def frames_at_uroced(self, end):
        """The frames that uroced moved for all processes of that end: to the wire and from it."""
        report_of_all = status(self.installed, self.fabric, self.user_prefix(end))
        return [report_of_all["switch"][way] for way in ("frames_to_wire", "frames_from_wire")]

    def joined_groups(self, end):
        """How many groups the processes of that end have joined; a group counts once per
        process."""
        return joined_groups(self.installed, self.fabric, self.user_prefix(end))

    def listens(self, end):
        return listens_on_roce_port(self.namespaces[end].pid)
