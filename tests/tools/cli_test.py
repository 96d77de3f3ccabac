#!/usr/bin/python3
"""The uroce command line: its refusals, and the environment of the commands that it runs.

usage: cli_test.py PATH_OF_UROCE
"""

import os
import subprocess
import sys
import tempfile
import unittest

UROCE = os.path.abspath(sys.argv[1])
# A fabric of this test alone, independent of other programs.
FABRIC = f"cli-test-{os.getpid()}"


def clean_environment(environment=None):
    clean = {name: value for name, value in os.environ.items()
             if name != "LD_PRELOAD" and not name.startswith("UROCE_")}
    return {**clean, "UROCE_FABRIC": FABRIC, **(environment or {})}


def uroce(*arguments, environment=None):
    return subprocess.run([UROCE, *arguments], check=False, text=True, capture_output=True,
                          env=clean_environment(environment), timeout=60)


def environment_of_command(*options, environment=None):
    """The environment that `uroce run OPTIONS` gives to its command."""
    run = uroce("run", *options, "--", "/usr/bin/env", "-0", environment=environment)
    assert run.returncode == 0, run.stderr
    return dict(line.split("=", 1) for line in run.stdout.split("\0") if line)


class HelpTest(unittest.TestCase):

    def test_help_names_every_subcommand(self):
        run = uroce("--help")
        self.assertEqual(run.returncode, 0)
        self.assertIn("  run ", run.stdout)
        self.assertIn("  status ", run.stdout)

    def test_help_of_run_names_every_option(self):
        run = uroce("run", "--help")
        self.assertEqual(run.returncode, 0)
        for option in ("--ip", "--mtu", "--pkey", "--port", "--fabric", "--mode", "--engines",
                       "--congestion", "--capture", "--impair", "--scenario", "--uplink",
                       "--no-uplink"):
            self.assertIn(option + " ", run.stdout)

    def test_version(self):
        run = uroce("--version")
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout, r"^uroce \d+\.\d+\.\d+\n$")


class RefusalTest(unittest.TestCase):

    def check_refused(self, *arguments, says):
        run = uroce(*arguments)
        self.assertEqual(run.returncode, 2, run)
        self.assertEqual(run.stdout, "")
        self.assertRegex(run.stderr, r"\Auroce[^\n]*\.\n\Z")  # One sentence.
        self.assertIn(says, run.stderr)

    def test_subcommands(self):
        self.check_refused(says="uroce --help")
        self.check_refused("fly", says="'fly'")

    def test_options_of_run(self):
        self.check_refused("run", "--speed", "9", "--", "true", says="--speed")
        self.check_refused("run", "--mtu", "--", "true", says="--mtu")
        self.check_refused("run", "--mt", "1500", "--", "true", says="--mt")
        self.check_refused("run", "--mtu", "1500", "--mtu", "1500", "--", "true", says="--mtu")

    def test_values_of_options(self):
        for option, value in (("--mtu", "12"), ("--mtu", "many"), ("--ip", "300.1.1.1"),
                              ("--ip", "ff02::1"), ("--mode", "fast"), ("--engines", "65"),
                              ("--congestion", "cubic"), ("--fabric", "a/b"),
                              ("--pkey", "0x18001"), ("--pkey", "0x8000"), ("--pkey", "0x8001,1"),
                              ("--impair", "drop=200%"), ("--impair", "sneeze=1%"),
                              ("--uplink", "tcp"), ("--uplink", "udp,address=ff02::1")):
            self.check_refused("run", option, value, "--", "true", says=option)

    def test_uplinks_that_cannot_be(self):
        self.check_refused("run", "--uplink", "udp", "--no-uplink", "--", "true",
                           says="exclude each other")
        self.check_refused("run", "--uplink", "udp", "--port", "udp", "--", "true",
                           says="choose one of both")
        self.check_refused("run", "--uplink", "udp,address=198.51.100.1", "--", "true",
                           says="--uplink is 'udp,address=198.51.100.1': 198.51.100.1 is not an "
                                "address of this host")

    def test_a_scenario_that_cannot_be_used(self):
        self.check_refused("run", "--scenario", "/nonexistent/x.json", "--", "true",
                           says="--scenario: /nonexistent/x.json cannot be read")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"rules": [{"psn": 1, "action": "loose"}]}')
            file.flush()
            self.check_refused("run", "--scenario", file.name, "--", "true",
                               says=f"{file.name}, rule 1: unknown action 'loose'")

    def test_values_of_variables(self):
        run = uroce("run", "--", "true", environment={"UROCE_MTU": "12"})
        self.assertEqual(run.returncode, 2)
        self.assertIn("UROCE_MTU", run.stderr)

    def test_a_capture_file_that_cannot_be_created(self):
        self.check_refused("run", "--capture", "/nonexistent/x.pcapng", "--", "true",
                           says="/nonexistent")

    def test_ports_that_cannot_be_opened(self):
        for devargs in ("net_nothing0", "net_memif0,role=server,colour=blue",
                        "net_memif0,role=server,socket=/nonexistent/folder/memif",
                        "net_af_packet0,iface=nonexistent0", "ffff:ff:1f.7"):
            with self.subTest(devargs):
                self.check_refused("run", "--port", devargs, "--", "true", says="")

    def test_a_missing_command(self):
        self.check_refused("run", says="after '--'")
        self.check_refused("run", "--", says="after '--'")
        self.check_refused("run", "ibv_devices", says="'--' before")


