"""Root file systems of Debian suites, made from the packages of the machine's own Debian mirror.

Needs no privileges: packages are unpacked and not configured, which is enough to run a compiler or
a program in there.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Folders that are links into /usr since Debian 12; older suites do not mind.
MERGED = ("bin", "lib", "lib64", "sbin")


class RootError(Exception):
    """A root file system cannot be made; the message is a sentence that says what to do."""


def machine_mirror():
    """The address from which this machine gets its Debian packages."""
    run = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"], check=False,
        text=True, capture_output=True)
    for line in run.stdout.splitlines():
        if line.startswith("Debian Debian "):
            return line.split()[-1]
    raise RootError("this machine's apt names no Debian mirror: run 'apt-get update', or name one "
                    "with --mirror")


def run_apt(folder, *arguments, cwd=None):
    """apt-get with a state of its own in `folder`: nothing of the machine's is read or changed."""
    settings = [f"Dir::State={folder}/state", f"Dir::State::status={folder}/status",
                f"Dir::Cache={folder}/cache", f"Dir::Etc={folder}/etc", "APT::Architecture=amd64",
                "APT::Architectures=amd64", "APT::Sandbox::User=", "Acquire::Languages=none",
                "APT::Install-Recommends=false", f"Dir::Etc::Trusted={KEYRING}"]
    options = [word for setting in settings for word in ("-o", setting)]
    run = subprocess.run(["apt-get", "-q", *options, *arguments], check=False, text=True, cwd=cwd,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if run.returncode != 0:
        raise RootError(f"apt-get {arguments[0]} failed: {run.stdout.strip()}")


def download(folder, suite, mirror, packages, with_dependencies):
    """Downloads packages, and what they depend on if that is asked for; returns their files."""
    for part in ("state/lists/partial", "cache/archives/partial", "etc/apt.conf.d",
                 "etc/preferences.d", "etc/sources.list.d"):
        os.makedirs(os.path.join(folder, part), exist_ok=True)
    with open(os.path.join(folder, "status"), "w", encoding="ascii"):
        pass
    with open(os.path.join(folder, "etc/sources.list"), "w", encoding="ascii") as file:
        file.write(f"deb {mirror} {suite} main\n")
    run_apt(folder, "update")
    archives = os.path.join(folder, "cache/archives")
    if with_dependencies:
        run_apt(folder, "install", "--download-only", "-y", *packages)
    else:
        run_apt(folder, "download", *packages, cwd=archives)
    return sorted(os.path.join(archives, name) for name in os.listdir(archives)
                  if name.endswith(".deb"))


def unpack(archives, root):
    for name in MERGED:
        os.makedirs(os.path.join(root, "usr", name), exist_ok=True)
        os.symlink(os.path.join("usr", name), os.path.join(root, name))
    for archive in archives:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive],
                              stdout=subprocess.PIPE) as files:
            subprocess.run(["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root],
                           check=True, stdin=files.stdout)
        if files.returncode != 0:
            raise RootError(f"{archive} cannot be unpacked: delete it and start this again")
    for name in ("tmp", "proc", "dev", "sys", "run"):
        os.makedirs(os.path.join(root, name), exist_ok=True)


def make(suite, packages, cache, mirror=None, with_dependencies=True):
    """The root file system of a suite with these packages, made if the cache does not have it.

    `cache` is a folder. Returns the root's path.
    """
    wanted = " ".join([*sorted(packages), *(["and dependencies"] if with_dependencies else [])])
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    root = os.path.join(cache, f"{suite}-{digest}")
    if os.path.isdir(root):
        return root
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f"{suite}-") as folder:
        unpacked = os.path.join(folder, "root")
        os.mkdir(unpacked)
        unpack(download(os.path.join(folder, "apt"), suite, mirror or machine_mirror(), packages,
                        with_dependencies), unpacked)
        os.chmod(unpacked, 0o755)
        shutil.rmtree(os.path.join(folder, "apt"))
        os.rename(unpacked, root)
    return root
