"""A uroced that a test starts, ends and starts anew."""

import json
import os
import subprocess
import time

from harness.installation import UROCE, UROCED
from harness.programs import LIMIT_SECONDS, Program, ProgramFailed, clean_environment


def status(installed, fabric, prefix=()):
    """The report of `uroce status --json` on a fabric, or None if no uroced serves it."""
    done = subprocess.run([*prefix, installed.path(UROCE), "status", "--fabric", fabric, "--json"],
                          check=False, capture_output=True, text=True, env=clean_environment(),
                          timeout=LIMIT_SECONDS)
    return json.loads(done.stdout) if done.returncode == 0 else None


def blocks_by_pid(report):
    return {client["pid"]: client["block"] for client in report["clients"]}


def wait_for(condition, what):
    """Waits until `condition` returns a true value, and returns that."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise ProgramFailed(f"never {what}")
        time.sleep(0.01)
    return result


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def wait_for_descriptors(pid, most):
    """Waits until a process has no more descriptors than that. uroced closes the connection of one
    that left, as `uroce status` does, when it next looks."""
    wait_for(lambda: descriptors(pid) <= most, f"came back to {most} descriptors")


class Daemon:
    """uroced of a fabric, while the `with` block lasts. `prefix` goes before each command, as
    nsenter does for a network namespace. Without a port the fabric has no uplink, as its processes
    may have addresses of other hosts."""

    def __init__(self, installed, fabric, options=(), prefix=()):
        self.installed = installed
        self.fabric = fabric
        self.prefix = list(prefix)
        self._command = [*prefix, installed.path(UROCED), "--fabric", fabric, *options]
        if "--port" not in options:
            self._command.append("--no-uplink")
        self._program = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._program.__exit__()

    def start(self):
        self._program = Program(self._command)
        self._program.wait_until(lambda: "is served" in self._program.output(), "was ready")

    def kill(self):
        """Ends uroced by SIGKILL, so that it tells no client."""
        self._program.__exit__()

    @property
    def pid(self):
        return self._program.pid

    def status(self):
        report = status(self.installed, self.fabric, self.prefix)
        if report is None:
            raise self._program.failure("does not answer")
        return report

    def wait_for_clients(self, count):
        """Waits until exactly `count` processes are attached; returns their blocks by pid."""
        def attached():
            blocks = blocks_by_pid(self.status())
            return blocks if len(blocks) == count else None
        return wait_for(attached, f"had {count} clients")

    def memory_kilobytes(self):
        """The memory that was written, and the private part of it: a link's rings count for the
        process that made them. Pages of programs come and go as the kernel likes."""
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="ascii") as lines:
            sizes = {words[0]: int(words[1]) for words in map(str.split, list(lines)[1:])}
        private = sizes["Private_Dirty:"] + sizes["Swap:"]
        return private + sizes["Shared_Dirty:"], private

    def mapped_links(self):
        with open(f"/proc/{self.pid}/maps", encoding="ascii") as lines:
            return sum("memfd:uroce-link" in line for line in lines)
