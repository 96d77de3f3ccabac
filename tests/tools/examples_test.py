#!/usr/bin/python3
"""Runs the examples of all pages: each fenced block marked 'sh run', those of a page in order and
in one scratch folder, and the block marked 'sh package', which makes the package, with a home
folder of its own.

usage: examples_test.py PATH_OF_UROCE
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tools", "lib"))

import markdown_links  # pylint: disable=wrong-import-position

UROCE = os.path.abspath(sys.argv[1])

# An example waits a second for its server; a busy machine may need longer.
PRELUDE = "set -euo pipefail\nsleep() { command sleep 3; }\n"


# A separate network namespace, if the machine allows one: the examples use fixed TCP ports.
NAMESPACES = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])
LOOPBACK_UP = "ip link set lo up"


def own_namespace():
    """The command prefix that runs a command in a new network namespace, or an empty one."""
    for prefix in NAMESPACES:
        if subprocess.run([*prefix, "sh", "-c", LOOPBACK_UP], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0:
            return prefix
    return []


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def blocks(page, kind):
    """The contents of the page's fenced blocks whose info string is exactly `kind`."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)


class ExamplesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.pages = markdown_links.pages(ROOT)

    def run_page(self, page, examples):
        path = f"{os.path.dirname(UROCE)}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path,
                       # The default fabric may be in use on this machine.
                       "UROCE_FABRIC": f"examples-{os.getpid()}"}
        prefix = own_namespace()
        prelude = PRELUDE + (LOOPBACK_UP + "\n" if prefix else "")
        with tempfile.TemporaryDirectory() as folder:
            for example in examples:
                with self.subTest(example, page=page):
                    run = subprocess.run([*prefix, "bash", "-c", prelude + example], cwd=folder,
                                         check=False, text=True, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, env=environment, timeout=120)
                    self.assertEqual(run.returncode, 0, run.stdout)

    def test_examples_run(self):
        by_page = {page: blocks(page, "sh run") for page in self.pages}
        self.assertGreaterEqual(sum(map(len, by_page.values())), 9)
        self.assertTrue(by_page["README.md"])
        for page, examples in by_page.items():
            if examples:
                self.run_page(page, examples)

    def test_package_is_made_and_unpacked_as_written(self):
        (example,) = (block for page in self.pages for block in blocks(page, "sh package"))
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        with tempfile.TemporaryDirectory() as home:
            # Uses the compilers that were downloaded before.
            environment = {**os.environ, "HOME": home, "XDG_CACHE_HOME": cache,
                           "UROCE_FABRIC": f"examples-{os.getpid()}"}
            run = subprocess.run(
                ["bash", "-ec", f"{example}command -v uroce; uroce check"], cwd=ROOT, check=False,
                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertIn(f"{home}/uroce/bin/uroce\n", run.stdout)
            self.assertIn("uroce0 can be opened", run.stdout)

    def test_the_folder_map_is_complete(self):
        (folder_map,) = blocks("HACKING.md", "text")
        named = set(re.findall(r"^(\w+)/", folder_map, re.MULTILINE))
        there = {entry.name for entry in os.scandir(ROOT)
                 if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")}
        self.assertEqual(named, there - {"dist"})  # which tools/package makes

    def test_scripts_that_are_named_exist(self):
        named = {path for page in self.pages
                 for path in re.findall(r"(?<![\w/])tools/[\w/.-]*\w", read(page))}
        self.assertLess({"tools/setup", "tools/demo", "tools/test", "tools/bench"}, named)
        for path in named:
            with self.subTest(path):
                there = os.path.join(ROOT, path)
                self.assertTrue(os.path.exists(there))
                is_script = os.path.isfile(there) and os.path.dirname(path) == "tools"
                self.assertTrue(not is_script or os.access(there, os.X_OK))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
