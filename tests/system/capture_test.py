#!/usr/bin/python3
"""The files of `uroce run --capture`, checked by tshark and by an independent ICRC."""

import collections
import itertools
import os

from harness import report
from harness.capture import icrc_is_right, read_frames, tshark
from harness.cases import InstallationTestCase
from harness.installation import MOVER
from harness.length import combinations
from harness.programs import free_tcp_port, run_pair
from harness.wires import IPV4, IPV6, FabricWire, MemifWire

# A few thousand frames: scapy needs a millisecond for each.
WORKLOAD = ["--rounds", "1", "--queue-pairs", "2", "--operations", "60",
            "--max-message-bytes", "100000", "--arena-bytes", "1500000", "--timeout", "14"]

# RoCEv2 devices (such as rdma_rxe) send no UDP checksum, not even over IPv6. RFC 6936 allows that,
# but tshark does not know that RoCEv2 is such a protocol.
FORGIVEN = "Illegal checksum value (0)"

READ_REQUEST = 12
ACKNOWLEDGEMENTS = range(13, 19)  # READ responses, ACKs, atomic ACKs
PSN_MASK = 0xFFFFFF

WIRESHARK_SCRIPT = os.path.abspath("tools/wireshark/uroce.lua")
SELECTIVE_ACK = 0xDE
OWN_FEATURES = 7


