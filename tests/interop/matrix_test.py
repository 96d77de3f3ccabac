#!/usr/bin/python3
"""The matrix in the README has exactly the rows that are tried."""

import os
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
                             "system"))

import matrix
from harness import report
from rows import all_rows


class MatrixTest(unittest.TestCase):

    def test_every_row_is_there_in_order(self):
        self.assertEqual(list(matrix.committed_outcomes()),
                         [matrix.key_of(row) for row in all_rows()])

    def test_every_row_was_tried_in_both_directions(self):
        for key, outcomes in matrix.committed_outcomes().items():
            with self.subTest(key):
                self.assertEqual(outcomes, {direction: "ok" for direction in matrix.DIRECTIONS})

    def test_a_row_is_written_and_read_back(self):
        outcomes = {matrix.key_of(row): {"rxe serves": "ok", "uroce serves": "FAILED"}
                    for row in all_rows()}
        lines = matrix.table(outcomes).splitlines()
        for row in all_rows():
            self.assertIn(f"{matrix.key_of(row)} ok | FAILED |", lines)

    def test_no_two_rows_are_alike(self):
        keys = [matrix.key_of(row) for row in all_rows()]
        self.assertEqual(len(keys), len(set(keys)))


if __name__ == "__main__":
    report.main()
