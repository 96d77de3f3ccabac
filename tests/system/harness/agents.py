"""The agent program, driven from Python: one end of reliable connections."""

import dataclasses
import re

from harness.installation import AGENT
from harness.lines import LineProgram
from harness.programs import ProgramFailed


@dataclasses.dataclass
class Outcome:
    """How a work request completed, and how long that took."""

    status: str
    seconds: float


class Agent(LineProgram):
    """A running agent; tests/system/agent/agent.cc lists its commands."""

    def __init__(self, wire, end, gid_index=1):
        super().__init__(wire.command(end, [wire.installed.path(AGENT), str(gid_index)]))

    def answer(self):
        answer = super().answer()
        if answer.startswith(("error", "agent:", "uroce")):
            raise ProgramFailed(answer)
        return answer

    def open(self):
        """Opens a new connection; returns its number and its address."""
        number, address = self.ask("open").split(" ", 1)
        return number, address

    def connect(self, number, peer_address, timeout=14, retry_count=7):
        self.ask(f"connect {number} {peer_address} {timeout} {retry_count}")

    def write(self, number, value, length):
        return self.outcome(self.ask(f"write {number} {value} {length}"))

    def count(self, number, value):
        return int(self.ask(f"count {number} {value}"))

    @staticmethod
    def outcome(line):
        status, seconds = line.split()
        return Outcome(status, float(seconds))


class TalkingAgent(Agent):
    """An agent that prints messages about the network: they are kept apart from its answers."""

    def __init__(self, wire, end, **named):
        super().__init__(wire, end, **named)
        self.sentences = []

    def next_line(self, *limit):
        while (line := super().next_line(*limit)) is not None and line.startswith("uroce:"):
            self.sentences.append(line)
        return line

    def hears(self, sentence, number=0):
        """Whether the agent, which has a connection of that number, has printed a message that
        matches. Messages come before the next answer."""
        self.count(number, 0)
        return any(re.search(sentence, line) for line in self.sentences)


def join(one, other, **settings):
    """Connects an agent with an agent, which may be the same; returns the connections' numbers."""
    number, address = one.open()
    other_number, other_address = other.open()
    one.connect(number, other_address, **settings)
    other.connect(other_number, address, **settings)
    return number, other_number
