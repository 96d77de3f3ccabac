"""Processes that attach to uroced and leave, in the words of dpdk_nic/control/messages.h."""

import fcntl
import os
import socket
import struct

_PROTOCOL_VERSION = 1
_HELLO = 1
_WELCOME = 32
_HEADER = struct.Struct("=IHH")  # bytes of the body, version, type
_HELLO_BODY = struct.Struct("=II16s")  # block to resume, MTU, address
_BLOCK = struct.Struct("=I")  # what the body of a welcome begins with

BLOCKS = 1022  # of queue pair numbers, which a uroced has to give


def visit(fabric):
    """Becomes a client for a moment; returns the block of queue pair numbers that it was given."""
    state = os.memfd_create("state", os.MFD_ALLOW_SEALING)
    try:
        fcntl.fcntl(state, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as uroced:
            uroced.connect(f"\0uroce-{_PROTOCOL_VERSION}/{os.geteuid()}/{fabric}")
            hello = (_HEADER.pack(_HELLO_BODY.size, _PROTOCOL_VERSION, _HELLO)
                     + _HELLO_BODY.pack(0, 0, bytes(16)))
            socket.send_fds(uroced, [hello], [state])
            answer = uroced.recv(_HEADER.size + _BLOCK.size, socket.MSG_WAITALL)
    finally:
        os.close(state)
    _, _, answer_type = _HEADER.unpack_from(answer)
    assert answer_type == _WELCOME, answer
    return _BLOCK.unpack_from(answer, _HEADER.size)[0]
