"""Runs unittest and writes its results where Bazel looks for them, one entry a test case."""

import os
import signal
import sys
import time
import unittest
import xml.etree.ElementTree as xml

from harness import claims


class _RecordingResult(unittest.TextTestResult):

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.showAll = True
        self.suite = xml.Element("testsuite", name=os.environ.get("TEST_TARGET", sys.argv[0]))
        self._case = None
        self._start = 0.0

    def _begin(self, test):
        self._case = xml.SubElement(self.suite, "testcase", name=str(test))
        self._start = time.monotonic()

    def addSuccess(self, test):
        if complaint := claims.broken(test):
            self.addFailure(test, (AssertionError, AssertionError(complaint), None))
        else:
            super().addSuccess(test)

    def startTest(self, test):
        claims.forget()
        super().startTest(test)
        self._begin(test)

    def stopTest(self, test):
        self._case.set("time", f"{time.monotonic() - self._start:.3f}")
        self._case = None
        super().stopTest(test)

    def _mark(self, test, tag, message):
        if self._case is None:  # The preparation of a class failed, before any of its tests began.
            self._begin(test)
        xml.SubElement(self._case, tag).text = message

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._mark(test, "failure", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._mark(test, "error", self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._mark(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._mark(test, "failure", str(subtest))


def main():
    """To be called by a test script instead of unittest.main()."""
    # Bazel ends a test that takes too long by SIGTERM. Programs and files must be cleared away even
    # then.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runner = unittest.TextTestRunner(resultclass=_RecordingResult, verbosity=2)
    program = unittest.main(module="__main__", testRunner=runner, exit=False)
    path = os.environ.get("XML_OUTPUT_FILE")
    if path:
        xml.ElementTree(program.result.suite).write(path, encoding="unicode")
    sys.exit(not program.result.wasSuccessful())
