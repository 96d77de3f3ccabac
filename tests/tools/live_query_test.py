#!/usr/bin/python3
"""live_query over both kinds of wire: the attributes in ibv_query_qp, and the failure of a silent
peer.

usage: live_query_test.py PATH_OF_UROCE PATH_OF_LIVE_QUERY
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

UROCE, LIVE_QUERY = map(os.path.abspath, sys.argv[1:3])
LIMIT_SECONDS = 120


class LiveQueryTest(unittest.TestCase):

    def start_server(self, options):
        """Starts the server; returns it and the TCP port that it listens on."""
        server = subprocess.Popen(
            [UROCE, "run", *options, "--", LIVE_QUERY, "server", "127.0.0.1", "0"], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        line = server.stdout.readline()
        match = re.search(r"port (\d+)$", line)
        self.assertTrue(match, line)
        return server, match.group(1)

    def client(self, options, port):
        return subprocess.run(
            [UROCE, "run", *options, "--", LIVE_QUERY, "client", "127.0.0.1", port], check=False,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS)

    def check_pair(self, server_options, client_options):
        server, port = self.start_server(server_options)
        run = self.client(client_options, port)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertEqual(server.wait(LIMIT_SECONDS), 0)
        self.assertIn("everything was as promised", run.stdout)
        # A row for each policy: retry exceeded (12), then flushed (5), and the QP in ERR.
        self.assertEqual(len(re.findall(r" 12, then 5 +ERR$", run.stdout, re.MULTILINE)), 4)

    def test_over_a_fabric(self):
        fabric = ["--fabric", f"live-query-{os.getpid()}"]
        self.check_pair(fabric, fabric)

    def test_over_memif(self):
        with tempfile.TemporaryDirectory() as folder:
            port = f"net_memif0,socket={folder}/memif,role="
            self.check_pair(["--port", port + "server", "--ip", "10.0.0.1"],
                            ["--port", port + "client", "--ip", "10.0.0.2"])

    def test_over_ipv6_with_a_small_mtu(self):
        fabric = ["--fabric", f"live-query-6-{os.getpid()}", "--mtu", "1500"]
        self.check_pair([*fabric, "--ip", "2001:db8::1"], [*fabric, "--ip", "2001:db8::2"])

    def test_a_server_that_dies_is_noticed(self):
        fabric = ["--fabric", f"live-query-dead-{os.getpid()}"]
        server, port = self.start_server(fabric)
        client = subprocess.Popen(
            [UROCE, "run", *fabric, "--", LIVE_QUERY, "client", "127.0.0.1", port], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(client.stdout.close)
        client.stdout.readline()  # It has opened the device and is about to connect.
        server.kill()
        output, _ = client.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(client.returncode, 1, output)
        self.assertNotIn("everything was as promised", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
