"""Prints the cases of a test script, as JSON: 'Class.test_name' of each.

usage: list_cases.py SCRIPT [ARGUMENT...]

The arguments are those of the script; unittest's -k among them selects.
"""

import json
import os
import runpy
import sys
import types
import unittest


def cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield ".".join(test.id().split(".")[-2:])


def main(arguments):
    sys.dont_write_bytecode = True
    script = arguments[0]
    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    module = types.ModuleType("listed")
    vars(module).update(runpy.run_path(script, run_name="listed"))
    loader = unittest.TestLoader()
    # The script has removed the arguments that it took for itself.
    patterns = [after for word, after in zip(sys.argv, sys.argv[1:]) if word == "-k"]
    loader.testNamePatterns = [f"*{pattern}*" for pattern in patterns] or None
    print(json.dumps(list(cases(loader.loadTestsFromModule(module)))))


if __name__ == "__main__":
    main(sys.argv[1:])
