"""Clients that attach to uroced and leave, with the messages of dpdk_nic/control/messages.h, at the
place that dpdk_nic/control/fabric_place.h describes."""

import fcntl
import glob
import os
import socket
import struct

_SO_NETNS_COOKIE = 71
_HELLO = 1
_WELCOME = 32
_HEADER = struct.Struct("=IHH")  # bytes of the body, version, type
_HELLO_BODY = struct.Struct("=I16s")  # MTU, address
_BLOCK = struct.Struct("=I")  # the first field of a Welcome's body

BLOCKS = 1022  # blocks of QPNs that a uroced can give out


def _listener(fabric, in_namespace):
    """The path of the socket of this user's uroced, and the protocol version in its folder's name;
    `in_namespace` is any socket of the network namespace."""
    cookie = in_namespace.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)
    folder = f"{fabric}.{int.from_bytes(cookie, 'little')}.v"
    places = ["/run/uroce"] if os.geteuid() == 0 else [
        f"/run/user/{os.geteuid()}/uroce", f"/tmp/uroce-{os.geteuid()}"]
    found = [path for place in places for path in glob.glob(f"{place}/{folder}*/socket")]
    assert found, f"no uroced serves {fabric}"
    return found[0], int(found[0].removesuffix("/socket").rpartition(".v")[2])


def attach_and_leave(fabric):
    """Becomes a client for a moment; returns its block of QPNs."""
    state = os.memfd_create("state", os.MFD_ALLOW_SEALING)
    try:
        fcntl.fcntl(state, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as uroced:
            path, version = _listener(fabric, uroced)
            uroced.connect(path)
            hello = (_HEADER.pack(_HELLO_BODY.size, version, _HELLO)
                     + _HELLO_BODY.pack(0, bytes(16)))
            socket.send_fds(uroced, [hello], [state])
            answer = uroced.recv(_HEADER.size + _BLOCK.size, socket.MSG_WAITALL)
    finally:
        os.close(state)
    _, _, answer_type = _HEADER.unpack_from(answer)
    assert answer_type == _WELCOME, answer
    return _BLOCK.unpack_from(answer, _HEADER.size)[0]
