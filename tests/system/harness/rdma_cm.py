"""The stock programs of librdmacm, and their own faults, which are not the device's."""

import re
import time

from harness.programs import LIMIT_SECONDS, Program, ProgramFailed

# The main thread of rping closes the event channel and ends while another one may be about to wait
# for the next event. All its messages have been exchanged by then.
CLOSED_ITS_CHANNEL = re.compile(r"DISCONNECT EVENT.*\s+rdma_get_cm_event: Bad file descriptor\s*$")
# The head start of a server, which does not report when it listens.
HEAD_STARTS_SECONDS = (0.1, 0.5, 2, 8)


def run_client(command):
    """Runs a client. Returns what it printed."""
    with Program(command) as client:
        try:
            return client.wait()
        except ProgramFailed:
            if CLOSED_ITS_CHANNEL.search(client.output()):
                return client.output()
            raise


def run_client_until_served(server, command):
    """Runs clients until one reaches the server, a Program that serves one after the other: a
    client that comes before the server listens is refused. Returns the output of the last
    client."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            return run_client(command)
        except ProgramFailed as error:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise ProgramFailed(f"{error}\nthe server printed:\n{server.output()}") from None


def run_anew_until_served(run):
    """Returns the result of `run(head_start)`, which starts a server, waits for that many seconds,
    and runs a client.

    If the client fails, it runs again with a longer head start. A server may refuse only some
    connections of a client that comes too early; it counts connections, so it serves the others and
    waits for more. A riostream client that comes too early is accepted, but has no memory to write
    to.
    """
    for head_start in HEAD_STARTS_SECONDS[:-1]:
        try:
            return run(head_start)
        except ProgramFailed as refused:
            print(refused)
    return run(HEAD_STARTS_SECONDS[-1])


def wait_for_server(server, program):
    """Waits for the end of a server, a Program. The server of rping ends with 255 if its client
    ends first."""
    statuses = (0, 255) if program == "rping" else (0,)
    try:
        server.wait()
    except ProgramFailed as failed:
        # run_anew_until_served must not retry this, so it is no ProgramFailed.
        if server.process.poll() not in statuses:
            raise AssertionError(str(failed)) from None
