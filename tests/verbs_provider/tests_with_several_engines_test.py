#!/usr/bin/python3
"""Runs tests of a device with one engine on a device with several.

usage: tests_with_several_engines_test.py TEST...
"""

import os
import subprocess
import sys
import unittest

TESTS = sys.argv[1:]


class TestsWithSeveralEngines(unittest.TestCase):

    def test_pass(self):
        self.assertTrue(TESTS)
        for test in TESTS:
            with self.subTest(test):
                run = subprocess.run([test], check=False, text=True, env={**os.environ,
                                                                          "UROCE_ENGINES": "3"},
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(run.returncode, 0, run.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
