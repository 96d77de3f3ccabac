#!/usr/bin/python3
"""What the system tests rely on: that they see all that a program prints."""

import unittest

from harness import report
from harness.programs import Program

LINES = 5000


class ProgramTest(unittest.TestCase):

    def test_output_that_is_read_while_it_is_written_stays_whole(self):
        command = ["sh", "-c", f"i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i + 1)); done"]
        with Program(command) as program:
            while program.process.poll() is None:
                program.output()
            self.assertEqual(program.output().split(), [str(line) for line in range(LINES)])


if __name__ == "__main__":
    report.main()
