"""Runs the two ends of a client-server program, each on a cpu of its own."""

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
import time

LIMIT_SECONDS = 120


class PairFailed(Exception):
    """One of the two ends failed; the message holds what both printed."""


def free_tcp_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pin(cpu, command):
    return ["taskset", "-c", str(cpu), *command]


def run(command):
    """Runs one command; returns what it printed."""
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS)
    if done.returncode != 0:
        raise PairFailed(f"'{' '.join(command)}' ended with exit status {done.returncode}:\n"
                         f"{done.stdout}")
    return done.stdout


def is_listened_on(port, inside):
    return bool(run([*inside, "ss", "-Hltn", f"sport = :{port}"]))


def await_listener(process, port, inside=()):
    """Waits until a server listens on `port`; `inside` as in run_pair."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while process.poll() is None and not is_listened_on(port, inside):
        if time.monotonic() > deadline:
            raise PairFailed(f"{' '.join(process.args)} never listened on port {port}")
        time.sleep(0.05)


@contextlib.contextmanager
def started(command, ready):
    """Runs a daemon, from when it has printed `ready` until the `with` block ends."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + LIMIT_SECONDS
            while True:
                # pread, because the daemon writes its next line at the file's position.
                size = os.fstat(output.fileno()).st_size
                printed = os.pread(output.fileno(), size, 0).decode(errors="replace")
                if ready in printed:
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise PairFailed(f"'{' '.join(command)}' does not get ready:\n{printed}")
                time.sleep(0.02)
            yield
        finally:
            process.terminate()
            process.wait()


def run_pair(server, client, port, inside=()):
    """Starts `server`, waits until it listens on `port`, runs `client`; returns its output.

    `inside` makes a command run where the server does, if that is another network namespace. The
    server sits on the last cpu that this process may use and the client on the first.
    """
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace") as server_output:
        process = subprocess.Popen(pin(cpus[-1], server), stdout=server_output,
                                   stderr=subprocess.STDOUT)
        try:
            await_listener(process, port, inside)
            output = run(pin(cpus[0], client))
            process.wait(LIMIT_SECONDS)
        except (PairFailed, subprocess.TimeoutExpired) as error:
            process.kill()
            process.wait()
            server_output.seek(0)
            raise PairFailed(f"{error}\nits server printed:\n{server_output.read()}") from error
        return output


@contextlib.contextmanager
def conversation(command):
    """Runs a program until the `with` block ends, which ends the program's standard input. Gives a
    function that returns the next line that the program prints."""
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace") as errors, \
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                             text=True) as process:
        limit = threading.Timer(LIMIT_SECONDS, process.kill)
        limit.start()

        def failure(what):
            process.kill()
            process.wait()
            errors.seek(0)
            return PairFailed(f"'{' '.join(command)}' {what}:\n{errors.read()}")

        def next_line():
            line = process.stdout.readline()
            if not line:
                raise failure("printed too little")
            return line.strip()

        try:
            yield next_line
            process.stdin.close()
            status = process.wait()
            if status != 0:
                raise failure(f"ended with exit status {status}")
        finally:
            limit.cancel()
            process.kill()


def run_together(first, second):
    """Starts `second` when `first` has printed that it is ready; returns the figure that each of
    them prints next. The second leaves before the first."""
    cpus = sorted(os.sched_getaffinity(0))
    with conversation(pin(cpus[-1], first)) as line_of_first:
        line_of_first()
        with conversation(pin(cpus[0], second)) as line_of_second:
            line_of_second()
            at_second, at_first = line_of_second(), line_of_first()
    return float(at_first), float(at_second)
