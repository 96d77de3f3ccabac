"""Packs a folder into a tarball, a Debian package and an rpm, the same bytes for the same content.

Names are sorted, owners are root, all times are SOURCE_DATE_EPOCH, and nothing of the machine or
the folder is recorded.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from typing import NamedTuple

ARCHITECTURE = {"deb": "amd64", "tarball": "x86_64", "rpm": "x86_64"}


class Description(NamedTuple):
    """Describes a package to its manager. `text` is lines of at most 79 columns."""
    name: str
    version: str
    depends: str  # as Debian writes it; an rpm's needs are read from its files
    suggests: str
    summary: str
    text: str


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
    """Packs everything in `folder`, below a folder that is called `top`."""
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as tarball:
        # tarfile adds the entries of a folder in the order of their names.
        tarball.add(folder, arcname=top, filter=_normalized(epoch))


CONTROL = """Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: the uroce project <uroce@localhost>
Installed-Size: {installed_kib}
Depends: {depends}
Suggests: {suggests}
Section: net
Priority: optional
Description: {summary}
{text}
"""

SPEC = """Name: {name}
Version: {version}
Release: 1
Summary: {summary}
License: Apache-2.0
BuildArch: {architecture}
%description
{text}
%files
{files}
"""
# Keep the machine and the time out of the rpm, and leave the files as they are.
MACROS = {"_buildhost": "localhost", "use_source_date_epoch_as_buildtime": "1",
          "clamp_mtime_to_source_date_epoch": "1", "debug_package": "%{nil}",
          "__os_install_post": "%{nil}", "_build_id_links": "none",
          "_binary_payload": "w9.xzdio"}


def _installed_kib(folder):
    return sum(-(-os.path.getsize(os.path.join(parent, name)) // 1024)
               for parent, _, names in os.walk(folder) for name in names)


def _normalize(tree, epoch):
    for parent, _, files in os.walk(tree, topdown=False):
        for entry in (*(os.path.join(parent, name) for name in files), parent):
            is_program = os.path.isdir(entry) or os.stat(entry).st_mode & 0o100
            os.chmod(entry, 0o755 if is_program else 0o644)
            os.utime(entry, (epoch, epoch))


def write_deb(tree, path, description, epoch):
    """`tree` has the files to install below /; a folder DEBIAN is made in it."""
    control = os.path.join(tree, "DEBIAN")
    installed_kib = _installed_kib(tree)
    os.mkdir(control)
    fields = description._asdict()
    fields["text"] = "\n".join(f" {line}" for line in description.text.splitlines())
    with open(os.path.join(control, "control"), "w", encoding="utf-8") as file:
        file.write(CONTROL.format(**fields, architecture=ARCHITECTURE["deb"],
                                  installed_kib=installed_kib))
    _normalize(tree, epoch)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", tree,
                    path], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)})


def can_write_rpm():
    return shutil.which("rpmbuild") is not None


def write_rpm(tree, path, description, epoch):
    """`tree` has the files to install below /."""
    _normalize(tree, epoch)
    files = []
    for parent, _, names in os.walk(tree):
        for name in names:
            file = os.path.join(parent, name)
            mode = os.stat(file).st_mode & 0o777
            files.append(f"%attr({mode:o},root,root) /{os.path.relpath(file, tree)}")
    with tempfile.TemporaryDirectory() as folder:
        spec = os.path.join(folder, "package.spec")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(SPEC.format(**description._asdict(), files="\n".join(sorted(files)),
                                   architecture=ARCHITECTURE["rpm"]))
        macros = {**MACROS, "_topdir": folder, "_rpmdir": folder, "_rpmfilename": "made.rpm"}
        defines = [word for name, value in macros.items() for word in
                   ("--define", f"{name} {value}")]
        # rpmbuild removes the folder that it packs.
        copy = os.path.join(folder, "tree")
        shutil.copytree(tree, copy)
        subprocess.run(["rpmbuild", "-bb", "--quiet", "--buildroot", copy, *defines, spec],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)})
        shutil.move(os.path.join(folder, "made.rpm"), path)


def write_checksums(paths, target):
    """In the format that `sha256sum --check` reads."""
    with open(target, "w", encoding="ascii") as file:
        for path in sorted(paths):
            with open(path, "rb") as packed:
                digest = hashlib.sha256(packed.read()).hexdigest()
            file.write(f"{digest}  {os.path.basename(path)}\n")
