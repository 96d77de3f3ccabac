#!/usr/bin/python3
"""The templates of tools/ci, executed as far as possible here.

usage: ci_test.py PATH_OF_UROCE
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
CI = os.path.join(ROOT, "tools", "ci")
UROCE = os.path.abspath(sys.argv[1])
BAZEL_BIN = os.path.dirname(os.path.dirname(UROCE))


def environment(**variables):
    kept = {name: value for name, value in os.environ.items()
            if name != "LD_PRELOAD" and not name.startswith(("UROCE_", "GITHUB_"))}
    return {**kept, **variables}


def read(name):
    with open(os.path.join(CI, name), encoding="utf-8") as file:
        return file.read()


class CiTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="uroce-ci-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        made = subprocess.run(
            ["/usr/bin/python3", "-B", os.path.join(ROOT, "tools/packaging/package.py"), "package",
             "--out", os.path.join(cls.folder, "dist"), "--native", BAZEL_BIN],
            check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT)
        cls.tarball = made.stdout.split()[0]
        cls.prefix = os.path.join(cls.folder, "uroce")
        cls.github_path = os.path.join(cls.folder, "github-path")
        cls.installed = subprocess.run(
            [os.path.join(CI, "install.sh"), cls.tarball, cls.prefix], check=False, text=True,
            capture_output=True, env=environment(GITHUB_PATH=cls.github_path))

    def test_install_script_leaves_a_device_that_opens(self):
        self.assertEqual(self.installed.returncode, 0, self.installed)
        self.assertIn("uroce0 can be opened", self.installed.stdout)
        with open(self.github_path, encoding="utf-8") as file:
            self.assertEqual(file.read(), f"{self.prefix}/bin\n")

    def test_action_runs_the_install_script_with_its_input(self):
        action = read("action.yml")
        self.assertIn('"$GITHUB_ACTION_PATH/install.sh" "${{ inputs.package }}"', action)
        self.assertTrue(os.access(os.path.join(CI, "install.sh"), os.X_OK))

    def test_image_unpacks_the_package_by_its_name(self):
        pattern = re.search(r"^COPY (\S+) ", read("Dockerfile"), re.MULTILINE).group(1)
        self.assertRegex(os.path.basename(self.tarball), pattern.replace("*", ".*"))

    def test_services_of_the_compose_file_reach_each_other(self):
        """Runs them in joined network namespaces instead of containers on a bridge."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        server, client = re.findall(r"(uroce run --port udp -- ibv_rc_pingpong [^\n\"]*)",
                                    read("compose.yaml"))
        names = [f"uroce-ci-{os.getpid()}-{end}" for end in ("s", "c")]
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "-n", names[0], "link", "add", "eth0", "type", "veth", "peer", "name",
                        "eth0", "netns", names[1]], check=True)
        for number, name in enumerate(names, 1):
            for command in (f"addr add 10.9.8.{number}/24 dev eth0", "link set eth0 up",
                            "link set lo up", "route add default dev eth0"):
                subprocess.run(["ip", "-n", name, *command.split()], check=True)
        inside = environment(PATH=f"{self.prefix}/bin:{os.environ['PATH']}")
        with subprocess.Popen(["ip", "netns", "exec", names[0], *server.split()], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=inside) as first:
            try:
                self.wait_until_it_listens(names[0], first)
                client = client.replace(" server", " 10.9.8.1")
                second = subprocess.run(
                    ["ip", "netns", "exec", names[1], *client.split()], text=True,
                    capture_output=True, timeout=120, env=inside)
                self.assertEqual(second.returncode, 0, second)
                self.assertEqual(first.wait(timeout=120), 0)
            finally:
                first.kill()

    def wait_until_it_listens(self, namespace, program):
        while program.poll() is None:
            listening = subprocess.run(["ip", "netns", "exec", namespace, "ss", "-Hltn"],
                                       check=True, text=True, capture_output=True)
            if ":18515" in listening.stdout:
                return
            time.sleep(0.05)
        self.fail(program.stdout.read())

    def test_commands_of_the_gitlab_job(self):
        line = next(line for line in read("gitlab-ci.yml").splitlines() if "pingpong" in line)
        fabric = f"ci-test-{os.getpid()}"
        # A port of its own: other tests use the documented one.
        command = line.split("- ", 1)[1].replace("pingpong", "pingpong -p 18633")
        command = command.replace("sleep 1", "until ss -Hltn | grep -q :18633; do sleep 0.1; done")
        ran = subprocess.run(
            ["bash", "-ec", command], check=False, text=True, capture_output=True, timeout=120,
            env=environment(UROCE_FABRIC=fabric, PATH=f"{self.prefix}/bin:{os.environ['PATH']}"))
        self.assertEqual(ran.returncode, 0, ran)

    def test_pytest_example(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import pytest"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("pytest is not installed")
        ran = subprocess.run(
            ["/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
             os.path.join(CI, "test_rdma.py")],
            check=False, text=True, capture_output=True, cwd=self.folder,
            env=environment(UROCE=os.path.join(self.prefix, "bin/uroce")))
        self.assertEqual(ran.returncode, 0, ran.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
