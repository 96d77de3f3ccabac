#!/usr/bin/python3
"""The interface to the DPDK library, which is a package of its own, has a version number, and each
number stands for one interface."""

import hashlib
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BORDER = "dpdk_nic/port/dpdk/dpdk_library.h"
# The version number, and the digest of all headers of the interface.
ABI = 13
DIGEST = "8734f718b8897b22"


def text_of(path):
    """The file's text without comments, with each run of white space as one blank."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return " ".join(re.sub(r"//.*", "", file.read()).split())


def closure(path, found):
    """The path and all headers of ours that it includes."""
    if path not in found:
        found[path] = text_of(path)
        for included in re.findall(r'#include "([^"]+)"', found[path]):
            closure(included, found)
    return found


class DpdkBorderTest(unittest.TestCase):

    def test_abi_number_changes_with_the_border_headers(self):
        headers = closure(BORDER, {})
        self.assertGreater(len(headers), 4)
        digest = hashlib.sha256()
        for path in sorted(headers):
            digest.update(headers[path].encode())
        number = int(re.search(r"kDpdkLibraryAbi = (\d+)", headers[BORDER]).group(1))
        self.assertEqual((number, digest.hexdigest()[:16]), (ABI, DIGEST),
                         "raise kDpdkLibraryAbi, and say the new number and digest here")


if __name__ == "__main__":
    unittest.main(verbosity=2)
