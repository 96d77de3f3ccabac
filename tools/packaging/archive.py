"""Packs a folder into a tarball and a Debian package, the same bytes for the same content.

Names are sorted, owners are root, times are all SOURCE_DATE_EPOCH's, and nothing is said of the
machine or the folder.
"""

import hashlib
import os
import subprocess
import tarfile

ARCHITECTURE = {"deb": "amd64", "tarball": "x86_64"}


def _normalized(epoch):
    def change(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = epoch
        executable = member.isdir() or member.mode & 0o100
        member.mode = 0o755 if executable else 0o644
        return member
    return change


def write_tarball(folder, top, path, epoch):
    """Everything in `folder`, below a folder that is called `top`."""
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as tarball:
        # tarfile adds the entries of a folder in the order of their names.
        tarball.add(folder, arcname=top, filter=_normalized(epoch))


CONTROL = """Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: the uroce project <uroce@localhost>
Installed-Size: {installed_kib}
Depends: {depends}
Suggests: ibverbs-utils, perftest
Section: net
Priority: optional
Description: software RDMA NIC in userspace
 Gives unmodified programs that use libibverbs or librdmacm an RDMA device
 'uroce0' on a machine that has no RDMA hardware and no RDMA in its kernel. No
 kernel module, no root, nothing to set up: 'uroce run -- ibv_devinfo'.
"""


def _installed_kib(folder):
    return sum(-(-os.path.getsize(os.path.join(parent, name)) // 1024)
               for parent, _, names in os.walk(folder) for name in names)


def write_deb(tree, path, name, version, depends, epoch):
    """`tree` is what is installed below /; a folder DEBIAN is made in it."""
    control = os.path.join(tree, "DEBIAN")
    installed_kib = _installed_kib(tree)
    os.mkdir(control)
    with open(os.path.join(control, "control"), "w", encoding="utf-8") as file:
        file.write(CONTROL.format(name=name, version=version, depends=depends,
                                  architecture=ARCHITECTURE["deb"], installed_kib=installed_kib))
    for parent, folders, files in os.walk(tree):
        for entry in (*folders, *files):
            entry = os.path.join(parent, entry)
            is_program = os.path.isdir(entry) or os.stat(entry).st_mode & 0o100
            os.chmod(entry, 0o755 if is_program else 0o644)
    os.chmod(tree, 0o755)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", tree,
                    path], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)})


def write_checksums(paths, target):
    """As `sha256sum --check` reads them."""
    with open(target, "w", encoding="ascii") as file:
        for path in sorted(paths):
            with open(path, "rb") as packed:
                digest = hashlib.sha256(packed.read()).hexdigest()
            file.write(f"{digest}  {os.path.basename(path)}\n")
