"""The source tree, for tests that build it elsewhere."""

import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__)))))


def copy_sources(target):
    """Copies the files of the source tree that git tracks, as they are now, into a new folder."""
    os.makedirs(target)
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True,
                           stdout=subprocess.PIPE).stdout
    with subprocess.Popen(["tar", "-x", "--touch", "-C", target],
                          stdin=subprocess.PIPE) as unpacking:
        subprocess.run(["tar", "-c", "-C", ROOT, "--null", "--files-from=-"], check=True,
                       input=files, stdout=unpacking.stdin)
    if unpacking.returncode != 0:
        raise subprocess.CalledProcessError(unpacking.returncode, unpacking.args)
