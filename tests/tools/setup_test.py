#!/usr/bin/python3
"""The actions of tools/setup, recorded by stand-ins for dpkg-query, apt-get, sudo and id."""

import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SETUP = os.path.join(ROOT, "tools", "setup")

# Reports every package as installed, except those named in $MISSING.
DPKG_QUERY = """#!/bin/bash
for name in "${@:3}"; do
  [[ " $MISSING " == *" $name "* ]] || echo "installed $name"
done
[[ -z $MISSING ]]
"""
APT_GET = """#!/bin/bash
echo "apt-get $*" >>"$LOG"
[[ $* != *$APT_FAILS_AT* || -z $APT_FAILS_AT ]]
"""
SUDO = """#!/bin/bash
echo "sudo" >>"$LOG"
exec "$@"
"""
TOOLS = ("bash", "basename", "cat", "comm", "dirname", "env", "readlink", "sed", "sort")


class SetupTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.log = os.path.join(self.folder, "log")
        for tool in TOOLS:
            os.symlink(os.path.join("/usr/bin", tool), os.path.join(self.folder, tool))
        self.stand_in("dpkg-query", DPKG_QUERY)
        self.stand_in("apt-get", APT_GET)

    def stand_in(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def setup(self, *arguments, uid, missing="", apt_fails_at="", before=()):
        self.stand_in("id", f"#!/bin/bash\necho {uid}\n")
        run = subprocess.run(
            [*before, "/usr/bin/bash", SETUP, *arguments], check=False, text=True,
            capture_output=True,
            env={"PATH": self.folder, "HOME": self.folder, "LOG": self.log, "MISSING": missing,
                 "APT_FAILS_AT": apt_fails_at})
        log = ""
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as file:
                log = file.read()
        return run, log

    def test_apt_is_left_alone_when_all_is_there(self):
        run, log = self.setup("--packages", uid=1000)
        self.assertEqual((run.returncode, run.stderr, log), (0, "", ""))

    def test_only_missing_packages_are_installed(self):
        run, log = self.setup("--packages", uid=0, missing="tshark perftest")
        self.assertEqual(run.returncode, 0, run.stderr)
        update, install = log.splitlines()
        self.assertTrue(update.endswith(" update"), update)
        self.assertTrue(install.endswith(" install -y --no-install-recommends perftest tshark"),
                        install)

    def test_sudo_is_used_without_root(self):
        self.stand_in("sudo", SUDO)
        run, log = self.setup("--packages", uid=1000, missing="tshark")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(log.splitlines()[0], "sudo")
        self.assertIn("tshark", log)

    def test_without_root_and_sudo_the_command_is_printed(self):
        run, log = self.setup("--packages", uid=1000, missing="tshark perftest")
        self.assertEqual((run.returncode, log), (1, ""))
        self.assertEqual(run.stderr.count("\n"), 1)
        self.assertIn("apt-get install --no-install-recommends perftest tshark", run.stderr)

    def test_failing_apt_ends_setup(self):
        for step in ("update", "install"):
            run, _ = self.setup("--packages", uid=0, missing="tshark", apt_fails_at=step)
            self.assertEqual(run.returncode, 1, step)
            self.assertIn("apt-get", run.stderr)

    def test_setup_goes_on_without_an_optional_package(self):
        run, log = self.setup("--packages", uid=0, missing="qemu-system-x86",
                              apt_fails_at="install")
        self.assertEqual(run.returncode, 0)
        self.assertIn("qemu-system-x86", log)
        self.assertIn("goes on without qemu-system-x86", run.stdout)

    def on_another_system(self, system, version):
        """The command prefix of a mount namespace in which /etc/os-release names that system."""
        release = os.path.join(self.folder, "os-release")
        with open(release, "w", encoding="ascii") as file:
            file.write(f"ID={system}\nVERSION_ID={version}\n")
        prefix = ["/usr/bin/unshare", "--mount", *([] if os.geteuid() == 0 else ["-r"]),
                  "/usr/bin/sh", "-ec", '/usr/bin/mount --bind "$0" /etc/os-release; exec "$@"',
                  release]
        if subprocess.run([*prefix, "/usr/bin/true"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no mount namespace can be made here")
        return prefix

    def test_debian_13_has_the_same_packages(self):
        run, log = self.setup("--packages", uid=0, missing="tshark",
                              before=self.on_another_system("debian", 13))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("tshark", log)

    def test_on_another_system_missing_build_needs_are_listed(self):
        another = self.on_another_system("fedora", 41)
        run, log = self.setup("--packages", uid=0, missing="tshark", before=another)
        self.assertEqual((run.returncode, log), (1, ""))
        self.assertEqual(run.stderr.count("\n"), 1)
        self.assertIn("this is 'fedora 41'", run.stderr)
        self.assertIn("bazel g++ clang", run.stderr)
        self.assertNotIn("<boost/asio.hpp>", run.stderr)  # it is installed
        for command in ("bazel", "g++", "clang"):
            self.stand_in(command, "#!/bin/bash\n")
        run, log = self.setup("--packages", uid=0, missing="tshark", before=another)
        self.assertEqual((run.returncode, run.stderr, log), (0, "", ""))

    def test_an_unknown_option_is_refused(self):
        run, log = self.setup("--all", uid=0, missing="tshark")
        self.assertEqual((run.returncode, log), (1, ""))
        self.assertIn("--all", run.stderr)


if __name__ == "__main__":
    unittest.main()
