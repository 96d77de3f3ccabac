#!/usr/bin/python3
"""tools/lib/count_tests.py with made-up event files: it must never claim more than happened."""

import json
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SCRIPT = os.path.join(ROOT, "tools", "lib", "count_tests.py")

CASES_XML = """<testsuites><testsuite name="S">
  <testcase name="passes" status="run" result="completed"/>
  <testcase name="fails" status="run" result="completed"><failure message="no"/></testcase>
  <testcase name="skips" status="run" result="skipped"><skipped message="why"/></testcase>
  <testcase name="disabled" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""
PASSING_XML = '<testsuite><testcase name="a"/><testcase name="b"/></testsuite>'


class CountTestsTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def result(self, label, status, xml):
        path = self.write(label.replace("/", "_").replace(":", "_") + ".xml", xml)
        return {"id": {"testResult": {"label": label, "run": 1}},
                "testResult": {"status": status,
                               "testActionOutput": [{"name": "test.xml", "uri": "file://" + path}]}}

    def completed(self, label, success):
        return {"id": {"targetCompleted": {"label": label}}, "completed": {"success": success}}

    def finished(self, code):
        return {"id": {"buildFinished": {}}, "finished": {"exitCode": {"code": code}}}

    def run_script(self, *events):
        path = self.write("plain", "".join(json.dumps(event) + "\n" for event in events))
        return subprocess.run(["/usr/bin/python3", SCRIPT, path], check=False, text=True,
                              stdout=subprocess.PIPE)

    def count(self, *events):
        run = self.run_script(*events)
        return run.stdout.splitlines()[-1], run.returncode

    def test_cases_of_a_passing_target_are_counted(self):
        self.assertEqual(self.count(self.result("//a:a", "PASSED", PASSING_XML), self.finished(0)),
                         ("2 passed, 0 failed", 0))

    def test_failed_and_skipped_cases_are_told_apart(self):
        self.assertEqual(self.count(self.result("//a:a", "FAILED", CASES_XML), self.finished(3)),
                         ("1 passed, 1 failed", 1))

    def test_a_skipped_case_is_named_with_its_reason(self):
        xml = CASES_XML.replace('message="why"', 'message="a_test.cc:7&#x0A;no QEMU here"')
        run = self.run_script(self.result("//a:a", "FAILED", xml), self.finished(3))
        self.assertIn("  SKIPPED //a:a skips: no QEMU here\n", run.stdout)

    def test_end_of_a_failed_targets_log_is_repeated(self):
        result = self.result("//a:a", "FAILED", CASES_XML)
        log = self.write("test.log", "".join(f"line {number}\n" for number in range(100)))
        result["testResult"]["testActionOutput"].append({"name": "test.log",
                                                         "uri": "file://" + log})
        run = self.run_script(result, self.finished(3))
        self.assertIn("== the end of //a:a, plain\nline 70\n", run.stdout)
        self.assertIn("line 99\nplain: 1 passed, 1 failed, 1 skipped\n", run.stdout)

    def test_a_crash_after_passing_cases_is_a_failure(self):
        self.assertEqual(self.count(self.result("//a:a", "FAILED", PASSING_XML), self.finished(3)),
                         ("2 passed, 1 failed", 1))

    def test_a_timeout_with_a_broken_xml_is_a_failure(self):
        self.assertEqual(self.count(self.result("//a:a", "TIMEOUT", "<testsui"), self.finished(3)),
                         ("0 passed, 1 failed", 1))

    def test_a_target_that_was_not_built_is_a_failure(self):
        self.assertEqual(self.count(self.result("//a:a", "PASSED", PASSING_XML),
                                    self.completed("//a:a", True), self.completed("//b:b", False),
                                    self.finished(1)),
                         ("2 passed, 1 failed", 1))

    def test_a_failed_test_is_counted_once(self):
        self.assertEqual(self.count(self.result("//a:a", "FAILED", CASES_XML),
                                    self.completed("//a:a", False), self.finished(3)),
                         ("1 passed, 1 failed", 1))

    def test_bazel_failing_by_itself_is_a_failure(self):
        self.assertEqual(self.count(self.finished(37)), ("0 passed, 1 failed", 1))

    def test_nothing_at_all_is_a_failure(self):
        self.assertEqual(self.count(), ("0 passed, 1 failed", 1))

    def test_a_file_that_is_missing_is_a_failure(self):
        run = subprocess.run(["/usr/bin/python3", SCRIPT, "/nonexistent/plain"], check=False,
                             text=True, stdout=subprocess.PIPE)
        self.assertEqual(run.stdout.splitlines()[-1], "0 passed, 1 failed")
        self.assertEqual(run.returncode, 1)


if __name__ == "__main__":
    unittest.main()
