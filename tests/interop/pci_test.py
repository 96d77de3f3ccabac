#!/usr/bin/python3
"""uroce on PCI NICs, each driven by DPDK's own driver for it: emulated ones in a virtual machine.

The peers are a uroce outside of the machine, over UDP sockets, and rdma_rxe in another machine. A
machine without an IOMMU gives its NICs to userspace by uio_pci_generic, one with an IOMMU by
vfio-pci.
"""

import dataclasses
import os
import subprocess
import sys
import time

# The harness of the system tests, which start the same programs.
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
                             "system"))

from harness import report
from harness.installation import LIBRARIES, MOVER, UROCE as UROCE_PROGRAM, UROCED
from harness.length import LONG_RUN
from harness.programs import Program
from rows import PATIENT_TIMEOUT, Row
from rows_test_case import RowsTest
from vm.machine import (FIRST_SLOT, LINK_MTU, NIC_GUEST_IPV4, NIC_GUEST_IPV6, NIC_IPV4, RXE_SETUP,
                        Setup)
from wire import RXE, UROCE, End, Wire, listens_in

NIC = End("uroce0", NIC_GUEST_IPV4)
HUGEPAGES = 40  # Of 2 MiB: one NIC takes 15.
LINK_LIMIT_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Nic:
    """A device of QEMU, and the kernel driver that gives it to userspace."""

    device: str
    driver: str


def _row(program, variant, kind, path_mtu, *options):
    return Row("PCI NICs", program, variant, kind, path_mtu, "IPv4", options=options)


ROWS = (
    _row("ibv_rc_pingpong", "", "ping-pong", 1024, "-s", "10000", "-n", "20", "-c"),
    _row("ibv_ud_pingpong", "", "ping-pong", None, "-s", "1000", "-n", "20", "-c"),
    _row("ib_write_bw", "", "perftest", 1024, "-s", "16384", "-n", "20"),
    _row("ib_read_lat", "", "perftest", 1024, "-s", "100", "-n", "20"),
    _row("mover", "3 queue pairs", "mover", 1024, "--rounds", "1", "--receives-in-advance",
         "--seed", "7", "--queue-pairs", "3", "--operations", "32", "--max-message-bytes",
         "200000", "--arena-bytes", "1000000", "--timeout", str(PATIENT_TIMEOUT)),
)
LARGE_FRAMES = _row("ib_send_bw", "", "perftest", 4096, "-s", "16384", "-n", "20")
ALL_ROWS = (*ROWS, LARGE_FRAMES)


class PciWire(Wire):
    """uroce on a PCI NIC of a machine, and a peer of either kind: UROCE or RXE."""

    def __init__(self, machine, uroce_options, peer, peer_machine):
        super().__init__(peer_machine, "UDP sockets", "IPv4")
        self.ends = (peer, NIC)
        self._machine = machine
        self._command = ("uroce", "run", *uroce_options, "--")

    def gid(self, end):
        return "1" if end is NIC else super().gid(end)

    def command(self, end, command):
        if end is not NIC:
            return super().command(end, command)
        return self._machine.inside(*self._command, os.path.basename(command[0]), *command[1:])

    def _listens(self, end, program, port):
        if end is NIC:
            return listens_in(self._machine, port)
        return super()._listens(end, program, port)


