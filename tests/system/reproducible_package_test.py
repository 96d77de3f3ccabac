#!/usr/bin/python3
"""tools/package makes the same bytes of the same sources in another folder, at another time, with
compilers in another place and nothing left of the first build."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness.sources import ROOT, copy_sources

sys.path.insert(0, os.path.join(ROOT, "tools", "packaging"))
sys.dont_write_bytecode = True

import package  # noqa: E402

# Folders that a build leaves in the root file system of the compilers.
LEFT_BEHIND = ("ccache", "src")


class ReproducibleTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def copy_cache(self, cache):
        """A copy of the compilers without their output. The copy shares its files by hard links; a
        build replaces files and never writes into them."""
        copy = os.path.join(os.path.dirname(cache), f"uroce-package-{os.getpid()}")
        self.addCleanup(shutil.rmtree, copy)
        subprocess.run(["cp", "-al", cache, copy], check=True)
        for root in os.listdir(copy):
            for name in LEFT_BEHIND:
                shutil.rmtree(os.path.join(copy, root, name), ignore_errors=True)
        return copy

    def make(self, tree, cache, name, variables):
        out = os.path.join(self.folder, name)
        subprocess.run([os.path.join(tree, "tools", "package"), "--out", out, "--cache", cache],
                       check=True, cwd="/", stdout=subprocess.DEVNULL,
                       env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **variables})
        with open(os.path.join(out, "SHA256SUMS"), encoding="ascii") as checksums:
            return checksums.read()

    def test_packages_are_the_same_bytes(self):
        cache = package.default_cache()
        first = self.make(ROOT, cache, "first", {})
        self.assertIn(".tar.xz\n", first)
        another = os.path.join(self.folder, "another", "place")
        copy_sources(another)
        again = self.make(another, self.copy_cache(cache), "again",
                          {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"})
        self.assertEqual(first, again)


if __name__ == "__main__":
    unittest.main(verbosity=2)
