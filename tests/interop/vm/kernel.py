"""Debian's kernel, unpacked from its package: an image and modules. Nothing is installed.

It stays in a cache folder, so that only the first run needs the network.
"""

import glob
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import zlib

META_PACKAGE = "linux-image-amd64"
# Loaded with their dependencies. crc32 is for the ICRC; rxe requests it by that name only.
MODULES = ("virtio_pci", "virtio_net", "virtio_rng", "crc32_pclmul", "crc32_generic", "ib_uverbs",
           "rdma_ucm", "rdma_rxe", "vfio_pci", "vfio_iommu_type1", "uio_pci_generic")


class Unavailable(Exception):
    """A sentence that says why there cannot be a virtual machine here."""


class Kernel:
    """`image` and `modules` are files; the modules are in the order in which they are loaded."""

    def __init__(self, folder):
        self.image = os.path.join(folder, "vmlinuz")
        self.modules = sorted(glob.glob(os.path.join(folder, "modules", "*.ko")))


def cache_folder():
    # Not $HOME: Bazel's tests have none.
    home = pwd.getpwuid(os.getuid()).pw_dir
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "uroce",
                        "interop")


def _dependencies(module):
    """The names that the module's .modinfo section lists."""
    with open(module, "rb") as file:
        listed = re.search(rb"\0depends=([^\0]*)\0", file.read())
    return [name for name in listed.group(1).decode().split(",") if name] if listed else []


def _in_loading_order(files):
    """The files of MODULES, each behind those that it depends on."""
    ordered = []

    def add(name):
        # A module without a file is built into the kernel.
        if name in files and files[name] not in ordered:
            for dependency in _dependencies(files[name]):
                add(dependency.replace("-", "_"))
            ordered.append(files[name])

    for name in MODULES:
        add(name)
    return ordered


def _download(folder):
    """The kernel's package, downloaded to the folder."""
    depends = subprocess.run(["apt-cache", "depends", META_PACKAGE], check=False,
                             capture_output=True, text=True)
    package = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
    if package is None:
        raise Unavailable(f"apt does not know the package {META_PACKAGE}: run 'apt-get update'")
    done = subprocess.run(["apt-get", "-q", "download", package.group(1)], cwd=folder, check=False,
                          capture_output=True, text=True)
    archives = glob.glob(os.path.join(folder, "*.deb"))
    if done.returncode != 0 or len(archives) != 1:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise Unavailable(f"the package {package.group(1)} cannot be downloaded: "
                          f"{' '.join(errors) or done.stderr.strip()}")
    return archives[0]


def _unpack(archive, folder):
    tree = os.path.join(folder, "tree")
    subprocess.run(["dpkg-deb", "-x", archive, tree], check=True)
    [image] = glob.glob(os.path.join(tree, "boot", "vmlinuz-*"))
    files = {os.path.basename(path)[:-len(".ko")].replace("-", "_"): path
             for path in glob.glob(os.path.join(tree, "**", "*.ko"), recursive=True)}
    missing = [name for name in ("rdma_rxe", "virtio_net") if name not in files]
    if missing:
        raise Unavailable(f"the package {os.path.basename(archive)} has no module {missing[0]}")
    ready = os.path.join(folder, "ready")
    os.makedirs(os.path.join(ready, "modules"))
    shutil.copy(image, os.path.join(ready, "vmlinuz"))
    for number, module in enumerate(_in_loading_order(files)):
        name = f"{number:02}-{os.path.basename(module)}"
        shutil.copy(module, os.path.join(ready, "modules", name))
    return ready


def prepare():
    """The kernel, from the cache or from its package. Raises Unavailable."""
    # The name depends on MODULES: a kernel unpacked for another list stays in its own folder.
    final = os.path.join(cache_folder(), f"kernel-{zlib.crc32(repr(MODULES).encode()):08x}")
    if not os.path.exists(final):
        os.makedirs(cache_folder(), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            ready = _unpack(_download(folder), folder)
            try:
                os.rename(ready, final)
            except OSError:
                # Another process was faster; any other error shows when the kernel is used.
                pass
    return Kernel(final)
