"""The agent program, driven from Python: one end of reliable connections."""

import dataclasses
import os
import selectors
import signal
import subprocess

from harness.installation import AGENT
from harness.programs import LIMIT_SECONDS, ProgramFailed, clean_environment


@dataclasses.dataclass
class Outcome:
    """How a work request completed, and how long that took."""

    status: str
    seconds: float


class Agent:
    """A running agent; see tests/system/agent/agent.cc for what it understands.

    It is killed when the `with` block ends, if it is there still.
    """

    def __init__(self, wire, end):
        self.command = wire.command(end, [wire.installed.path(AGENT)])
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env=clean_environment(), cwd="/", bufsize=0)
        self._unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()  # Also ends a process that is stopped.
        self.process.wait()

    def stop(self):
        """Makes it silent: it is there, but does nothing any more."""
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def cpu_seconds(self):
        """Processor time that it has used so far, in all threads."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(") ", 1)[1].split()
        user, system = 11, 12
        return (int(fields[user]) + int(fields[system])) / os.sysconf("SC_CLK_TCK")

    def tell(self, command):
        self.process.stdin.write(f"{command}\n".encode())

    def answer(self):
        """The next line of output."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(LIMIT_SECONDS):
                    raise ProgramFailed(f"the agent has been silent for {LIMIT_SECONDS} s")
                data = self.process.stdout.read(4096)
                if not data:
                    raise ProgramFailed(f"the agent is gone: {self._unread.decode()}")
                self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        answer = line.decode()
        if answer.startswith(("error", "agent:", "uroce")):
            raise ProgramFailed(answer)
        return answer

    def ask(self, command):
        self.tell(command)
        return self.answer()

    def open(self):
        """A new connection: its number and its address."""
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


def join(one, other, **settings):
    """Connects an agent with an agent, which may be the same; returns the connections' numbers."""
    number, address = one.open()
    other_number, other_address = other.open()
    one.connect(number, other_address, **settings)
    other.connect(other_number, address, **settings)
    return number, other_number
