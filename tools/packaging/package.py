"""Does the work of tools/package and tools/install; see there."""

import argparse
import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile

import archive
import bazel_graph
import binaries
import contents
import debian_root
import manual
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
        if name.startswith("share/man/"):
            text = gzip.compress(manual.page_for(name, source, text.decode()), mtime=0)
        with open(target, "wb") as file:
            file.write(text)
        os.chmod(target, 0o644)


def stage_programs(folder, files, bazel_bin):
    """Copies what Bazel has built, as contents.py lists it, without symbols."""
    for name, built in files.items():
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        # Replaced in one step: the old file may be running, and the new one must never be there in
        # part.
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
    """The version that `uroce --version` of this package prints."""
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


def owner_of(library):
    """The Debian package that has the library on this machine."""
    run = subprocess.run(["dpkg-query", "--search", f"*/{library}"], check=False, text=True,
                         capture_output=True)
    if run.returncode != 0:
        raise PackageError(f"no Debian package here has {library}, which is linked with: build on "
                           "Debian 12")
    return run.stdout.split(":", 1)[0]


def dependencies(folder):
    """The packages that Debian must install for the libraries that the files are linked with."""
    files = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names
             if binaries.is_elf(os.path.join(parent, name))]
    newest = max(binaries.needed_glibc(file) for file in files)
    foreign = {library for file in files for library in binaries.needed_libraries(file)}
    owners = {owner_of(library) for library in foreign - set(contents.LIBC)}
    return ", ".join([f"libc6 (>= {newest[0]}.{newest[1]})", *sorted(owners)])


def pack(folder, out, top, description):
    """Writes the tarball, whose files are below `top`, the .deb and, where rpmbuild is, the .rpm;
    returns their paths."""
    epoch = source_date_epoch()
    os.makedirs(out, exist_ok=True)
    tarball = os.path.join(out, f"{top}.tar.xz")
    archive.write_tarball(folder, top, tarball, epoch)
    name = f"{description.name}_{description.version}"
    paths = [tarball]
    with tempfile.TemporaryDirectory() as tree:
        shutil.copytree(folder, os.path.join(tree, "usr"))
        if archive.can_write_rpm():
            paths.append(os.path.join(out, f"{name.replace('_', '-')}-1.x86_64.rpm"))
            archive.write_rpm(tree, paths[-1], description, epoch)
        paths.append(os.path.join(out, f"{name}_{archive.ARCHITECTURE['deb']}.deb"))
        archive.write_deb(tree, paths[-1], description, epoch)
    return paths


def native_version(version):
    """The version of a package built for this machine's system, as "0.1.0+debian12"."""
    system = platform.freedesktop_os_release()
    return f"{version}+{system['ID']}{system.get('VERSION_ID', '')}"


def pack_uroce(folder, out, version):
    return pack(folder, out, f"uroce-{version}-{archive.ARCHITECTURE['tarball']}",
                archive.Description("uroce", version, dependencies(folder),
                                    contents.SUGGESTS, contents.SUMMARY, contents.TEXT))


def pack_dpdk(bazel_bin, out, version):
    """Packs direct mode's DPDK; it needs the package of this version, from the same build."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        stage_programs(folder, contents.DPDK_LIBRARY, bazel_bin)
        needs = f"uroce (= {version}), {dependencies(folder)}"
        # A name that uroce-*-x86_64.tar.xz, the pattern of the other package, does not match.
        return pack(folder, out, f"uroce-dpdk-{version}",
                    archive.Description("uroce-dpdk", version, needs, "dpdk",
                                        contents.DPDK_SUMMARY, contents.DPDK_TEXT))


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
    parser.add_argument("--dpdk", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        if options.native:
            stage_programs(folder, contents.PROGRAMS, options.native)
        else:
            portable_build.build(folder, options.cache, options.mirror, options.jobs)
            check_portable(folder)
        stage_documents(folder)
        version = version_of(folder)
        if options.native:
            version = native_version(version)
        paths = pack_uroce(folder, options.out, version)
        if options.dpdk:
            paths += pack_dpdk(options.native, options.out, version)
    paths.append(os.path.join(options.out, "SHA256SUMS"))
    archive.write_checksums(paths[:-1], paths[-1])
    for path in paths:
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
    except (PackageError, bazel_graph.GraphError, debian_root.RootError, manual.ManualError,
            portable_build.BuildError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{command}: {error}")


if __name__ == "__main__":
    main()
