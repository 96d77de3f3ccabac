#!/usr/bin/python3
"""Each thread-local variable that is accessed without a call has an address of its own.

ld 2.40 numbers the symbols of a shared library wrongly if one of them is a file-local variable of
this kind: the variable then shares its memory with the library's first one.

usage: thread_memory_test.py LIBRARY...
"""

import subprocess
import sys
import unittest

LIBRARIES = sys.argv[1:]


class ThreadMemoryTest(unittest.TestCase):

    def test_static_relocations_name_their_symbols(self):
        for library in LIBRARIES:
            with self.subTest(library):
                listing = subprocess.run(["readelf", "-rW", library], check=True, text=True,
                                         stdout=subprocess.PIPE).stdout
                relocations = [line for line in listing.splitlines() if "R_X86_64_TPOFF64" in line]
                self.assertTrue(relocations, "none is there to be checked")
                for line in relocations:
                    # OFFSET INFO TYPE [VALUE NAME + ADDEND]
                    self.assertNotIn("<null>", line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
