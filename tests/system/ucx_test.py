#!/usr/bin/python3
"""UCX finds the device, and its benchmark runs every operation over it.

The benchmark does not verify the data that it moves: mpi_test.py does, over UCX.
"""

from harness import report
from harness.cases import InstallationTestCase
from harness.length import LONG_RUN
from harness.programs import Program, free_tcp_port, run_pair
from harness.uplinks import UplinkWire
from harness.wires import IPV4, FabricWire, VethWire

# UCX's short name of a transport, and the name that it prints.
TRANSPORTS = {"rc_v": "rc_verbs", "ud_v": "ud_verbs"}

# Tests of ucp_*, and of UCX's other interfaces: tags, streams.
TESTS = ("tag_lat", "tag_bw", "tag_sync_lat", "stream_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get",
         "ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap", "ucp_am_lat", "ucp_am_bw")
ATOMICS = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")

# Options of both ends, and the tests that accept them.
VARIANTS = {
    "8 bytes": ([], TESTS),
    "1 MiB": (["-s", "1048576"], ("tag_bw", "ucp_put_bw", "ucp_get", "ucp_am_bw")),
    "asleep": (["-E", "sleep"], ("tag_lat", "ucp_am_lat")),
}
if LONG_RUN:
    VARIANTS |= {
        "100 bytes": (["-s", "100"], set(TESTS) - set(ATOMICS)),
        "8 KiB": (["-s", "8192"], set(TESTS) - set(ATOMICS)),
        "lists of buffers": (["-D", "iov", "-s", "64,4096,1000"], ("tag_bw", "tag_lat")),
        "error handling": (["-e"], TESTS),
        "unexpected messages": (["-U"], ("tag_lat", "tag_bw")),
        "two threads": (["-T", "2", "-M", "multi"], ("tag_lat", "ucp_put_bw")),
    }
# Options of io_demo: tags, and active messages.
SOCKADDR_OPTIONS = ([], ["-A"]) if LONG_RUN else ([],)

ITERATIONS = 5000 if LONG_RUN else 200


class UcxTest(InstallationTestCase):

    def test_ucx_info_describes_the_device(self):
        with FabricWire(self.installation) as wire, \
                Program(wire.command(0, ["ucx_info", "-d"])) as program:
            output = program.wait()
        for transport in TRANSPORTS.values():
            self.assertRegex(output, rf"Transport: {transport}\n#\s+Device: uroce0:1\n")

    def check(self, transport, test, options):
        port = free_tcp_port()
        server = ["env", f"UCX_TLS={transport}", "ucx_perftest", "-p", str(port)]
        # At this level UCX prints the transport of a connection.
        client = ["env", "UCX_LOG_LEVEL=info", *server[1:], "-t", test, "-n", str(ITERATIONS), "-w",
                  "100", *options, "127.0.0.1"]
        with FabricWire(self.installation) as wire:
            outputs = run_pair(wire, server, client, port)
        for output in outputs:
            self.assertNotRegex(output, r"UCX +(FATAL|ERROR|WARN)")
        self.assertRegex(outputs[1], r"Final: +[1-9]")
        self.assertIn(f"({TRANSPORTS[transport]}/uroce0:1", outputs[1])

    def check_variants(self, transport):
        for name, (options, tests) in VARIANTS.items():
            for test in tests:
                with self.subTest(f"{test}, {name}"):
                    self.check(transport, test, options)

    # Connects by rdma_cm: the kernel's TCP does not know the addresses of a fabric's programs.
    def check_sockaddr(self, wire, options):
        port = str(free_tcp_port())
        command = ["env", "UCX_TLS=rc_v", "UCX_SOCKADDR_TLS_PRIORITY=rdmacm", "io_demo", "-q",
                   "-p", port, "-d", "1000:100000", *options]
        with wire, Program(wire.command(0, command)) as server:
            server.wait_until(lambda: "started listener" in server.output(), "listened")
            with Program(wire.command(1, [*command, "-i", "100", "-o", "read,write",
                                          IPV4[0]])) as client:
                output = client.wait()
            self.assertIsNone(server.process.poll(), server.output())
            output += server.output()
        self.assertIn("Client exit with status 'OK'", output)
        self.assertNotRegex(output, r"\b(ERROR|FATAL)\b|corrupt")

    def test_io_demo(self):
        for options in SOCKADDR_OPTIONS:
            with self.subTest(options):
                self.check_sockaddr(FabricWire(self.installation, IPV4), options)

    def test_io_demo_between_hosts(self):
        if why_not := VethWire.why_not():
            self.skipTest(why_not)
        for options in SOCKADDR_OPTIONS:
            with self.subTest(options):
                self.check_sockaddr(UplinkWire(self.installation), options)

    def test_reliable_connections(self):
        self.check_variants("rc_v")

    def test_datagrams(self):
        self.check_variants("ud_v")


if __name__ == "__main__":
    report.main()