class PciCases:
    """The cases for each machine; the classes below describe the machines."""

    has_iommu = False
    nics = ()

    @classmethod
    def setUpClass(cls):
        cls.network = cls.make_network()
        setup = Setup("tap1", NIC_GUEST_IPV4, NIC_GUEST_IPV6, has_iommu=cls.has_iommu,
                      processors=2, nics=tuple(nic.device for nic in cls.nics))
        _, cls.machine = cls.start_machine(setup, [MOVER, UROCE_PROGRAM, UROCED], LIBRARIES)

    @classmethod
    def shell(cls, script):
        return cls.machine.run("busybox", "sh", "-c", script)

    @staticmethod
    def address(number):
        return f"0000:00:{FIRST_SLOT + 1 + number:02x}.0"

    @classmethod
    def bind(cls, number, driver):
        address = cls.address(number)
        device = f"/sys/bus/pci/devices/{address}"
        cls.shell(f"echo {driver} > {device}/driver_override; "
                  f"[ ! -e {device}/driver ] || echo {address} > {device}/driver/unbind; "
                  f"echo {address} > /sys/bus/pci/drivers_probe; [ -e {device}/driver ]")

    def refusal(self, number, option=""):
        """The message of `uroce run` about a NIC that it cannot open."""
        command = self.machine.inside("uroce", "run", "--port", self.address(number) + option,
                                      "--", "busybox", "true")
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout)
        return done.stdout

    def wire(self, number, peer=UROCE, options=()):
        guest = self.rxe if peer is RXE else self.network
        direct = ("--port", self.address(number), "--ip", NIC_IPV4, *options)
        return PciWire(self.machine, direct, peer, guest)

    def try_row(self, row, number, peer=UROCE, options=()):
        """Runs a row, in a long run in both directions; otherwise the serving end alternates
        between NICs and between rows."""
        kinds = {"ping-pong": self.ping_pong, "perftest": self.perftest, "mover": self.mover}
        ends = (peer, NIC)
        turn = (ALL_ROWS.index(row) + number) % len(ends)
        for server in ends if LONG_RUN else (ends[turn],):
            with self.subTest(program=row.program, nic=self.nics[number].device, server=server):
                kinds[row.kind](row, self.wire(number, peer, options), server)

    def bind_all(self):
        for number, nic in enumerate(self.nics):
            self.bind(number, nic.driver)
        self.shell(f"echo {HUGEPAGES} > /proc/sys/vm/nr_hugepages")

    # The tests run in the order of their names: first the errors before the NICs are ready, then
    # the cases that work.

    def test_1_nic_of_the_kernel_is_refused(self):
        self.assertRegex(self.refusal(0), "is driven by the kernel's virtio-pci.*: bind it to "
                         + ("vfio-pci" if self.has_iommu else "uio_pci_generic"))

    def test_2_nic_without_memory_is_refused(self):
        self.bind(0, self.nics[0].driver)
        self.assertRegex(self.refusal(0), r"needs physical addresses.* 0 MiB are free: "
                         r"'sysctl vm\.nr_hugepages=\d+'")

    def test_3_every_nic_against_uroce(self):
        self.bind_all()
        for number in range(len(self.nics)):
            for row in ROWS:
                self.try_row(row, number)
            self.try_row(LARGE_FRAMES, number, options=("--mtu", str(LINK_MTU)))

    def test_4_nics_against_rxe(self):
        self.bind_all()
        _, type(self).rxe = self.start_machine(RXE_SETUP, [MOVER])
        numbers = range(len(self.nics))
        for number in numbers if LONG_RUN else numbers[-1:]:
            for row in (ROWS[0], ROWS[-1]):
                self.try_row(row, number, RXE)

    def test_5_nic_of_uroced(self):
        self.bind_all()
        command = self.machine.inside("uroced", "--port", self.address(0), "--ip",
                                      f"{NIC_IPV4}/24", "--fabric", "nic")
        with Program(command) as uroced:
            uroced.wait_until(lambda: "is served" in uroced.output(), "was ready")
            wire = PciWire(self.machine, ("--fabric", "nic"), UROCE, self.network)
            self.ping_pong(ROWS[0], wire, UROCE)

    def test_6_link_down_is_reported(self):
        self.bind_all()
        last = len(self.nics) - 1
        self.machine.set_link(last + 1, "off")
        try:
            printed = self.devinfo(last)
            self.assertIn("PORT_DOWN", printed)
            self.assertIn(f"{self.address(last)} has no link", printed)
        finally:
            self.machine.set_link(last + 1, "on")
        deadline = time.monotonic() + LINK_LIMIT_SECONDS
        while "PORT_ACTIVE" not in (printed := self.devinfo(last)):
            self.assertLess(time.monotonic(), deadline, printed)

    def devinfo(self, number):
        return self.machine.run("uroce", "run", "--port", self.address(number), "--",
                                "ibv_devinfo")


class UioTest(PciCases, RowsTest):
    nics = (Nic("virtio-net-pci", "uio_pci_generic"), Nic("e1000e", "uio_pci_generic"))

    def test_0_nic_without_an_iommu_or_hugepages_is_refused(self):
        self.bind(1, "uio_pci_generic")
        self.assertIn("needs hugepages", self.refusal(1, ",hugepages=0"))


class VfioTest(PciCases, RowsTest):
    has_iommu = True
    # The second NIC uses ordinary memory. Behind an IOMMU, QEMU 7.2's e1000e does not send some
    # buffers from there, probably those that cross two pages; its e1000 sends all.
    nics = (Nic("virtio-net-pci", "vfio-pci"), Nic("e1000", "vfio-pci"))

    def test_0_uio_behind_an_iommu_is_refused(self):
        self.bind(1, "uio_pci_generic")
        self.assertIn("is behind an IOMMU", self.refusal(1))


if __name__ == "__main__":
    report.main()
