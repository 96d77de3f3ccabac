"""Minimal images of Debian, such as CI starts from: the essential packages and apt."""

import contextlib
import os
import shutil
import subprocess
import tempfile

MMDEBSTRAP = "/usr/bin/mmdebstrap"


def why_not():
    """The reason why no image can be made here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    return None if os.path.exists(MMDEBSTRAP) else "mmdebstrap is not installed: see tools/setup"


def make(suite, mirror, root):
    """Makes the root file system of a suite, with access to the mirror."""
    subprocess.run([MMDEBSTRAP, "--quiet", "--variant=apt", suite, root, mirror], check=True)
    shutil.copy("/etc/resolv.conf", os.path.join(root, "etc"))


@contextlib.contextmanager
def reachable(root):
    """The same root at a place that every user can enter: the cache's home may be closed to
    others."""
    folder = tempfile.mkdtemp(prefix="uroce-system-")
    os.chmod(folder, 0o755)
    subprocess.run(["mount", "--bind", root, folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        os.rmdir(folder)  # fails unless it is empty, i.e. unmounted
