#!/usr/bin/python3
"""Runs a program in the virtual machine, with the input, output and exit status of this one.

usage: guest_run.py ADDRESS PORT COMMAND [ARGUMENTS]

The program is killed when this one is. guest_agent.cc explains the protocol.
"""

import os
import selectors
import socket
import struct
import sys

HEADER = struct.Struct(">cI")
EXIT_UNREACHABLE = 255


def receive(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            print("guest_run: the virtual machine has closed the connection", file=sys.stderr)
            sys.exit(EXIT_UNREACHABLE)
        data += more
    return data


def forward_input(connection, selector):
    data = os.read(sys.stdin.fileno(), 4096)
    if data:
        connection.sendall(HEADER.pack(b"i", len(data)) + data)
    else:
        connection.sendall(HEADER.pack(b"e", 0))
        selector.unregister(sys.stdin)


def main(address, port, *command):
    try:
        connection = socket.create_connection((address, int(port)), timeout=60)
    except OSError as error:
        print(f"guest_run: {error}", file=sys.stderr)
        sys.exit(EXIT_UNREACHABLE)
    connection.settimeout(None)
    connection.sendall(b"".join(word.encode() + b"\0" for word in command) + b"\0")
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        try:
            selector.register(sys.stdin, selectors.EVENT_READ)
        except PermissionError:  # A file or /dev/null cannot be polled: sends no input.
            connection.sendall(HEADER.pack(b"e", 0))
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    forward_input(connection, selector)
                    continue
                kind, length = HEADER.unpack(receive(connection, HEADER.size))
                data = receive(connection, length)
                if kind == b"x":
                    sys.exit(data[0])
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
