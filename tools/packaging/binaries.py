"""Reads with readelf what a built program or library needs from the system it runs on."""

import re
import subprocess


def _readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, path], check=True, text=True,
                          capture_output=True).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed_libraries(path):
    """The sonames of the libraries that the loader loads for it."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", _readelf("--dynamic", path))


def needed_glibc(path):
    """The newest version of glibc whose symbols it uses, as in (2, 30)."""
    versions = re.findall(r"Name: GLIBC_(\d+(?:\.\d+)+)", _readelf("--version-info", path))
    return max((tuple(int(number) for number in version.split(".")[:2]) for version in versions),
               default=(0, 0))
