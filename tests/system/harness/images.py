"""Minimal images of Debian, as CI begins with: apt, and nothing that nobody asked for."""

import contextlib
import os
import shutil
import subprocess
import tempfile

MMDEBSTRAP = "/usr/bin/mmdebstrap"


def why_not():
    """Why none can be made here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    return None if os.path.exists(MMDEBSTRAP) else "mmdebstrap is not installed: see tools/setup"


def make(suite, mirror, root):
    """The root file system of a suite, which can reach the mirror."""
    subprocess.run([MMDEBSTRAP, "--quiet", "--variant=apt", suite, root, mirror], check=True)
    shutil.copy("/etc/resolv.conf", os.path.join(root, "etc"))


@contextlib.contextmanager
def reachable(root):
    """The same root where every user can go: a cache is in a home that may be its owner's alone."""
    folder = tempfile.mkdtemp(prefix="uroce-system-")
    os.chmod(folder, 0o755)
    subprocess.run(["mount", "--bind", root, folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        os.rmdir(folder)  # empty, or it is not ours to remove
