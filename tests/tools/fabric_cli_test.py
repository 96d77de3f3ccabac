#!/usr/bin/python3
"""`uroce run` finds or starts the uroced of its fabric, and `uroce status` shows it.

usage: fabric_cli_test.py PATH_OF_UROCE PATH_OF_UROCED
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
                             "system"))

from harness.programs import clean_environment, free_tcp_port, listens

UROCE = os.path.abspath(sys.argv[1])
UROCED = os.path.abspath(sys.argv[2])

PROTOCOL_VERSION = 15  # kProtocolVersion of dpdk_nic/control/protocol.h
SO_NETNS_COOKIE = 71

_fabrics = 0


def new_fabric():
    global _fabrics
    _fabrics += 1
    return f"fabric-test-{os.getpid()}-{_fabrics}"


def uroce(*arguments, **variables):
    return subprocess.run([UROCE, *arguments], check=False, text=True, capture_output=True,
                          env={**clean_environment(), **variables}, timeout=60)


def status(fabric):
    run = uroce("status", "--fabric", fabric, "--json")
    assert run.returncode == 0, run
    return json.loads(run.stdout)


def wait_until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


class Program:
    """A program on a fabric without an uplink. It does nothing until the test ends it."""

    def __init__(self, fabric, *command):
        self.process = subprocess.Popen(
            [UROCE, "run", "--fabric", fabric, "--", *(command or ("cat",))], text=True,
            env={**clean_environment(), "UROCE_UPLINK": "none"}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)

    def wait_until_started(self):
        """Waits until the program, which must be `cat`, runs."""
        self.process.stdin.write("started\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "started\n"

    def end(self):
        """Ends the program. Returns when its output has ended, too."""
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.process.returncode


class PrivateDaemonTest(unittest.TestCase):

    def wait_until_gone(self, fabric):
        wait_until(lambda: uroce("status", "--fabric", fabric).returncode == 1,
                   "the private uroced stays")

    def test_it_serves_the_program(self):
        fabric = new_fabric()
        run = uroce("run", "--fabric", fabric, "--", UROCE, "status", "--json")
        self.assertEqual(run.returncode, 0, run)
        found = json.loads(run.stdout)
        self.assertEqual(found["fabric"], fabric)
        self.assertTrue(found["daemon"]["private"])
        self.wait_until_gone(fabric)

    def test_programs_share_one_uroced(self):
        fabric = new_fabric()
        programs = [Program(fabric) for _ in range(12)]  # All at once.
        for program in programs:
            program.wait_until_started()
        daemon = status(fabric)["daemon"]["pid"]
        for program in programs[1:]:
            program.end()
        self.assertEqual(status(fabric)["daemon"]["pid"], daemon)
        programs[0].end()
        self.wait_until_gone(fabric)

    def test_uroced_is_detached_from_its_starter(self):
        fabric = new_fabric()
        starter = Program(fabric)
        starter.wait_until_started()
        other = Program(fabric)
        other.wait_until_started()
        starter.end()  # Its output ends although uroced, which it started, goes on.
        daemon = status(fabric)["daemon"]["pid"]
        self.assertEqual(os.readlink(f"/proc/{daemon}/cwd"), "/")
        for fd in range(3):
            self.assertEqual(os.readlink(f"/proc/{daemon}/fd/{fd}"), "/dev/null")
        self.assertNotEqual(os.getsid(daemon), os.getsid(0))
        with open(f"/proc/{daemon}/environ", "rb") as file:
            names = [line.split(b"=")[0] for line in file.read().split(b"\0")]
        self.assertFalse([name for name in names
                          if name == b"LD_PRELOAD" or name.startswith(b"UROCE_")])
        other.end()

    def test_it_loads_no_dpdk(self):
        fabric = new_fabric()
        program = Program(fabric)
        program.wait_until_started()
        with open(f"/proc/{status(fabric)['daemon']['pid']}/maps", encoding="utf-8") as file:
            self.assertNotIn("liburoce-dpdk", file.read())
        program.end()

    def test_one_that_was_killed_is_replaced(self):
        fabric = new_fabric()
        program = Program(fabric)
        program.wait_until_started()
        killed = status(fabric)["daemon"]["pid"]
        os.kill(killed, signal.SIGKILL)
        run = uroce("run", "--fabric", fabric, "--", UROCE, "status", "--json")
        self.assertEqual(run.returncode, 0, run)
        self.assertNotEqual(json.loads(run.stdout)["daemon"]["pid"], killed)
        program.end()

    def test_programs_that_start_while_uroced_leaves(self):
        fabric = new_fabric()
        for _ in range(40):
            self.assertEqual(uroce("run", "--fabric", fabric, "--", "true").returncode, 0)

    def test_missing_uroced_is_reported(self):
        bin_folder = os.path.dirname(os.path.dirname(os.path.realpath(UROCE)))
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/tools")
            shutil.copy(UROCE, f"{folder}/tools/uroce")
            os.symlink(f"{bin_folder}/verbs_provider", f"{folder}/verbs_provider")
            run = subprocess.run([f"{folder}/tools/uroce", "run", "--fabric", new_fabric(), "--",
                                  "true"], check=False, text=True, capture_output=True,
                                 env=clean_environment(), timeout=60)
        self.assertEqual(run.returncode, 2, run)
        self.assertRegex(run.stderr, r"\Auroce run: [^\n]*/tools/uroced cannot be executed "
                                     r"\(No such file or directory\)[^\n]*\.\n\Z")


class Daemon:
    """A uroced that serves, until the end of the with statement."""

    def __init__(self, fabric, *options):
        self.process = subprocess.Popen([UROCED, "--fabric", fabric, *options], text=True,
                                        stderr=subprocess.PIPE)
        self.process.stderr.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


class StatusTest(unittest.TestCase):
    FOR_EVER = "1000000000"

    def check_refused(self, run, exit_status, says):
        self.assertEqual(run.returncode, exit_status, run)
        self.assertEqual(run.stdout, "")
        self.assertRegex(run.stderr, r"\Auroce status: [^\n]*\.\n\Z")  # One sentence.
        self.assertIn(says, run.stderr)

    def test_status_of_an_unserved_fabric_fails(self):
        fabric = new_fabric()
        self.check_refused(uroce("status", "--fabric", fabric), 1, fabric)
        self.check_refused(uroce("status", "--json", "--fabric", fabric), 1, fabric)
        self.check_refused(uroce("status", UROCE_FABRIC=fabric), 1, fabric)

    def test_the_last_uroced_hangs_up(self):
        """A private uroced may end while it is asked for its status."""
        fabric = new_fabric()
        with tempfile.TemporaryDirectory() as runtime, \
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            namespace, = struct.unpack("Q", listener.getsockopt(socket.SOL_SOCKET,
                                                                SO_NETNS_COOKIE, 8))
            folder = f"{runtime}/uroce/{fabric}.{namespace}.v{PROTOCOL_VERSION}"
            os.mkdir(f"{runtime}/uroce", 0o700)
            os.mkdir(folder, 0o700)
            # The path of the test's folder may be too long for a socket address.
            descriptor = os.open(folder, os.O_RDONLY)
            listener.bind(f"/proc/self/fd/{descriptor}/socket")
            os.close(descriptor)
            listener.settimeout(60)
            listener.listen()
            command = [UROCE, "status", "--fabric", fabric]
            asking = subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE,
                                      env={**clean_environment(), "XDG_RUNTIME_DIR": runtime})
            connection, _ = listener.accept()
            listener.close()
            connection.close()
            out, error = asking.communicate(timeout=60)
        run = subprocess.CompletedProcess(command, asking.returncode, out, error)
        self.check_refused(run, 1, f"no uroced serves the fabric '{fabric}'")

    def test_options(self):
        self.check_refused(uroce("status", "--colour"), 2, "--colour")
        self.check_refused(uroce("status", "--fabric", "a/b"), 2, "a/b")
        self.check_refused(uroce("status", "now"), 2, "uroce status --help")
        run = uroce("status", "--help")
        self.assertEqual(run.returncode, 0)
        for option in ("--fabric ", "--json ", "--explain "):
            self.assertIn(option, run.stdout)

    def test_page_of_counters_is_what_explain_prints(self):
        run = uroce("status", "--explain")
        with open("tools/docs/counters.md", encoding="utf-8") as page:
            self.assertEqual(run.stdout, page.read(), "write it anew")

    def test_a_port_is_shown(self):
        fabric = new_fabric()
        with Daemon(fabric, "--port", "net_null0", "--ip", "10.0.0.1", "--ip", "fd00::1",
                    "--mtu", "1500") as daemon:
            found = status(fabric)
            self.assertEqual(found["daemon"]["pid"], daemon.process.pid)
            self.assertFalse(found["daemon"]["private"])
            self.assertEqual(found["daemon"]["mtu"], 1500)
            self.assertEqual(found["port"]["devargs"], "net_null0")
            self.assertTrue(found["port"]["up"])
            self.assertEqual(found["port"]["gids"][1:], ["10.0.0.1", "fd00::1"])
            self.assertEqual((found["clients"], found["links"]), ([], []))
            text = uroce("status", "--fabric", fabric).stdout
            self.assertIn("port: net_null0, up, MAC ", text)
            self.assertIn("  GID 1  10.0.0.1\n", text)
            self.assertIn("processes: none\n", text)

    def start_server(self, fabric):
        """Starts a server that has a queue pair and waits for its client."""
        port = free_tcp_port()
        server = Program(fabric, "stdbuf", "-oL", "ibv_rc_pingpong", "-g", "0", "-n", self.FOR_EVER,
                         "-p", str(port))
        self.addCleanup(server.process.communicate)
        self.addCleanup(server.process.kill)
        line = server.process.stdout.readline()
        self.assertIn("local address", line)
        wait_until(lambda: listens(server.process.pid, port), "the server does not listen")
        return server, port, int(line.split("QPN ")[1].split(",")[0], 16)

    def test_processes_and_queue_pairs_are_shown(self):
        fabric = new_fabric()
        server, _, qpn = self.start_server(fabric)
        found = status(fabric)
        self.assertIsNone(found["port"])
        self.assertEqual(found["daemon"]["clients"], 1)
        (client,) = found["clients"]
        self.assertEqual(client["pid"], server.process.pid)
        self.assertEqual(client["uid"], os.getuid())
        self.assertEqual(client["command"], "ibv_rc_pingpong")
        self.assertEqual(client["counters"]["transmitted_packets"], 0)
        (queue_pair,) = client["queue_pairs"]
        self.assertEqual(queue_pair["qpn"], qpn)
        self.assertEqual((queue_pair["type"], queue_pair["state"]), ("RC", "INIT"))
        self.assertEqual(found["links"], [])

        text = uroce("status", "--fabric", fabric).stdout
        self.assertRegex(text, rf"(?m)^  {server.process.pid} +{os.getuid()} +ibv_rc_pingpong ")
        self.assertRegex(text, rf"(?m)^  0x{qpn:06x} +{server.process.pid} +RC +INIT ")

    def test_links_and_counters_are_shown(self):
        fabric = new_fabric()
        server, port, _ = self.start_server(fabric)
        client = Program(fabric, "ibv_rc_pingpong", "-g", "0", "-n", self.FOR_EVER, "-p",
                         str(port), "127.0.0.1")
        self.addCleanup(client.process.communicate)
        self.addCleanup(client.process.kill)
        pids = {server.process.pid, client.process.pid}
        wait_until(lambda: status(fabric)["links"], "they are not linked")

        def sent():
            return [each["counters"]["transmitted_packets"] for each in status(fabric)["clients"]]

        wait_until(lambda: min(sent()) > 1000, "they send nothing")
        found = status(fabric)
        blocks = {each["block"]: each["pid"] for each in found["clients"]}
        self.assertEqual(set(blocks.values()), pids)
        (link,) = found["links"]
        self.assertEqual({blocks[link["block"]], blocks[link["other_block"]]}, pids)
        numbers = {each["queue_pairs"][0]["qpn"]: each["queue_pairs"][0]["destination_qpn"]
                   for each in found["clients"]}
        self.assertEqual({numbers[number] for number in numbers}, set(numbers))
        self.assertEqual({each["queue_pairs"][0]["state"] for each in found["clients"]}, {"RTS"})
        text = uroce("status", "--fabric", fabric).stdout
        self.assertRegex(text, r"(?m)^links:\n  \d+ ibv_rc_pingpong - \d+ ibv_rc_pingpong$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
