"""The root file system of the virtual machine: an archive of files of this machine."""

import glob
import os
import re
import shutil
import stat
import subprocess

from vm.kernel import Unavailable

# Programs of the packages that tools/setup installs.
PROGRAMS = (
    "busybox", "ip", "rdma", "ibv_devinfo",
    "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong",
    "ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat",
    "ib_atomic_bw", "ib_atomic_lat", "rping", "ucmatose", "udaddy", "rstream", "cmtime",
    "mckey", "socat",
)
RXE_PROVIDERS = "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so"
RXE_DRIVER = "/etc/libibverbs.d/rxe.driver"
# As in Debian, where /usr has all files.
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
FOLDERS = ("dev", "proc", "sys", "tmp")
CONSOLE_DEVICE = (5, 1)


class _Archive:
    """Writes a cpio archive in the format that the kernel unpacks ("newc")."""

    def __init__(self, file):
        self._file = file
        self._entries = 0
        self._folders = set()

    def _entry(self, name, mode, data=b"", device=(0, 0)):
        self._entries += 1
        encoded = name.encode() + b"\0"
        fields = (self._entries, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        self._write(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
        self._write(data)

    def _write(self, data):
        self._file.write(data + b"\0" * (-len(data) % 4))

    def folder(self, name):
        if name and name not in self._folders:
            self.folder(os.path.dirname(name))
            self._folders.add(name)
            self._entry(name, stat.S_IFDIR | 0o755)

    def link(self, name, target):
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name, device):
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFCHR | 0o600, device=device)

    def file(self, name, data):
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFREG | 0o755, data)

    def copy(self, path, name):
        with open(path, "rb") as file:
            self.file(name, file.read())

    def end(self):
        self._entry("TRAILER!!!", 0)


def _libraries(paths):
    """The libraries that the loader would load for these files, and the loader."""
    found = set()
    for path in paths:
        # ldd fails for a static program, which has none.
        printed = subprocess.run(["ldd", path], check=False, capture_output=True, text=True).stdout
        found.update(re.findall(r"(/\S+\.so\S*)", printed))
    return sorted(found)


def _programs():
    programs = {}
    for name in PROGRAMS:
        path = shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin")
        if path is None:
            raise Unavailable(f"the program {name} is missing: run 'tools/setup'")
        programs[name] = path
    return programs


def write(path, kernel, init, own_programs, own_libraries=()):
    """Writes the archive. `own_programs` are files of ours, which go beside Debian's programs.
    `own_libraries` are loaded by them, and go where an installed uroce looks for them."""
    providers = glob.glob(RXE_PROVIDERS)
    if not providers or not os.path.exists(RXE_DRIVER):
        raise Unavailable("the rxe provider of libibverbs is missing: run 'tools/setup'")
    programs = _programs()
    programs.update({os.path.basename(program): program for program in own_programs})
    with open(path, "wb") as file:
        archive = _Archive(file)
        for name in FOLDERS:
            archive.folder(name)
        for target in LINKS.values():
            archive.folder(target)
        for name, target in LINKS.items():
            archive.link(name, target)
        archive.device("dev/console", CONSOLE_DEVICE)
        archive.copy(init, "init")
        for name, program in programs.items():
            archive.copy(program, f"usr/bin/{name}")
        for library in own_libraries:
            archive.copy(library, f"usr/lib/uroce/{os.path.basename(library)}")
        needed = _libraries([*programs.values(), *providers, *own_libraries])
        for library in [*providers, *needed]:
            folder = os.path.realpath(os.path.dirname(library)).lstrip("/")
            archive.copy(library, f"{folder}/{os.path.basename(library)}")
        archive.copy(RXE_DRIVER, RXE_DRIVER.lstrip("/"))
        for module in kernel.modules:
            archive.copy(module, f"modules/{os.path.basename(module)}")
        names = [f"/modules/{os.path.basename(module)}\n" for module in kernel.modules]
        archive.file("etc/modules", "".join(names).encode())
        archive.end()
