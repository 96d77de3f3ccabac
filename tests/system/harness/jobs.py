"""MPI jobs: the verifying MPI program, started by either library's launcher."""

import os

from harness import users
from harness.daemons import status
from harness.installation import MPI_EXCHANGE
from harness.lines import LineProgram
from harness.programs import ProgramFailed

LAUNCHERS = {
    # Debian's configuration of Open MPI turns the UCX components off unless they are asked for.
    "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx",
                "--mca", "osc", "ucx"],
    "mpich": ["mpiexec.mpich"],
}

# The transports of UCX: uroce's device between ranks, and plain memory within a rank.
TRANSPORTS = {"RC": "rc_v,self", "UD": "ud_v,self"}

# Long enough for eight polling ranks on two busy processors.
LIMIT_SECONDS = 900


class Job(LineProgram):
    """The ranks of tests/system/mpi/exchange.cc, which explains `parts`."""

    def __init__(self, wire, library, transport, ranks, rounds=1, parts="pocs", user=None):
        self._wire = wire
        self._user = user or users.caller()
        self._printed = []
        super().__init__(wire.command(0, [
            "env", f"UCX_TLS={TRANSPORTS[transport]}", *LAUNCHERS[library], "-n", str(ranks),
            wire.installed.path(MPI_EXCHANGE[library]), str(rounds), parts], self._user))

    def kill(self):
        """Kills the launcher and the ranks, which may outlive it."""
        ranks = [] if self.process.poll() is not None else descendants(self.pid)
        super().kill()
        for pid in ranks:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass

    def verified_bytes(self):
        """Waits until every byte is verified; returns how many bytes the ranks received from each
        other."""
        while True:
            line = self._next_line()
            if line.startswith("verified "):
                return int(line.split()[1])

    def clients(self):
        """uroced's report on the ranks, which all run until `finish`."""
        # Only the user of a fabric can ask for its status.
        return status(self._wire.installed, self._wire.fabric, self._user.prefix)["clients"]

    def finish(self):
        """Lets the ranks end; raises ProgramFailed unless all of them end without an error."""
        self.tell("")
        rest, _ = self.process.communicate(timeout=LIMIT_SECONDS)
        self._printed.append(rest.decode(errors="replace"))
        if self.process.returncode != 0:
            raise self._failure(f"ended with exit status {self.process.returncode}")

    def _next_line(self):
        try:
            line = self.next_line(LIMIT_SECONDS)
        except ProgramFailed as error:
            raise self._failure(str(error)) from None
        if line is None:
            raise self._failure(f"has been silent for {LIMIT_SECONDS} s")
        self._printed.append(line)
        return line

    def _failure(self, what):
        return ProgramFailed(f"'{' '.join(self.command)}' {what}; it printed:\n"
                             + "\n".join(self._printed))


def descendants(pid):
    """The processes that a process started, and those that they started."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rsplit(") ", 1)[1].split()[1])
        except OSError:
            continue  # The process ended meanwhile.
        children.setdefault(parent, []).append(int(entry))
    found = []
    pending = [pid]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found
