"""The stock programs of librdmacm: clients, and what of theirs is no fault of the device."""

import re
import time

from harness.programs import LIMIT_SECONDS, Program, ProgramFailed

# riostream listens before it says that memory may be mapped. A client that connects in between is
# accepted and has none, and librdmacm's rclose never returns to that server.
CAME_TOO_EARLY = "riomap: Cannot allocate memory"
# The main thread of rping closes the event channel and ends while another one may be about to wait
# for the next event. All its messages have been exchanged by then.
CLOSED_ITS_CHANNEL = re.compile(r"DISCONNECT EVENT.*\s+rdma_get_cm_event: Bad file descriptor\s*$")


class CameTooEarly(Exception):
    pass


def run_client(server, command):
    """Runs a client until one reaches the server, a Program: one that comes before the server
    listens is rejected. Returns what it printed."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        with Program(command) as client:
            try:
                return client.wait()
            except ProgramFailed as error:
                if CAME_TOO_EARLY in str(error):
                    raise CameTooEarly from error
                if CLOSED_ITS_CHANNEL.search(client.output()):
                    return client.output()
                if server.process.poll() is not None or time.monotonic() > deadline:
                    raise ProgramFailed(f"{error}\nthe server printed:\n{server.output()}"
                                        ) from None


def server_statuses(program):
    """With which exit statuses its server may end. rping's has 255 if the client went first."""
    return (0, 255) if program == "rping" else (0,)
