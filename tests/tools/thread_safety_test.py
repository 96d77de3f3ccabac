#!/usr/bin/python3
"""Clang checks the lock rules that dpdk_nic/base/thread_annotations.h writes down."""

import concurrent.futures
import os
import re
import subprocess
import tempfile
import unittest

# Bazel starts the test through a link into the source tree, which the test checks.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FOLDERS = ("dpdk_nic", "verbs_provider")
ANNOTATION = re.compile(r"\bUROCE_(PT_)?(GUARDED_BY|REQUIRES|CAPABILITY|ACQUIRE|EXCLUDES)\(")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)

# Breaks a rule: a member is used without its lock.
BROKEN = """
#include "dpdk_nic/engine/engine_lock.h"
class Counter {
 public:
  void Add() { ++value_; }
 private:
  uroce::nic::EngineLock lock_;
  int value_ UROCE_GUARDED_BY(lock_) = 0;
};
void Use(Counter& counter) { counter.Add(); }
"""


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def annotated_sources():
    """The .cc files that have annotations, or include a header that has some."""
    for folder in FOLDERS:
        for parent, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if not name.endswith(".cc"):
                    continue
                source = os.path.relpath(os.path.join(parent, name), ROOT)
                headers = [header for header in INCLUDE.findall(read(source))
                           if os.path.exists(os.path.join(ROOT, header))]
                if any(ANNOTATION.search(read(file)) for file in [source, *headers]):
                    yield source


def analyse(source):
    """Clang's errors for a file; empty if the rules hold."""
    result = subprocess.run(
        ["clang++", "-std=c++20", "-march=x86-64-v2", "-fsyntax-only", "-Wno-everything",
         "-Wthread-safety", "-Werror=thread-safety", f"-I{ROOT}", source],
        cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stderr if result.returncode else ""


class ThreadSafetyTest(unittest.TestCase):

    def test_rules_hold(self):
        sources = list(annotated_sources())
        self.assertIn("dpdk_nic/engine/engine.cc", sources)
        self.assertIn("dpdk_nic/switch/switch_thread.cc", sources)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for source, complaint in zip(sources, pool.map(analyse, sources)):
                with self.subTest(source):
                    self.assertEqual(complaint, "")

    def test_broken_rule_is_found(self):
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
            file.write(BROKEN)
            file.flush()
            self.assertIn("requires holding engine lock 'lock_'", analyse(file.name))


if __name__ == "__main__":
    unittest.main()
