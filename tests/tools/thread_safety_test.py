#!/usr/bin/python3
"""Clang checks the lock rules that dpdk_nic/base/thread_annotations.h writes down."""

import concurrent.futures
import os
import re
import subprocess
import sysconfig
import tempfile
import unittest

# Bazel starts the test through a link into the source tree, which the test checks.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FOLDERS = ("dpdk_nic", "verbs_provider")
ANNOTATION = re.compile(r"\bUROCE_(PT_)?(GUARDED_BY|REQUIRES|CAPABILITY|ACQUIRE|EXCLUDES)\(")
DPDK_HEADERS = ("-isystem/usr/include/dpdk",
                f"-isystem/usr/include/{sysconfig.get_config_var('MULTIARCH')}/dpdk")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)

# Breaks a rule: a member is used without its lock.
BROKEN = """
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/engine/engine_lock.h"
template <class Lock>
class Counter {
 public:
  void Add() { ++value_; }
 private:
  Lock lock_;
  int value_ UROCE_GUARDED_BY(lock_) = 0;
};
void Use(Counter<uroce::nic::LOCK>& counter) { counter.Add(); }
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
    # Without constinit: clang gives up on large arrays, which are of no interest here.
    result = subprocess.run(
        ["clang++", "-std=c++20", "-march=x86-64-v2", "-fsyntax-only", "-Wno-everything",
         "-Wthread-safety", "-Werror=thread-safety", "-Dconstinit=", f"-I{ROOT}", *DPDK_HEADERS,
         source],
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
        for lock, kind in (("EngineLock", "engine lock"), ("Mutex", "mutex")):
            with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
                file.write(BROKEN.replace("LOCK", lock))
                file.flush()
                self.assertIn(f"requires holding {kind} 'lock_'", analyse(file.name))


if __name__ == "__main__":
    unittest.main()
