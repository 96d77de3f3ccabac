"""Members of a mesh, driven from Python: processes that move verified data all to all."""

import collections
import dataclasses
import itertools
import time

from harness.installation import MESH
from harness.lines import LineProgram
from harness.programs import LIMIT_SECONDS, ProgramFailed

RETRY_EXCEEDED = 12  # IBV_WC_RETRY_EXC_ERR

# Timeout and retry count: an end waits 4.096 us * 2^timeout for an acknowledgement, once more for
# every retry.
PATIENT = (18, 7)  # 8.6 s
IMPATIENT = (13, 2)  # 0.1 s

_numbers = itertools.count(1)


@dataclasses.dataclass
class Count:
    """The data of a peer that a member has verified."""

    turns: int  # of the slowest lane
    bytes: int  # of all lanes
    failed_lanes: int


class Member(LineProgram):
    """A running member; tests/system/mesh/mesh.cc lists its commands."""

    def __init__(self, wire, end=0, user=None):
        self.number = next(_numbers)
        super().__init__(wire.command(end, [wire.installed.path(MESH), str(self.number)], user))
        # The failures that it reported: by the peer's number, the status of each failed lane.
        self.failures = collections.defaultdict(dict)

    def next_line(self, limit_seconds=LIMIT_SECONDS):
        """The next line that does not report a failure."""
        deadline = time.monotonic() + limit_seconds
        while True:
            line = super().next_line(max(0, deadline - time.monotonic()))
            if line is None:
                return None
            if line.startswith(("uroce: no process on this fabric has",
                                "uroce: the process at the other end of")):
                continue  # the failure of the lane is reported as well
            word, *rest = line.split(" ", 3)
            if word == "failed":
                peer, lane, status = map(int, rest)
                self.failures[peer][lane] = status
            elif word in ("ok", "paused", "addresses", "count"):
                return line
            else:
                raise ProgramFailed(f"member {self.number}: {line}")

    def hear(self, seconds=0):
        """Takes the failures that the member reports within `seconds`."""
        line = self.next_line(seconds)
        assert line is None, f"nobody asked for '{line}'"

    def count(self, peer):
        return Count(*map(int, self.ask(f"count {peer.number}").split()[1:]))

    def close(self, peer):
        self.ask(f"close {peer.number}")
        self.failures.pop(peer.number, None)

    def await_turns(self, peer, more):
        """Waits until `more` further turns of the peer are verified on every lane."""
        enough = self.count(peer).turns + more
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.count(peer).turns < enough:
            if self.failures[peer.number]:
                raise ProgramFailed(f"member {self.number} lost member {peer.number}: "
                                    f"{self.failures[peer.number]}")
            if time.monotonic() > deadline:
                raise ProgramFailed(f"no data moves between members {self.number} and "
                                    f"{peer.number}")
            time.sleep(0.005)

    def await_failures(self, peer, lanes):
        """Waits until `lanes` lanes to the peer have failed; returns the statuses."""
        self.ask(f"probe {peer.number}")
        deadline = time.monotonic() + LIMIT_SECONDS
        failures = self.failures[peer.number]
        while len(failures) < lanes:
            if time.monotonic() > deadline:
                raise ProgramFailed(f"member {self.number} does not notice that member "
                                    f"{peer.number} is gone: {failures}")
            self.hear(0.01)
        return set(failures.values())


def prepare_to_join(one, other, lanes, patience=PATIENT):
    """Opens lanes between two members; returns the members with the commands that connect them."""
    ours, theirs = [member.ask(f"open {peer.number} {lanes}").split()[1]
                    for member, peer in ((one, other), (other, one))]
    # The member with the higher number has the second turn: it must be ready before the first turn
    # comes.
    ends = sorted(((one, other, theirs), (other, one, ours)), key=lambda end: -end[0].number)
    return [(member, f"connect {peer.number} {addresses} {patience[0]} {patience[1]}")
            for member, peer, addresses in ends]


def join(one, other, lanes, patience=PATIENT):
    """Joins two members by lanes, on which they move data from then on."""
    for member, command in prepare_to_join(one, other, lanes, patience):
        member.ask(command)


def join_all(members, lanes, patience=PATIENT):
    for one, other in itertools.combinations(members, 2):
        join(one, other, lanes, patience)


def resume_all(members):
    for member in members:
        member.ask("resume")


def pause_all(members):
    """Pauses the members; returns once no data is in flight between them."""
    for member in members:
        member.tell("pause")
    for member in members:
        answer = member.answer()
        assert answer == "paused", answer
