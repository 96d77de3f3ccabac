"""Minimal images of Debian, as CI begins with: apt, and nothing that nobody asked for."""

import os
import shutil
import subprocess

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
