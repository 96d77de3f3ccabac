"""A program that reads commands and prints answers, line by line."""

import os
import selectors
import signal
import subprocess
import time

from harness import claims
from harness.programs import LIMIT_SECONDS, ProgramFailed, clean_environment


class LineProgram:
    """A running program. It is killed when its `with` block ends, unless it has ended."""

    def __init__(self, command):
        claims.note_start(command)
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, env=clean_environment(), cwd="/",
                                        bufsize=0)
        self._unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()

    @property
    def pid(self):
        return self.process.pid

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()  # Also ends a process that is stopped.
        self.process.wait()

    def stop(self):
        """Stops the process: it still exists, but does nothing."""
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def tell(self, command):
        self.process.stdin.write(f"{command}\n".encode())

    def next_line(self, limit_seconds=LIMIT_SECONDS):
        """The next line of output; None if none comes in time."""
        deadline = time.monotonic() + limit_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0, deadline - time.monotonic())):
                    return None
                data = self.process.stdout.read(1 << 16)
                if not data:
                    raise ProgramFailed(f"'{' '.join(self.command)}' is gone: "
                                        f"{self._unread.decode()}")
                self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode()

    def answer(self):
        """The next line of output; raises ProgramFailed if none comes."""
        line = self.next_line()
        if line is None:
            raise ProgramFailed(f"'{' '.join(self.command)}' has been silent for "
                                f"{LIMIT_SECONDS} s")
        return line

    def ask(self, command):
        self.tell(command)
        return self.answer()


def cpu_seconds(pid):
    """Processor time that a process has used so far, in all threads."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    user, system = 11, 12
    return (int(fields[user]) + int(fields[system])) / os.sysconf("SC_CLK_TCK")
