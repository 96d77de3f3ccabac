"""Programs that run under `uroce run`, alone and as the two ends of a connection."""

import os
import random
import socket
import subprocess
import tempfile
import time

from harness import claims

# Long enough for one pair of programs on a busy machine.
LIMIT_SECONDS = 180

_handed_out = set()  # TCP ports


class ProgramFailed(Exception):
    """A program failed; the message holds what it printed."""


def free_tcp_port():
    """A TCP port on which no socket listens, at any address of either IP version.

    It lies below the ports that the kernel hands out, so no other program gets it meanwhile. A
    server may take long to listen, so each port is handed out only once.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as ports:
        first_ephemeral = int(ports.read().split()[0])
    while True:
        port = random.randrange(10000, first_ephemeral)
        if port not in _handed_out and is_free(port):
            _handed_out.add(port)
            return port


def is_free(port):
    """Whether a server could listen on the port at every address."""
    if socket.has_dualstack_ipv6():
        family, options, any_address = socket.AF_INET6, {"dualstack_ipv6": True}, "::"
    else:
        family, options, any_address = socket.AF_INET, {}, "0.0.0.0"
    try:
        socket.create_server((any_address, port), family=family, **options).close()
    except OSError:
        return False
    return True


def has_listener(sockets, port):
    """Whether the lines of a /proc/net/tcp show a socket that listens on the port."""
    listening = "0A"
    for line in sockets:
        words = line.split()
        if len(words) > 3 and words[3] == listening and words[1].endswith(f":{port:04X}"):
            return True
    return False


def listens(pid, port):
    """Whether a socket in the process's network namespace listens on the TCP port."""
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as sockets:
                if has_listener(sockets, port):
                    return True
        except OSError:
            pass
    return False


def clean_environment():
    return {name: value for name, value in os.environ.items()
            if name != "LD_PRELOAD" and not name.startswith("UROCE_")}


class Program:
    """A running program. It is killed when the `with` block ends, unless it has ended."""

    def __init__(self, command):
        claims.note_start(command)
        self.command = command
        self._output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._output,
                                        stderr=subprocess.STDOUT, env=clean_environment(), cwd="/")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._output.close()

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        # Does not move the file position, which the program shares and writes at.
        file = self._output.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def failure(self, what):
        return ProgramFailed(f"'{' '.join(self.command)}' {what}; it printed:\n{self.output()}")

    def wait_until(self, condition, what):
        deadline = time.monotonic() + LIMIT_SECONDS
        while not condition():
            if self.process.poll() is not None:
                raise self.failure(f"ended with exit status {self.process.returncode} before it "
                                   f"{what}")
            if time.monotonic() > deadline:
                raise self.failure(f"never {what}")
            time.sleep(0.005)

    def wait(self):
        """Waits for the end. Returns the output; raises ProgramFailed unless the status is 0."""
        try:
            self.process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {LIMIT_SECONDS} s") from None
        if self.process.returncode != 0:
            raise self.failure(f"ended with exit status {self.process.returncode}")
        return self.output()


def wait_for_both(server, client):
    """Waits for both. Returns their outputs; raises ProgramFailed with both outputs."""
    try:
        client_output = client.wait()
        return server.wait(), client_output
    except ProgramFailed as error:
        # The other end may be about to print the reason.
        time.sleep(0.5)
        raise ProgramFailed(f"{error}\nthe server printed:\n{server.output()}"
                            f"\nthe client printed:\n{client.output()}") from None


def run_pair(wire, server, client, port, user=None, pids=None):
    """Runs the two ends of a client-server program; returns their outputs.

    `server` and `client` are commands. The client starts once the server listens on the TCP port.
    Raises ProgramFailed with the output of both. Their process ids are appended to `pids`.
    """
    pids = [] if pids is None else pids
    with Program(wire.command(0, server, user)) as first:
        pids.append(first.pid)
        first.wait_until(lambda: listens(first.pid, port), f"listened on port {port}")
        with Program(wire.command(1, client, user)) as second:
            pids.append(second.pid)
            return wait_for_both(first, second)
