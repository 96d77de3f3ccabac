"""Counts the test cases in Bazel's event files and prints 'N passed, M failed' as the last line.

A target counts as many cases as its test.xml names. A target that failed without naming a failed
case (a crash, a timeout, a build error) counts as one failed case, and so does a run of Bazel that
ended without testing anything: a number is never better than what happened. Exit status 1 if
anything failed. Before the counts come the last lines of what each failed target printed: the rest
of the output may be long, and cut where it is shown.
"""

import dataclasses
import json
import os
import sys
import urllib.parse
import xml.etree.ElementTree

# Bazel's exit status for "built, but no test target matched".
NO_TESTS_FOUND = 4
LINES_OF_A_FAILURE = 30


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: list = dataclasses.field(default_factory=list)  # "case: why" of each

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def why_skipped(case):
    """The reason that a skipped case gives, without the place in the source before it."""
    element = case.find("skipped")
    reason = "" if element is None else element.get("message") or element.text or ""
    return f"{case.get('name')}: {(reason.strip().splitlines() or ['no reason given'])[-1]}"


def count_cases(xml_path):
    """Counts the cases of one test.xml, as written by GoogleTest or by Bazel for a script."""
    counts = Counts()
    try:
        root = xml.etree.ElementTree.parse(xml_path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return counts  # The test died while writing it; the target's status decides.
    for case in root.iter("testcase"):
        if case.get("status") == "notrun":
            continue
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failed += 1
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            counts.skipped.append(why_skipped(case))
        else:
            counts.passed += 1
    return counts


def output_path(result, name):
    """The path of an output of the target of a testResult event, "" if it has none."""
    for output in result.get("testActionOutput", []):
        if output["name"] == name:
            return urllib.parse.unquote(urllib.parse.urlparse(output.get("uri", "")).path)
    return ""


def last_lines(result):
    """The last lines of what the target of a testResult event printed."""
    try:
        with open(output_path(result, "test.log"), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()[-LINES_OF_A_FAILURE:]
    except OSError:
        return []


def count_target(result):
    """Counts one test target from its testResult event."""
    xml_path = output_path(result, "test.xml")
    counts = count_cases(xml_path) if xml_path else Counts()
    if result.get("status") == "PASSED":
        if counts == Counts():
            counts.passed = 1  # A script whose xml is gone from the cache: Bazel vouches for it.
    elif counts.failed == 0:
        counts.failed = 1
    return counts


class Run:
    """One event file: one run of Bazel in one configuration."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        self.results = {}  # (label, run, shard) -> testResult of the last attempt
        self.broken = set()  # labels that could not be built
        self.exit_code = None
        with open(path, encoding="utf-8") as events:
            for line in events:
                self._read_event(json.loads(line))

    def _read_event(self, event):
        identity = event.get("id", {})
        if "testResult" in event:
            key = identity["testResult"]
            self.results[key["label"], key.get("run", 1), key.get("shard", 1)] = event["testResult"]
        elif "targetCompleted" in identity and not event.get("completed", {}).get("success"):
            self.broken.add(identity["targetCompleted"]["label"])
        elif "finished" in event:
            self.exit_code = event["finished"].get("exitCode", {}).get("code", 0)

    def count(self):
        """Counts the run; returns the counts and the labels that failed."""
        total = Counts()
        failed_labels = []
        for (label, _, _), result in sorted(self.results.items()):
            counts = count_target(result)
            counts.skipped = [f"{label} {skipped}" for skipped in counts.skipped]
            total.add(counts)
            if counts.failed:
                failed_labels.append(f"{label} ({result.get('status', 'no status').lower()})")
                print(f"== the end of {label}, {self.name}", *last_lines(result), sep="\n")
        tested = {label for label, _, _ in self.results}
        for label in sorted(self.broken - tested):
            total.failed += 1
            failed_labels.append(f"{label} (not built)")
        if not failed_labels and self.exit_code not in (0, NO_TESTS_FOUND):
            total.failed += 1
            failed_labels.append(f"bazel itself (exit status {self.exit_code})")
        return total, failed_labels


def main(paths):
    total = Counts()
    for path in paths:
        try:
            counts, failed_labels = Run(path).count()
        except (OSError, ValueError) as error:
            counts, failed_labels = Counts(failed=1), [f"no usable event file: {error}"]
        total.add(counts)
        print(f"{os.path.basename(path)}: {counts.passed} passed, {counts.failed} failed,"
              f" {len(counts.skipped)} skipped")
        for skipped in counts.skipped:
            print(f"  SKIPPED {skipped}")
        for label in failed_labels:
            print(f"  FAILED {label}")
    if total.passed == 0 and total.failed == 0:
        print("no test ran at all")
        total.failed = 1
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
