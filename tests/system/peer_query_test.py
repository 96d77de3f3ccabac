#!/usr/bin/python3
"""What uroced and its processes tell another host that asks (transport/peers/peer_query.h): a host
without uroce asks by a plain UDP socket.
"""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import zlib

from harness import report
from harness.agents import Agent, join
from harness.cases import InstallationTestCase
from harness.daemons import status, wait_for
from harness.hosts import FABRIC, UDP, Network

ROCE_PORT = 4791
SOURCE_PORT = 49443
CLASS, OUI, GET, GET_RESPONSE, ATTRIBUTE = 0x3C, 0x027572, 0x01, 0x81, 0x10
QUEUE_PAIR_1 = struct.pack(">II", 0x80010000, 1)  # the Q_Key, and the source
GONE, LIVES, RUNS = 1, 2, 3
DEVICE, ASKER = range(2)  # hosts
QUIET_SECONDS = 0.3
STOPPED_SECONDS = 2  # several times as long as the retries of a connection take


def packet(source, destination, qpn):
    """The payload of a UDP datagram with the query, from the BTH to the ICRC."""
    mad = bytearray(256)
    struct.pack_into(">BBBB4xQH2xI", mad, 0, 1, CLASS, 1, GET, 5 << 54 | 1234, ATTRIBUTE, qpn)
    struct.pack_into(">I", mad, 36, OUI)
    bth = struct.pack(">BBHII", 0x64, 0x40, 0xFFFF, 1, 0)
    body = bth + QUEUE_PAIR_1 + mad
    # The ICRC covers the headers with ones in the place of the fields that a router changes.
    udp_bytes = 8 + len(body) + 4
    ip = struct.pack(">BBHHHBBH", 0x45, 0xFF, 20 + udp_bytes, 0, 0x4000, 0xFF, 17, 0xFFFF)
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    udp = struct.pack(">HHHH", SOURCE_PORT, ROCE_PORT, udp_bytes, 0xFFFF)
    masked = b"\xff" * 8 + ip + addresses + udp + body[:4] + b"\xff" + body[5:]
    return body + struct.pack("<I", zlib.crc32(masked))


def ask(source, destination, qpn):
    """Asks, and prints what the answers say of the process, until they end."""
    with socket.socket(type=socket.SOCK_DGRAM) as receiver, \
            socket.socket(type=socket.SOCK_DGRAM) as sender:
        receiver.bind((source, ROCE_PORT))
        receiver.settimeout(QUIET_SECONDS)
        sender.bind((source, SOURCE_PORT))
        ip_mtu_discover, always = 10, 2  # then the identification is 0
        sender.setsockopt(socket.IPPROTO_IP, ip_mtu_discover, always)
        sender.sendto(packet(source, destination, qpn), (destination, ROCE_PORT))
        with contextlib.suppress(TimeoutError):
            while True:
                mad = receiver.recv(4096)[len(QUEUE_PAIR_1) + 12:]
                if mad[1] == CLASS and mad[3] == GET_RESPONSE:
                    print(mad[40])


class PeerQueryTest(InstallationTestCase):
    needs = Network

    def setUp(self):
        self.network = self.enterContext(Network(self.installation, 2, driver=UDP))

    def command(self, end, command):
        return self.network.command(end, command)

    @property
    def installed(self):
        return self.installation

    def answers_about(self, qpn):
        asker, device = (self.network.hosts[host] for host in (ASKER, DEVICE))
        command = [*asker.namespace.prefix, sys.executable, os.path.realpath(__file__), "ask",
                   asker.ipv4, device.ipv4, str(qpn)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return sorted(int(line) for line in done.stdout.split())

    def use_connection(self, agent):
        """Has the agent use a connection to the other host, which has no uroce afterwards. Returns
        its process and its queue pair."""
        with Agent(self, ASKER) as other:
            number, _ = join(agent, other)
            self.assertEqual(agent.write(number, 1, 1000).status, "SUCCESS")
            fabric = status(self.installation, FABRIC,
                            self.network.hosts[DEVICE].namespace.prefix)
        self.network.hosts[ASKER].daemon.__exit__(None, None, None)
        self.network.hosts[ASKER].daemon = None
        client, = fabric["clients"]
        return client["pid"], client["queue_pairs"][0]["qpn"]

    def test_process_that_is_stopped_lives_and_does_not_run(self):
        with Agent(self, DEVICE) as agent:
            pid, qpn = self.use_connection(agent)
            self.assertEqual(self.answers_about(0), [0], "not about a process")
            self.assertEqual(self.answers_about(qpn), [LIVES, RUNS])
            os.kill(pid, signal.SIGSTOP)
            self.assertEqual(self.answers_about(qpn), [LIVES])
            self.assertEqual(self.answers_about(qpn), [LIVES])
            os.kill(pid, signal.SIGCONT)
            wait_for(lambda: self.answers_about(qpn) == [LIVES, RUNS], "ran again")
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: self.answers_about(qpn) == [GONE], "was gone")

    def test_request_waits_for_a_process_that_is_stopped(self):
        with Agent(self, DEVICE) as agent, Agent(self, ASKER) as other:
            number, _ = join(agent, other)
            self.assertEqual(agent.write(number, 1, 1000).status, "SUCCESS")
            fabric = status(self.installation, FABRIC,
                            self.network.hosts[ASKER].namespace.prefix)
            stopped = fabric["clients"][0]["pid"]
            os.kill(stopped, signal.SIGSTOP)
            wake = threading.Timer(STOPPED_SECONDS, os.kill, (stopped, signal.SIGCONT))
            wake.start()
            self.assertEqual(agent.write(number, 2, 1000).status, "SUCCESS")
            wake.join()


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        ask(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        report.main()