class CaptureTest(InstallationTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.names = itertools.count()

    def capture(self, wire_class, ips, seed, options=()):
        """Runs the mover; returns the capture files of both ends."""
        name = os.path.join(self.installation.scratch, f"run-{next(self.names)}")
        # Each of the two processes of a run writes its own file.
        wire = wire_class(self.installation, ips, [*options, "--capture", name + "-%p.pcapng"])
        port = free_tcp_port()
        mover = [self.installation.path(MOVER), *WORKLOAD, "--seed", str(seed)]
        pids = []
        with wire:
            run_pair(wire, [*mover, "server", wire.host(0), str(port)],
                     [*mover, "client", wire.host(0), str(port)], port, pids=pids)
        return [f"{name}-{pid}.pcapng" for pid in pids]

    def check_decodes(self, path):
        frames = read_frames(path)
        self.assertGreater(len(frames), 500)
        self.assertEqual(len(tshark(path, "-Y", "infiniband")), len(frames))
        self.assertEqual(tshark(path, "-Y", "_ws.malformed"), [])
        complaints = set(tshark(path, "-T", "fields", "-e", "_ws.expert.message"))
        self.assertLessEqual(complaints, {"", FORGIVEN})

    def check_icrc(self, path):
        wrong = [number for number, frame in enumerate(read_frames(path), 1)
                 if not icrc_is_right(frame)]
        self.assertEqual(wrong, [])

    def test_every_frame_decodes_and_has_the_right_icrc(self):
        spoiled = ["--impair", "drop=1%,duplicate=1%,reorder=1%,seed=5"]
        wires = ((FabricWire, []), (FabricWire, spoiled), (MemifWire, spoiled))
        for (wire, options), ips in combinations(wires, (IPV4, IPV6)):
            with self.subTest(wire=wire.name, ips=ips, options=options):
                for path in self.capture(wire, ips, seed=3, options=options):
                    self.check_decodes(path)
                    self.check_icrc(path)

    def test_wireshark_can_be_taught_the_packets_that_only_uroce_has(self):
        fields = ("infiniband.bth.opcode", "infiniband.bth.psn", "uroce.sack.kept",
                  "uroce.query.answer", "uroce.query.features")
        paths = self.capture(MemifWire, IPV4, seed=8, options=["--impair", "drop=1%,seed=8"])
        answers = []
        lists = 0
        for path in paths:
            known = tshark(path, "-X", f"lua_script:{WIRESHARK_SCRIPT}", "-Y", "uroce", "-T",
                           "fields", *itertools.chain.from_iterable(("-e", f) for f in fields))
            selective = tshark(path, "-Y", f"infiniband.bth.opcode == {SELECTIVE_ACK}")
            for row in known:
                opcode, missing, kept, answer, features = row.split("\t")
                if int(opcode) != SELECTIVE_ACK:
                    answers.append((answer, features))
                    continue
                lists += 1
                behind = [(int(psn) - int(missing)) & PSN_MASK for psn in kept.split(",") if psn]
                self.assertEqual(behind, sorted(set(behind)))
                self.assertLessEqual({0 < distance <= 4096 for distance in behind}, {True})
            self.assertEqual(sum(row.startswith(str(SELECTIVE_ACK)) for row in known),
                             len(selective))
        self.assertGreater(lists, 0)
        self.assertEqual(set(answers), {("0", ""), ("1", f"0x{OWN_FEATURES:06x}")})

    def test_a_flipped_bit_is_noticed(self):
        for ips in (IPV4, IPV6):
            path = self.capture(FabricWire, ips, seed=4)[0]
            frame = read_frames(path)[-1]
            self.assertTrue(icrc_is_right(frame))
            header_bytes = 14 + (40 if ips is IPV6 else 20) + 8
            # Three bytes of the BTH that the ICRC covers, the frame's last byte, and one of the IP
            # header.
            for position in (header_bytes, header_bytes + 1, header_bytes + 11, len(frame) - 1,
                             14 + 12):
                spoiled = bytearray(frame)
                spoiled[position] ^= 0x10
                with self.subTest(ips=ips, position=position):
                    self.assertFalse(icrc_is_right(bytes(spoiled)))

    def test_a_frame_that_was_corrupted_on_the_wire_is_seen_as_it_arrived(self):
        paths = self.capture(FabricWire, IPV4, seed=6, options=["--impair", "corrupt=3%,seed=6"])
        for path, address in zip(paths, IPV4):
            fields = tshark(path, "-T", "fields", "-e", "ip.src")
            right = {"sent": 0, "received": 0}
            wrong = {"sent": 0, "received": 0}
            for source, frame in zip(fields, read_frames(path)):
                direction = "sent" if source == address else "received"
                try:
                    counter = right if icrc_is_right(frame) else wrong
                except Exception:  # scapy cannot read it at all
                    counter = wrong
                counter[direction] += 1
            self.assertEqual(wrong["sent"], 0)
            self.assertGreater(wrong["received"], 0)
            self.assertGreater(right["received"], wrong["received"])

    def test_no_frame_is_missing(self):
        for ips in (IPV4, IPV6):
            with self.subTest(ips=ips):
                paths = self.capture(FabricWire, ips, seed=7)
                for sender, receiver in (paths, paths[::-1]):
                    self.check_arrived(sender, receiver, ips[paths.index(sender)])
                    self.check_no_psn_is_skipped(sender, ips[paths.index(sender)])

    def check_arrived(self, sender, receiver, source):
        """The receiver got what the sender sent, in the same order."""
        source_field = "ipv6.src" if ":" in source else "ip.src"

        def from_source(path):
            addresses = tshark(path, "-T", "fields", "-e", source_field)
            return [frame for address, frame in zip(addresses, read_frames(path))
                    if address == source]

        sent, received = from_source(sender), from_source(receiver)
        self.assertGreater(len(received), 200)
        # The other program may have ended before the last acknowledgements arrive.
        self.assertLessEqual(len(sent) - len(received), 16)
        self.assertEqual(sent[:len(received)], received)

    def check_no_psn_is_skipped(self, path, source):
        """New requests of a queue pair have consecutive PSNs. A retransmission goes back to an
        earlier PSN and ends where an acknowledgement says."""
        source_field = "ipv6.src" if ":" in source else "ip.src"
        fields = ("infiniband.bth.destqp", "infiniband.bth.opcode", "infiniband.bth.psn",
                  "infiniband.reth.dmalen")
        rows = tshark(path, "-Y", f"{source_field} == {source}", "-T", "fields",
                      *itertools.chain.from_iterable(("-e", field) for field in fields))
        first_unused = {}
        path_mtu = 4096
        packets = collections.Counter()
        for row in rows:
            queue_pair, opcode, psn, length = row.split("\t")
            opcode, psn = int(opcode), int(psn)
            if opcode in ACKNOWLEDGEMENTS:
                continue
            packets[queue_pair] += 1
            expected = first_unused.get(queue_pair, psn)
            ahead = (psn - expected) & PSN_MASK
            self.assertTrue(ahead == 0 or ahead > PSN_MASK // 2,
                            f"queue pair {queue_pair}: PSN {psn} instead of {expected}")
            psns = max(1, -(-int(length) // path_mtu)) if opcode == READ_REQUEST else 1
            if (psn + psns - expected) & PSN_MASK <= PSN_MASK // 2:
                first_unused[queue_pair] = (psn + psns) & PSN_MASK
        self.assertEqual(len(packets), 2)
        self.assertGreater(min(packets.values()), 50)


if __name__ == "__main__":
    report.main()