class CommandTest(unittest.TestCase):

    def test_the_exit_status_is_the_command_s(self):
        self.assertEqual(uroce("run", "--", "sh", "-c", "exit 7").returncode, 7)

    def test_arguments_reach_the_command_unchanged(self):
        run = uroce("run", "--", "printf", "%s|", "--mtu", "--", "a b", "")
        self.assertEqual(run.stdout, "--mtu|--|a b||")

    def test_a_command_that_does_not_exist(self):
        run = uroce("run", "--", "/nonexistent/command")
        self.assertEqual(run.returncode, 127)
        self.assertEqual(run.stderr.count("\n"), 1)
        self.assertIn("/nonexistent/command", run.stderr)

    def test_a_command_that_cannot_be_executed(self):
        self.assertEqual(uroce("run", "--", "/etc/passwd").returncode, 126)


class EnvironmentTest(unittest.TestCase):

    def test_options_become_variables(self):
        given = {"--ip": "192.0.2.1", "--mtu": "4200", "--fabric": FABRIC + "-2", "--mode": "auto",
                 "--impair": "drop=1%,seed=7", "--pkey": "0x8001,2",
                 "--uplink": "udp,address=127.0.0.2"}
        found = environment_of_command(*(word for pair in given.items() for word in pair))
        for option, value in given.items():
            self.assertEqual(found["UROCE_" + option[2:].upper()], value)
        self.assertNotIn("UROCE_PORT", found)

    def test_no_uplink_becomes_a_variable(self):
        found = environment_of_command("--no-uplink", "--fabric", FABRIC + "-3")
        self.assertEqual(found["UROCE_UPLINK"], "none")

    def test_variables_without_option_are_kept(self):
        found = environment_of_command("--mtu", "4200", environment={"UROCE_MODE": "auto"})
        self.assertEqual((found["UROCE_MODE"], found["UROCE_MTU"]), ("auto", "4200"))

    def test_the_capture_file_survives_a_change_of_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "frames.pcapng")
            found = environment_of_command("--capture", os.path.relpath(path))
            self.assertTrue(os.path.isabs(found["UROCE_CAPTURE"]))
            self.assertEqual(os.path.realpath(found["UROCE_CAPTURE"]), os.path.realpath(path))

    def test_the_scenario_file_survives_a_change_of_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "faults.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"rules": [{"psn_offset": 1, "action": "drop"}]}')
            found = environment_of_command("--scenario", os.path.relpath(path))
            self.assertTrue(os.path.isabs(found["UROCE_SCENARIO"]))
            self.assertEqual(os.path.realpath(found["UROCE_SCENARIO"]), os.path.realpath(path))

    def test_the_libraries_are_there(self):
        found = environment_of_command()
        for path in (found["LD_PRELOAD"], found["UROCE_PROVIDER"], found["UROCE_DPDK_LIBRARY"]):
            self.assertTrue(os.path.isabs(path), path)
            self.assertTrue(os.path.exists(path), path)

    def test_the_user_s_preloads_stay(self):
        libc = "/lib/x86_64-linux-gnu/libm.so.6"
        preload = environment_of_command(environment={"LD_PRELOAD": libc})["LD_PRELOAD"]
        ours, theirs = preload.split(":")
        self.assertIn("liburoce-preload.so", ours)
        self.assertEqual(theirs, libc)

    def test_run_inside_run_preloads_once(self):
        run = uroce("run", "--", UROCE, "run", "--", "printenv", "LD_PRELOAD")
        self.assertEqual(run.stdout.count("liburoce-preload.so"), 1, run)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
