"""What tools/package and tools/install do; see there."""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile

import archive
import bazel_graph
import binaries
import contents
import debian_root
import portable_build


class PackageError(Exception):
    """A package would be wrong; the message is a sentence that says what to do."""


def stage_documents(folder):
    """Puts the files of the source tree, which is the current folder, where they belong."""
    for name, source in contents.DOCUMENTS.items():
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as file:
            text = file.read()
        with open(target, "wb") as file:
            file.write(gzip.compress(text, mtime=0) if name.endswith(".gz") else text)
        os.chmod(target, 0o644)


def stage_programs(folder, files, bazel_bin):
    """Copies what Bazel has built, as contents.py lists it, without symbols."""
    for name, built in files.items():
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        # Put there in one step: it may be running, and must not be half there.
        fresh = f"{target}.{os.getpid()}"
        subprocess.run(["strip", "-o", fresh, os.path.join(bazel_bin, built)], check=True)
        os.chmod(fresh, 0o755)
        os.replace(fresh, target)


def check_portable(folder):
    """Raises PackageError if a program needs more of a system than libc of the baseline."""
    for name in contents.PROGRAMS:
        path = os.path.join(folder, name)
        foreign = [library for library in binaries.needed_libraries(path)
                   if library not in contents.LIBC]
        if foreign:
            raise PackageError(f"{name} needs {', '.join(foreign)}, which a system may not have: "
                               "link it statically")
        glibc = binaries.needed_glibc(path)
        if glibc > contents.BASELINE_GLIBC:
            raise PackageError(f"{name} needs glibc {glibc[0]}.{glibc[1]}: find what it uses with "
                               f"'readelf -V' and do without")


def version_of(folder):
    """What `uroce --version` of this package says."""
    run = subprocess.run([os.path.join(folder, "bin/uroce"), "--version"], check=True, text=True,
                         capture_output=True)
    return run.stdout.split()[1]


def source_date_epoch():
    """The time that all files of the package get, in seconds since 1970."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    run = subprocess.run(["git", "log", "-1", "--format=%ct"], check=False, text=True,
                         capture_output=True)
    return int(run.stdout) if run.returncode == 0 else 0


def glibc_dependency(folder):
    files = [os.path.join(folder, "bin", name) for name in os.listdir(os.path.join(folder, "bin"))]
    files += [os.path.join(folder, "lib/uroce", name)
              for name in os.listdir(os.path.join(folder, "lib/uroce"))]
    newest = max(binaries.needed_glibc(file) for file in files)
    return f"libc6 (>= {newest[0]}.{newest[1]})"


def pack(folder, out, name):
    """Writes the tarball, the .deb and their checksums; returns the paths of all."""
    version, epoch = version_of(folder), source_date_epoch()
    os.makedirs(out, exist_ok=True)
    top = f"{name}-{version}-{archive.ARCHITECTURE['tarball']}"
    tarball = os.path.join(out, f"{top}.tar.xz")
    archive.write_tarball(folder, top, tarball, epoch)
    deb = os.path.join(out, f"{name}_{version}_{archive.ARCHITECTURE['deb']}.deb")
    with tempfile.TemporaryDirectory() as tree:
        shutil.copytree(folder, os.path.join(tree, "usr"))
        archive.write_deb(tree, deb, name, version, glibc_dependency(folder), epoch)
    checksums = os.path.join(out, "SHA256SUMS")
    archive.write_checksums([tarball, deb], checksums)
    return [tarball, deb, checksums]


def default_cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "uroce-package")


def package(arguments):
    parser = argparse.ArgumentParser(prog="tools/package", add_help=False)
    parser.add_argument("--out", default="dist")
    parser.add_argument("--cache", default=default_cache())
    parser.add_argument("--mirror")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--native", metavar="BAZEL_BIN")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        if options.native:
            stage_programs(folder, contents.PROGRAMS, options.native)
        else:
            portable_build.build(folder, options.cache, options.mirror, options.jobs)
            check_portable(folder)
        stage_documents(folder)
        for path in pack(folder, options.out, "uroce"):
            print(path)


def install(arguments):
    parser = argparse.ArgumentParser(prog="tools/install", add_help=False)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--bazel-bin", required=True)
    options = parser.parse_args(arguments)
    stage_programs(options.prefix, {**contents.PROGRAMS, **contents.DPDK_LIBRARY},
                   options.bazel_bin)
    stage_documents(options.prefix)


def main():
    command, *arguments = sys.argv[1:]
    try:
        {"package": package, "install": install}[command](arguments)
    except (PackageError, bazel_graph.GraphError, debian_root.RootError,
            portable_build.BuildError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{command}: {error}")


if __name__ == "__main__":
    main()
