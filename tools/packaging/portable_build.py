"""Builds uroce for old systems: Bazel's own commands, run in a root file system of Debian 11.

Bazel says how each file is compiled and linked (bazel_graph.py). The commands run with Debian 11's
g++ and glibc, so that what they make starts on every system since; headers of the kernel and of
libibverbs are Debian 12's, as in Bazel's build. libstdc++ and Boost are linked in.
"""

import concurrent.futures
import fcntl
import os
import shutil
import subprocess

import bazel_graph
import contents
import debian_root

SUITE = "bullseye"
COMPILERS = ["g++-10", "gcc", "clang-13", "binutils", "ccache", "libc6-dev", "libboost-dev",
             "libboost-program-options-dev", "libibverbs-dev"]
HEADERS_SUITE = "bookworm"
HEADERS = ["linux-libc-dev", "libibverbs-dev", "librdmacm-dev", "nlohmann-json3-dev"]

# g++ before 11 knows no `asm goto` with outputs, which guarded instructions are made of.
BY_CLANG = ("transport/guarded_access.cc", "transport/wire/crc32")

# x86-64-v2 by the names of its parts, which older compilers know as well.
BASELINE = ["-march=x86-64", "-mcx16", "-msahf", "-mpopcnt", "-msse3", "-mssse3", "-msse4.1",
            "-msse4.2"]
# Words of Bazel's commands, and their replacements.
REPLACEMENTS = {
    "-march=x86-64-v2": BASELINE,
    "-lboost_program_options": ["-l:libboost_program_options.a"],
    "-lstdc++": ["-l:libstdc++.a"],
    # Parallel LTO would need make and a shell.
    "-flto=auto": ["-flto"],
    # Warnings are the business of the compiler that the project is developed with.
    "-Werror": [],
}


class BuildError(Exception):
    """A build failed; the message is a sentence, with the compiler's own words behind it."""


def is_guarded(command):
    return any(word.startswith(BY_CLANG) for word in command.arguments if word.endswith(".cc"))


def translate(command):
    """The arguments with which the compilers of Debian 11 do the same."""
    arguments = []
    for word in command.arguments:
        arguments += REPLACEMENTS.get(word, [word])
    if is_guarded(command):
        arguments[0] = "/usr/bin/clang-13"
        arguments.remove("-fno-canonical-system-headers")
    return arguments


class Builder:
    """Runs commands in the root file system. Only one process per cache may do so at a time."""

    def __init__(self, cache, mirror, jobs):
        self.root = debian_root.make(SUITE, COMPILERS, cache, mirror)
        self.headers = debian_root.make(HEADERS_SUITE, HEADERS, cache, mirror,
                                        with_dependencies=False)
        self.source = os.path.join(self.root, "src")
        self.jobs = jobs
        # Without root: root of a user namespace may change the root directory.
        self._enter = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]),
                       f"--root={self.root}", "--wd=/src"]

    def copy_sources(self):
        for folder in contents.SOURCE_FOLDERS:
            target = os.path.join(self.source, folder)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
        target = os.path.join(self.root, "headers/usr/include")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(os.path.join(self.headers, "usr/include"), target)
        # An empty file for compilers that throw something away.
        null = os.path.join(self.root, "dev/null")
        if not os.path.exists(null):
            with open(null, "w", encoding="ascii"):
                pass

    def run(self, arguments, output):
        os.makedirs(os.path.dirname(os.path.join(self.source, output)), exist_ok=True)
        # Nothing of the caller's environment may influence what is built.
        environment = {"PATH": "/usr/bin", "HOME": "/ccache", "CCACHE_DIR": "/ccache",
                       "LC_ALL": "C", "TMPDIR": "/tmp",
                       "CPLUS_INCLUDE_PATH":
                           "/headers/usr/include:/headers/usr/include/x86_64-linux-gnu"}
        run = subprocess.run([*self._enter, *arguments], check=False, text=True,
                             capture_output=True, env=environment)
        if run.returncode != 0:
            raise BuildError(f"{output} cannot be built for {SUITE}: {run.stderr.strip()}")

    def compile(self, command):
        self.run(["ccache", *translate(command)], command.output)

    def link(self, command):
        # Threads and dlopen() are libraries of their own before glibc 2.34. Without symbols, which
        # only a debugger reads.
        self.run([*translate(command), "-lpthread", "-ldl", "-static-libgcc", "-s"],
                 command.output)


def build(folder, cache, mirror=None, jobs=2):
    """Builds the programs of contents.py into `folder`, by their names in the package."""
    linked = contents.PROGRAMS
    graph = bazel_graph.query_graph(contents.TARGETS, list(linked.values()))
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        builder = Builder(cache, mirror, jobs)
        builder.copy_sources()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                list(pool.map(builder.compile, graph.compiles))
                list(pool.map(builder.link, graph.links))
            except BuildError:
                pool.shutdown(cancel_futures=True)
                raise
        outputs = {link.output.split("/bin/", 1)[1]: link.output for link in graph.links}
        for name, built in linked.items():
            target = os.path.join(folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.join(builder.source, outputs[built]), target)
