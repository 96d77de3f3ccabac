#!/usr/bin/python3
"""tools/support_report: the claims that it recognises, the errors that it finds, and the tree
itself."""

import contextlib
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "tools", "lib"), os.path.join(ROOT, "tests", "system")]

# pylint: disable=wrong-import-position
import support_claims
import support_rows
import support_tables
import test_targets
from harness import claims

ROWS = """# comment
packages bash
== Group
`ls` | one host | system:a_test | ATest.test_b
`ls` | between hosts | system:a_test | ATest.test_a
READ | one host | x:b_test | Suite.Name
`bash` | not tried | - | no need
"""
BUILD = """load("//x", "system_test")
system_test(name = "a_test", only = ["test_"], tags = ["long_run"])
[cc_test(name = name, srcs = glob(["*"]) + ["b.cc"]) for name in ["c_test"]]
"""
SCRIPT = """import unittest
class ATest(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): pass
    def helper(self): pass
"""
MATRIX = "def committed_outcomes(): return {}\n"


class Tree(unittest.TestCase):
    """Makes a made-up tree of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.write("tests/support/rows", ROWS)
        self.write("tests/system/BUILD.bazel", BUILD)
        self.write("tests/system/a_test.py", SCRIPT)
        self.write("tests/x/BUILD.bazel", 'cc_tests({"b_test": ["//dep"]})\n')
        self.write("tests/x/b_test.cc", "TEST_F(Suite, Name) {\n")
        self.write("tests/interop/matrix.py", MATRIX)

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def complaints(self):
        read = support_rows.read_rows(self.root)
        targets = test_targets.read_targets(self.root)
        return list(support_claims.complaints(self.root, read, targets))

    def add(self, line):
        self.write("tests/support/rows", f"{ROWS}{line}\n")


class TargetsTest(Tree):

    def test_targets_and_their_arguments(self):
        targets = test_targets.read_targets(self.root)
        self.assertEqual(set(targets), {"system:a_test", "system:c_test", "x:b_test"})
        self.assertEqual(targets["system:a_test"].arguments, ("-k", "test_"))
        self.assertTrue(targets["system:a_test"].is_long)
        self.assertEqual(targets["system:c_test"].sources, ("tests/system/b.cc",))

    def test_cases_are_those_that_the_arguments_select(self):
        self.write("tests/system/BUILD.bazel", BUILD.replace('"test_"', '"test_a"'))
        targets = test_targets.read_targets(self.root)
        self.assertEqual(test_targets.read_cases(self.root, {targets["system:a_test"]}),
                         {"system:a_test": {"ATest.test_a"}})


class ClaimsTest(Tree):

    def test_all_is_well(self):
        self.assertEqual(self.complaints(), [])

    def test_case_that_is_not_there(self):
        self.add("WRITE | one host | system:a_test | ATest.helper")
        self.assertEqual(self.complaints(), ["tests/support/rows:8: //tests/system:a_test does not "
                                             "run ATest.helper."])

    def test_case_that_is_not_selected(self):
        self.write("tests/system/BUILD.bazel", BUILD.replace('"test_"', '"test_a"'))
        self.assertEqual(self.complaints(), ["tests/support/rows:4: //tests/system:a_test does not "
                                             "run ATest.test_b."])

    def test_target_that_is_not_there(self):
        self.add("WRITE | one host | system:z_test | ATest.test_a")
        self.assertEqual(self.complaints(), ["tests/support/rows:8: there is no test "
                                             "//tests/system:z_test."])

    def test_line_that_the_matrix_does_not_have(self):
        self.add("WRITE | rdma_rxe | x:b_test | ib_write_bw")
        self.assertEqual(self.complaints(), ["tests/support/rows:8: 'ib_write_bw' is not in the "
                                             "interop matrix, or is not ok there."])

    def test_program_that_has_no_row(self):
        self.write("tests/support/rows", ROWS.replace("`bash` | not tried | - | no need\n", ""))
        self.write("tests/system/harness/x.py", 'run(["bash"])\n')
        self.assertEqual(self.complaints(), ["tests/system/harness/x.py: runs bash, and no row of "
                                             "tests/support/rows is about it."])

    def test_strings_but_not_docstrings_name_programs(self):
        programs = {"ib_send_bw", "ib_send_lat", "rping"}
        for source, found in (('x = ["rping", "-s"]', {"rping"}),
                              ('x = "exec rping -s"', {"rping"}),
                              ('x = f"ib_send_{y}"', {"ib_send_bw", "ib_send_lat"}),
                              ('x = f"{y}"', set()),
                              ('"""About rping."""', set()),
                              ('rping = 1', set())):
            with self.subTest(source):
                self.assertEqual(support_claims.mentioned(source, programs), found)

    def test_row_that_is_tried_and_not_tried(self):
        self.add("`bash` | one host | system:a_test | ATest.test_a")
        self.assertEqual(self.complaints(), ["'`bash`' has no test, or has one and is said not to "
                                             "be tried."])


class StartedProgramsTest(Tree):
    """The check that a system test makes at the end of a case that passed."""

    def setUp(self):
        super().setUp()
        os.makedirs(os.path.join(self.root, "tools"))
        os.symlink(os.path.join(ROOT, "tools", "lib"), os.path.join(self.root, "tools", "lib"))
        self.enterContext(contextlib.chdir(self.root))
        self.enterContext(mock.patch.dict(os.environ, TEST_TARGET="//tests/system:a_test"))
        claims.forget()

    def case(self, name):
        return mock.Mock(**{"id.return_value": f"__main__.ATest.{name}"})

    def test_case_that_started_another_program(self):
        claims.note_start(["uroce", "run", "--", "lsof"])
        self.assertEqual(claims.broken(self.case("test_a")),
                         "ATest.test_a has not started 'ls': see tests/support/rows")

    def test_case_that_left_an_option_out(self):
        self.add("`ls -l 'a;b'` | one host | system:a_test | ATest.test_c")
        claims.note_start(["ls", "a;b"])
        claims.note_start(["bash", "-l"])
        self.assertEqual(claims.broken(self.case("test_c")),
                         "ATest.test_c has not started 'ls -l a;b': see tests/support/rows")
        claims.note_start(["ls", "-a", "-l", "a;b"])
        self.assertIsNone(claims.broken(self.case("test_c")))

    def test_case_that_started_its_program(self):
        claims.note_start(["sh", "-c", "exec ls"])
        self.assertIsNone(claims.broken(self.case("test_a")))

    def test_case_of_which_nothing_is_claimed(self):
        self.assertIsNone(claims.broken(self.case("test_c")))


class RowsTest(Tree):

    def test_commands_of_a_case(self):
        read = support_rows.read_rows(self.root)
        self.assertEqual(read.commands_of("system:a_test", "ATest.test_a"), {("ls",)})
        self.assertEqual(read.commands_of("x:b_test", "Suite.Name"), set())

    def test_lines_that_make_no_sense(self):
        for line, complaint in (("a | one host | b", "not 'what"),
                                ("a | nowhere | x:b_test | c", "'nowhere' is none of"),
                                ("`ls` | one host | x:b_test | c", "another row is between")):
            with self.subTest(line), self.assertRaisesRegex(support_rows.RowError, complaint):
                self.add(line)
                support_rows.read_rows(self.root)

    def test_tables(self):
        rows = support_rows.read_rows(self.root).rows
        self.assertIn("| `ls` | yes | yes | | |\n| READ | yes | | | |\n",
                      support_tables.short_table(rows))
        page = support_tables.long_page(rows, test_targets.read_targets(self.root))
        self.assertIn("| system:a_test ATest.test_b (long run) |", page)
        self.assertIn("| `bash` | no need |", page)


class TreeTest(unittest.TestCase):

    def test_every_claim_is_shown_by_a_test_and_the_tables_are_as_written(self):
        run = subprocess.run([os.path.join(ROOT, "tools", "support_report"), "--check"],
                             check=False, text=True, capture_output=True, timeout=120)
        self.assertEqual((run.returncode, run.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
