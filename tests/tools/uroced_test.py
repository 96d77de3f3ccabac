#!/usr/bin/python3
"""The command line of uroced: its refusals, and its end on a signal.

usage: uroced_test.py PATH_OF_UROCED
"""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

UROCED = os.path.abspath(sys.argv[1])
# A fabric of this test alone, independent of other programs.
FABRIC = f"uroced-test-{os.getpid()}"


def uroced(*arguments):
    """Runs a uroced that ends by itself."""
    return subprocess.run([UROCED, *arguments], check=False, text=True, capture_output=True,
                          timeout=60)


class RunningDaemon:
    """A uroced that serves, until the end of the with statement."""

    def __init__(self, *options):
        self.process = subprocess.Popen([UROCED, "--fabric", FABRIC, *options], text=True,
                                        stderr=subprocess.PIPE)
        self.announcement = self.process.stderr.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(signal.SIGTERM)

    def end(self, how):
        """Sends the signal. Returns the exit status, and the output on standard error since the
        start."""
        self.process.send_signal(how)
        return self.process.wait(timeout=60), self.process.communicate()[1]


class HelpTest(unittest.TestCase):

    def test_help_names_every_option(self):
        run = uroced("--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        for option in ("--config FILE", "--fabric NAME", "--port DEVARGS", "--ip ADDR[/LEN]",
                       "--mtu N", "--cpu N", "--users all|NAME[,NAME...]", "--private",
                       "--uplink udp[,address=ADDR]", "--no-uplink"):
            self.assertIn(option, run.stdout)


class RefusalTest(unittest.TestCase):

    def check_refused(self, *arguments, says):
        run = uroced(*arguments)
        self.assertEqual(run.returncode, 2, run)
        self.assertEqual(run.stdout, "")
        self.assertRegex(run.stderr, r"\Auroced: [^\n]*\.\n\Z")  # One sentence.
        self.assertIn(says, run.stderr)

    def check_file_refused(self, content, says):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(content)
            file.flush()
            self.check_refused("--config", file.name, says=says)

    def test_options(self):
        self.check_refused("--speed", "9", says="--speed")
        self.check_refused("--mtu", says="--mtu")
        self.check_refused("--mt", "1500", says="--mt")
        self.check_refused("--mtu", "1500", "--mtu", "1500", says="--mtu")
        self.check_refused("now", says="uroced --help")

    def test_values(self):
        for option, value in (("--mtu", "12"), ("--mtu", "many"), ("--mtu", "9601"),
                              ("--fabric", "a/b"), ("--fabric", ""), ("--cpu", "-1"),
                              ("--cpu", "100000"), ("--cpu", "x"), ("--users", "no such user")):
            self.check_refused(option, value, says=f"{option} is '{value}'")

    def test_addresses(self):
        for address in ("300.1.1.1", "ff02::1", "10.0.0.1/33", "10.0.0.1/0", "10.0.0.1/",
                        "fe80::1/129", "10.0.0.1/24/24", ""):
            self.check_refused("--port", "net_null0", "--ip", address, says=f"--ip is '{address}'")
        self.check_refused("--port", "net_null0", "--ip", "10.0.0.1", "--ip", "10.0.0.1/24",
                           says="once")
        many = [word for i in range(256) for word in ("--ip", f"10.0.{i // 128}.{i % 128 + 1}")]
        self.check_refused("--port", "net_null0", *many, says="at most 255")

    def test_a_port_and_its_address_belong_together(self):
        self.check_refused("--ip", "10.0.0.1", says="--port")
        self.check_refused("--port", "net_null0", says="--ip")

    def test_uplinks(self):
        for value in ("", "tcp", "udp,", "udp,address=", "udp,address=ff02::1", "udp,port=4791"):
            self.check_refused("--uplink", value, says=f"--uplink is '{value}': choose 'udp'")
        self.check_refused("--uplink", "udp", "--no-uplink", says="exclude each other")
        self.check_refused("--port", "net_null0", "--ip", "10.0.0.1", "--no-uplink",
                           says="exclude each other")
        self.check_refused("--fabric", FABRIC, "--uplink", "udp,address=198.51.100.1",
                           says="198.51.100.1 is not an address of this host")

    def test_ports_that_cannot_be_opened(self):
        for devargs in ("net_nothing0", "net_memif0,role=server,colour=blue",
                        "net_af_packet0,iface=nonexistent0", "ffff:ff:1f.7"):
            with self.subTest(devargs):
                self.check_refused("--fabric", FABRIC, "--port", devargs, "--ip", "10.0.0.1",
                                   says="")

    def test_files(self):
        self.check_refused("--config", "/nonexistent/uroced.conf", says="/nonexistent/uroced.conf")
        self.check_file_refused("colour = blue\n", says="colour")
        self.check_file_refused("config = other.conf\n", says="config")
        self.check_file_refused("mtu = 12\n", says="--mtu is '12'")
        self.check_file_refused("mtu\n", says="mtu")


class ServingTest(unittest.TestCase):

    def test_signals_end_uroced(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            daemon = RunningDaemon("--no-uplink")
            self.assertIn(f"fabric '{FABRIC}' is served, with an MTU of 4200 and no port",
                          daemon.announcement)
            status, said = daemon.end(how)
            self.assertEqual(status, 0)
            self.assertEqual(said, f"uroced: fabric '{FABRIC}' is not served any more.\n")

    def test_a_fabric_is_served_once(self):
        with RunningDaemon():
            run = uroced("--fabric", FABRIC)
            self.assertEqual(run.returncode, 2)
            self.assertRegex(run.stderr, r"\Auroced: [^\n]*another uroced[^\n]*\.\n\Z")
            # A private uroced is for a program that accepts any uroced, so this is no error.
            run = uroced("--fabric", FABRIC, "--private")
            self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_a_port(self):
        with RunningDaemon("--port", "net_null0", "--ip", "10.0.0.1/24", "--ip", "fd00::1",
                           "--mtu", "1500") as daemon:
            self.assertIn("MTU of 1500 and port 'net_null0', which is up", daemon.announcement)
            self.assertIn("10.0.0.1, fd00::1", daemon.announcement)

    def test_an_uplink(self):
        with RunningDaemon("--uplink", "udp,address=127.0.0.2", "--mtu", "1500") as daemon:
            self.assertRegex(daemon.announcement,
                             "MTU of 1500 and uplink 'udp,address=127.0.0.2', which is up and has "
                             "the addresses fe80::[0-9a-f:]+, 127.0.0.2[.]\n")

    def test_a_file_of_options(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("# The host's NIC\nport = net_null0\nip = 10.0.0.1/24\nip = 10.0.0.2\n"
                       "mtu = 1500\nusers = all\n")
            file.flush()
            with RunningDaemon("--config", file.name) as daemon:
                self.assertIn("MTU of 1500", daemon.announcement)
                self.assertIn("10.0.0.1, 10.0.0.2", daemon.announcement)
            with RunningDaemon("--mtu", "2000", "--ip", "10.0.0.3",
                               "--config", file.name) as daemon:
                self.assertIn("MTU of 2000", daemon.announcement, "the command line counts")
                self.assertIn(" 10.0.0.3.", daemon.announcement.replace(",", ""))
                self.assertNotIn("10.0.0.1", daemon.announcement)

    def test_sigterm_after_the_log_reader_ended_exits_cleanly(self):
        daemon = RunningDaemon()
        daemon.process.stderr.close()
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.wait(timeout=60), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
