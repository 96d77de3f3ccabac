"""Independent readers of a capture: tshark's dissector, and the ICRC of scapy."""

import struct
import subprocess
import warnings
import zlib

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # scapy warns about its cryptography library
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP
    from scapy.layers.l2 import Ether

ROCE_PORT = 4791
ETHERTYPE_IPV6 = 0x86DD
ETHERNET_BYTES = 14
ICRC_BYTES = 4
# The protocols that tshark recognises, or believes it does, in RDMA payload.
PAYLOAD_GUESSES = ("smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "infiniband_sdp",
                   "fcoib", "infiniband.eoib")


def read_frames(path):
    """The frames of a pcapng file, in order. Any block but enhanced packets is skipped."""
    with open(path, "rb") as file:
        data = file.read()
    frames = []
    enhanced_packet = 6
    position = 0
    while position < len(data):
        kind, length = struct.unpack_from("<II", data, position)
        if kind == enhanced_packet:
            captured, original = struct.unpack_from("<II", data, position + 20)
            assert captured == original, "a frame is cut short"
            frames.append(data[position + 28:position + 28 + captured])
        position += length
    assert position == len(data), "the last block is cut short"
    return frames


def tshark(path, *arguments):
    """The lines that tshark prints about a capture."""
    # tshark guesses the protocol of RDMA payload; random bytes mislead it.
    no_guesses = [word for guess in PAYLOAD_GUESSES for word in ("--disable-protocol", guess)]
    done = subprocess.run(["tshark", "-r", path, *no_guesses, *arguments], check=True,
                          capture_output=True, text=True)
    return done.stdout.splitlines()


def _ipv6_icrc(frame):
    """The ICRC over IPv6 (IBA CA17-22), computed here because scapy 2.5 has it over IPv4 only.

    The CRC of 8 bytes of ones in place of a local route header, then of the packet with all fields
    that may change on the way set to ones: traffic class, flow label, hop limit, UDP checksum, and
    the byte of the BTH with the congestion bits.
    """
    packet = bytearray(frame[ETHERNET_BYTES:-ICRC_BYTES])
    udp = 40
    bth = udp + 8
    packet[0] |= 0x0F
    packet[1:4] = b"\xff" * 3
    packet[7] = 0xFF
    packet[udp + 6:udp + 8] = b"\xff" * 2
    packet[bth + 4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + packet))


def _ipv4_icrc(frame):
    packet = Ether(frame)
    # The length that scapy computes must be the one that was sent.
    assert packet[IP].len == len(frame) - ETHERNET_BYTES
    return packet[BTH].compute_icrc(None)


def icrc_is_right(frame):
    """Whether the last four bytes are the ICRC of a RoCEv2 frame."""
    is_ipv6 = struct.unpack_from(">H", frame, 12)[0] == ETHERTYPE_IPV6
    computed = _ipv6_icrc(frame) if is_ipv6 else _ipv4_icrc(frame)
    return computed == frame[-ICRC_BYTES:]
