#!/usr/bin/python3
"""Partitions: stock programs on devices to which `uroce run --pkey` gives several P_Keys."""

from harness import report
from harness.cases import InstallationTestCase
from harness.perftest import check_figures, check_no_error
from harness.programs import Program, ProgramFailed, free_tcp_port, run_pair
from harness.wires import FabricWire

PERFTEST = (
    ["ib_write_bw", "-s", "4096", "-n", "100"],
    ["ib_send_lat", "-s", "64", "-n", "50", "-c", "UC"],
    ["ib_send_lat", "-s", "64", "-n", "50", "-c", "UD"],
)


class PartitionTest(InstallationTestCase):

    def wire(self, pkeys):
        return FabricWire(self.installation, options=["--pkey", pkeys])

    def run_in(self, wire, program, *indices):
        """Runs perftest with the P_Keys at these indices of the server's and the client's table."""
        port = free_tcp_port()
        server, client = ([*program, "-F", "-d", "uroce0", "-p", str(port), f"--pkey_index={index}"]
                          for index in indices)
        return run_pair(wire, server, [*client, "127.0.0.1"], port)

    def test_table_is_shown(self):
        wire = self.wire("0x8001,2")
        with Program(wire.command(0, ["ibv_devinfo", "-v"])) as program:
            output = program.wait()
        self.assertRegex(output, r"max_pkeys:\s+3\n")
        self.assertRegex(output, r"pkey_tbl_len:\s+3\n")
        folder = "/sys/class/infiniband/uroce0/ports/1/pkeys"
        with Program(wire.command(0, ["sh", "-c", f"cat {folder}/0 {folder}/1 {folder}/2"])) as cat:
            self.assertEqual(cat.wait(), "0xffff\n0x8001\n0x0002\n")

    def test_perftest_in_a_partition(self):
        wire = self.wire("0x8001,0x8002")
        for program in PERFTEST:
            with self.subTest(program=program):
                for output in self.run_in(wire, program, 2, 2):
                    check_no_error(self, output)
                check_figures(self, output)

    def test_partitions_do_not_reach_each_other(self):
        wire = self.wire("0x8001,0x8002,0x0003")
        for server, client in ((1, 2), (3, 3)):  # two partitions; two limited members
            with self.subTest(server=server, client=client), self.assertRaises(ProgramFailed):
                self.run_in(wire, [*PERFTEST[0], "-u", "8"], server, client)


if __name__ == "__main__":
    report.main()
