#!/usr/bin/python3
"""tools/spec_report: the citations that it recognises, the gaps that it reports, and the tree
itself."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tools", "lib"))

import spec_citations  # pylint: disable=wrong-import-position

# Written in two parts, so that this file cites nothing.
IBA = "IB" + "A"


def cited(text):
    return list(spec_citations.references(text.replace("@", IBA)))


class CitationTest(unittest.TestCase):

    def test_forms(self):
        for text, references in (
                ("// @ C9-92", ["C9-92"]),
                ("(@ o10-36.2.2).", ["o10-36.2.2"]),
                ("see @ CA17-22: the ICRC", ["CA17-22"]),
                ("@ 9.7.5.1.4.", ["9.7.5.1.4"]),
                ("@ A17.4.5.2,", ["A17.4.5.2"]),
                ("@ table 38. The codes", ["table 38"]),
                ("@ 9.9.3.1 class D1 drops", ["9.9.3.1 class D1"]),
                ("@ 11.6.3.2 CQ_ERR", ["11.6.3.2 CQ_ERR"]),
                ("@ 11.6.3.2 CQ is", ["11.6.3.2"]),
                ("@ C10-72, C10-75", ["C10-72", "C10-75"]),
                ("@ 9.7.4; 9.7.5 and C9-88: x", ["9.7.4", "9.7.5", "C9-88"])):
            with self.subTest(text):
                self.assertEqual([reference for _, reference in cited(text)], references)

    def test_text_that_is_no_citation_is_ignored(self):
        for text in ("C9-92", "@", "@ spec", "@TA 9.7", "X@ 9.7.5", "@ 9", "@ C9", "iba 9.7.5"):
            with self.subTest(text):
                self.assertEqual(cited(text), [])

    def test_it_may_go_on_in_the_next_line(self):
        self.assertEqual(cited("x\n// as in @\n//   C9-88,\n# 9.7.5;\n 9.8\n"),
                         [(3, "C9-88"), (4, "9.7.5"), (5, "9.8")])
        self.assertEqual(cited("// @ C9-88\n// 9.7.5\n"), [(1, "C9-88")])


class ReportTest(unittest.TestCase):
    """Runs the script in a made-up tree of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for name in ("tools/spec_report", "tools/lib/spec_citations.py"):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), self.path(name))
        self.write("tools/spec/catalogue",
                   "# rules\n9.1 | - | x | One.\n9.2 | - | x | Two.\n\nC9-3 | 9.3 | x | Three.\n")
        self.write("tools/spec/missing", "9.2: test  # why\nC9-3: code, test\n")
        self.write("transport/a.cc", "// @ 9.1\n// @ 9.2\n")
        self.write("tests/a_test.cc", "\n// @ 9.1\n")

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text.replace("@", IBA))

    def run_report(self, *arguments):
        return subprocess.run([self.path("tools/spec_report"), *arguments], check=False,
                              text=True, capture_output=True, timeout=60)

    def check(self, status, message=""):
        run = self.run_report("--check")
        self.assertEqual((run.returncode, run.stderr, run.stdout), (status, message, ""))

    def test_all_is_well(self):
        self.check(0)

    def test_the_table(self):
        run = self.run_report()
        self.assertEqual(run.returncode, 0)
        self.assertIn("9.1  One.\n    code  transport/a.cc:1\n    test  tests/a_test.cc:2\n",
                      run.stdout)
        self.assertIn("Cited in code, no test: 1\n    9.2  Two.\n", run.stdout)
        self.assertIn("Cited in tests, no code: 0\n", run.stdout)
        self.assertIn("nowhere cited: 1\n    C9-3  Three.\n\n1 of 3 rules", run.stdout)

    def test_a_rule_that_lost_its_test(self):
        self.write("tests/a_test.cc", "")
        self.check(1, "9.1 lacks a citation in test (cited at transport/a.cc:1): One.\n")

    def test_a_rule_that_lost_its_code(self):
        self.write("transport/a.cc", "// @ 9.2\n")
        self.check(1, "9.1 lacks a citation in code (cited at tests/a_test.cc:2): One.\n")

    def test_the_list_of_missing_ones_only_shrinks(self):
        self.write("tests/b_test.cc", "// @ 9.2, C9-3\n")
        self.check(1, "9.2 no longer lacks a citation in test: take it off tools/spec/missing.\n"
                      "C9-3 no longer lacks a citation in test: take it off tools/spec/missing.\n")

    def test_a_rule_that_is_not_in_the_catalogue(self):
        self.write("dpdk_nic/b.h", "\n// @ 9.1, C9-4\n")
        self.check(1, f"dpdk_nic/b.h:2: {IBA} C9-4 is not in tools/spec/catalogue.\n")
        self.assertEqual(self.run_report().returncode, 1)

    def test_mark_that_begins_no_citation_is_an_error(self):
        self.write("transport/b.h", "// see @ section 9.1\n// @\n// annex A17\n")
        self.check(1, f"transport/b.h:1: '{IBA} section' begins no citation.\n"
                      f"transport/b.h:2: '{IBA} annex' begins no citation.\n")

    def test_excuse_not_in_the_catalogue_is_an_error(self):
        self.write("tools/spec/missing", "9.2: test\nC9-3: code, test\nC9-9: code\n")
        self.check(1, "C9-9 of tools/spec/missing is not in tools/spec/catalogue.\n")

    def test_prose_proves_nothing(self):
        self.write("tests/a_test.cc", "")
        self.write("tests/README.md", "@ 9.1, C9-4\n")
        self.check(1, f"tests/README.md:1: {IBA} C9-4 is not in tools/spec/catalogue.\n"
                      "9.1 lacks a citation in test (cited at transport/a.cc:1): One.\n")

    def test_files_that_are_not_text_cite_nothing(self):
        with open(self.path("tests/capture"), "wb") as file:
            file.write(b"\xff\xfe %b 9.9.9" % IBA.encode())
        os.symlink("nowhere", self.path("tests/dangling"))
        self.check(0)

    def test_a_catalogue_that_makes_no_sense(self):
        for text, complaint in (("9.1 | One\n", "not 'reference | section | source | title'"),
                                ("9.1 | - | x |\n", "not 'reference | section | source | title'"),
                                ("9.1x | - | x | a\n", "'9.1x' is no reference"),
                                ("9.1 | - | x | a\n9.1 | - | x | b\n", "9.1 is there twice")):
            with self.subTest(text):
                self.write("tools/spec/catalogue", text)
                run = self.run_report("--check")
                self.assertEqual(run.returncode, 1)
                self.assertRegex(run.stderr, rf"^spec_report: \S+:\d: {complaint}\.\n$")

    def test_a_list_that_makes_no_sense(self):
        for text in ("9.2\n", "9.2: tests\n", "9.2: test code\n", "9.2: test\n9.2: code\n"):
            with self.subTest(text):
                self.write("tools/spec/missing", text)
                run = self.run_report("--check")
                self.assertEqual(run.returncode, 1)
                self.assertRegex(run.stderr, r"^spec_report: \S+:\d: .*\.\n$")

    def test_a_file_that_is_not_there(self):
        os.remove(self.path("tools/spec/missing"))
        run = self.run_report("--check")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr,
                         r"^spec_report: Cannot read \S+: No such file or directory\.\n$")

    def test_a_wrong_flag(self):
        for arguments in (["--wrong"], ["--check", "--check"], ["x"]):
            run = self.run_report(*arguments)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertEqual(len(run.stderr.splitlines()), 1)

    def test_help(self):
        run = self.run_report("--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("--check", run.stdout)


class TreeTest(unittest.TestCase):

    def test_no_rule_lost_its_code_or_its_test(self):
        run = subprocess.run([os.path.join(ROOT, "tools", "spec_report"), "--check"], check=False,
                             text=True, capture_output=True, timeout=60)
        self.assertEqual((run.returncode, run.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
