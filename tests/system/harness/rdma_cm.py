"""The stock programs of librdmacm, and what of theirs is no fault of the device's."""

import re
import time

from harness.programs import LIMIT_SECONDS, Program, ProgramFailed

# The main thread of rping closes the event channel and ends while another one may be about to wait
# for the next event. All its messages have been exchanged by then.
CLOSED_ITS_CHANNEL = re.compile(r"DISCONNECT EVENT.*\s+rdma_get_cm_event: Bad file descriptor\s*$")
# Of a server, which tells nobody when it listens.
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
    """Runs a client until one reaches the server, a Program that serves one after the other: a
    client that comes before the server listens is refused. Returns what the last one printed."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            return run_client(command)
        except ProgramFailed as error:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise ProgramFailed(f"{error}\nthe server printed:\n{server.output()}") from None


def run_anew_until_served(run):
    """Returns what `run(head_start)` does: it starts a server, waits for so many seconds, and runs
    a client.

    If the client fails it is all done anew, with a longer head start. A client that comes too early
    may be refused with some of its connections only, and the server, which counts them, serves the
    others and waits for more. One of riostream's is accepted and has no memory to write to.
    """
    for head_start in HEAD_STARTS_SECONDS[:-1]:
        try:
            return run(head_start)
        except ProgramFailed as refused:
            print(refused)
    return run(HEAD_STARTS_SECONDS[-1])


def wait_for_server(server, program):
    """Waits for the end of a server, a Program. That of rping ends with 255 if its client went
    first."""
    statuses = (0, 255) if program == "rping" else (0,)
    try:
        server.wait()
    except ProgramFailed as failed:
        # Not a case for run_anew_until_served.
        if server.process.poll() not in statuses:
            raise AssertionError(str(failed)) from None
