#!/usr/bin/python3
"""The files that tools/package and tools/install make of Bazel's output.

usage: package_test.py PATH_OF_UROCE
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PACKAGING = os.path.join(ROOT, "tools", "packaging")
sys.path.insert(0, PACKAGING)
sys.dont_write_bytecode = True

import archive  # noqa: E402
import bazel_graph  # noqa: E402
import contents  # noqa: E402
import portable_build  # noqa: E402

UROCE = os.path.abspath(sys.argv[1])
# Bazel's output tree, or the part of it that this test can see.
BAZEL_BIN = os.path.dirname(os.path.dirname(UROCE))
EPOCH = "1700000000"


def run(*command, **options):
    environment = {name: value for name, value in os.environ.items()
                   if name != "LD_PRELOAD" and not name.startswith("UROCE_")}
    environment.update(options.pop("variables", {}))
    return subprocess.run(command, check=False, text=True, capture_output=True, env=environment,
                          timeout=120, **options)


def command_line(*words):
    return {"mnemonic": "CppCompile" if "-c" in words else "CppLink", "arguments": list(words)}


class BazelGraphTest(unittest.TestCase):

    GRAPH = json.dumps({"actions": [
        command_line("/usr/bin/gcc", "-O2", "-c", "a.cc", "-o", "bazel-out/k8/bin/a.o"),
        command_line("/usr/bin/gcc", "-O2", "-c", "b.cc", "-o", "bazel-out/k8/bin/b.o"),
        command_line("/usr/bin/gcc", "-o", "bazel-out/k8/bin/tools/a", "bazel-out/k8/bin/a.o",
                     "-lstdc++", "@bazel-out/k8/bin/tools/a-2.params"),
        command_line("/usr/bin/gcc", "-o", "bazel-out/k8/bin/libb.so", "bazel-out/k8/bin/b.o"),
        {"mnemonic": "CppLink"},
    ]})

    def test_only_linked_objects_are_compiled(self):
        graph = bazel_graph.read_graph(self.GRAPH, ["tools/a"])
        self.assertEqual([c.output for c in graph.compiles], ["bazel-out/k8/bin/a.o"])
        self.assertEqual([c.output for c in graph.links], ["bazel-out/k8/bin/tools/a"])
        self.assertNotIn("@", " ".join(graph.links[0].arguments))

    def test_a_file_that_bazel_does_not_make_is_an_error(self):
        with self.assertRaisesRegex(bazel_graph.GraphError, "contents.py"):
            bazel_graph.read_graph(self.GRAPH, ["tools/a", "tools/c"])


class TranslationTest(unittest.TestCase):

    def translate(self, *words):
        return portable_build.translate(bazel_graph.Command(list(words), "x.o"))

    def test_flags_of_newer_compilers_have_older_names(self):
        words = self.translate("/usr/bin/gcc", "-march=x86-64-v2", "-Werror", "-c", "a.cc")
        self.assertIn("-msse4.2", words)
        self.assertNotIn("-march=x86-64-v2", words)
        self.assertNotIn("-Werror", words)

    def test_libraries_are_linked_in(self):
        words = self.translate("/usr/bin/gcc", "-lstdc++", "-lboost_program_options", "-lm")
        self.assertEqual(words[1:], ["-l:libstdc++.a", "-l:libboost_program_options.a", "-lm"])

    def test_files_with_guarded_instructions_are_clangs(self):
        for source in ("transport/guarded_access.cc", "transport/wire/crc32_avx512.cc"):
            with open(os.path.join(ROOT, source), encoding="utf-8") as file:
                self.assertIn("asm volatile goto", file.read())
            words = self.translate("/usr/bin/gcc", "-fno-canonical-system-headers", "-c", source)
            self.assertIn("clang", words[0])
            self.assertNotIn("-fno-canonical-system-headers", words)
        self.assertEqual(self.translate("/usr/bin/gcc", "-c", "transport/psn.cc")[0],
                         "/usr/bin/gcc")


class HeadersTest(unittest.TestCase):
    """Code that is compiled for old systems includes only headers that exist on Debian 11."""

    # Folders of libc's headers, and of those for DPDK's port alone.
    ALWAYS_THERE = {"arpa", "gnu", "net", "netinet", "sys", "bpf", "xdp"}
    PACKAGES = {"boost": "libboost-dev", "infiniband": "libibverbs-dev",
                "linux": "linux-libc-dev", "nlohmann": "nlohmann-json3-dev",
                "rdma": "librdmacm-dev"}

    def test_each_library_is_downloaded(self):
        included = set()
        for folder in contents.SOURCE_FOLDERS:
            for parent, _, names in os.walk(os.path.join(ROOT, folder)):
                for name in names:
                    if name.endswith((".cc", ".h", ".inc")):
                        with open(os.path.join(parent, name), encoding="utf-8") as file:
                            included |= set(re.findall(r"^#include <(\w+)/", file.read(),
                                                       re.MULTILINE))
        self.assertIn("boost", included)
        downloaded = portable_build.COMPILERS + portable_build.HEADERS
        for library in included - self.ALWAYS_THERE:
            self.assertIn(self.PACKAGES.get(library, library), downloaded)


class ArchiveTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def tree(self, name):
        """Makes a tree of the same content each time, at another time, in another order, with
        another umask."""
        tree = os.path.join(self.folder, name)
        names = ["usr/bin/b", "usr/bin/a"]
        for file in names if name == "first" else reversed(names):
            path = os.path.join(tree, file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as out:
                out.write(file)
            os.chmod(path, 0o755 if name == "first" else 0o700)
            os.utime(path, (len(name), len(name)))
        return tree

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def test_the_same_content_makes_the_same_bytes(self):
        description = archive.Description("uroce", "1", "libc6", "perftest", "summary", "text")
        writers = {"deb": archive.write_deb}
        if archive.can_write_rpm():
            writers["rpm"] = archive.write_rpm
        for name in ("first", "again"):
            tree = self.tree(name)
            archive.write_tarball(tree, "top", os.path.join(self.folder, f"{name}.tar.xz"), 7)
            for kind, write in sorted(writers.items(), reverse=True):
                write(tree, os.path.join(self.folder, f"{name}.{kind}"), description, 7)
        for kind in ("tar.xz", *writers):
            self.assertEqual(self.read(f"first.{kind}"), self.read(f"again.{kind}"), kind)

    def test_tarball_members_have_a_fixed_owner_and_time(self):
        path = os.path.join(self.folder, "x.tar.xz")
        archive.write_tarball(self.tree("first"), "top", path, 7)
        with tarfile.open(path) as tarball:
            members = tarball.getmembers()
        self.assertEqual([m.name for m in members],
                         ["top", "top/usr", "top/usr/bin", "top/usr/bin/a", "top/usr/bin/b"])
        self.assertEqual({(m.uid, m.uname, m.mtime) for m in members}, {(0, "root", 7)})


class NativePackageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="uroce-package-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.out = os.path.join(cls.folder, "dist")
        made = run("/usr/bin/python3", "-B", os.path.join(PACKAGING, "package.py"), "package",
                   "--out", cls.out, "--native", BAZEL_BIN, "--dpdk", cwd=ROOT,
                   variables={"SOURCE_DATE_EPOCH": EPOCH})
        if made.returncode != 0:
            raise AssertionError(made.stderr)
        cls.paths = made.stdout.split()
        cls.tarball, cls.deb, cls.checksums = (
            next(path for path in cls.paths if path.endswith(end) and "uroce-dpdk" not in path)
            for end in (".tar.xz", ".deb", "SHA256SUMS"))
        subprocess.run(["tar", "-xf", cls.tarball, "-C", cls.folder], check=True)
        cls.unpacked = os.path.join(
            cls.folder, os.path.basename(cls.tarball).removesuffix(".tar.xz"))
        cls.uroce = os.path.join(cls.unpacked, "bin/uroce")

    @staticmethod
    def version():
        """The version of a build for this system."""
        return f"{run(UROCE, '--version').stdout.split()[1]}+debian12"

    def test_names_have_the_version(self):
        version = self.version()
        self.assertEqual(os.path.basename(self.tarball), f"uroce-{version}-x86_64.tar.xz")
        self.assertEqual(os.path.basename(self.deb), f"uroce_{version}_amd64.deb")

    def test_checksums_are_those_of_the_files(self):
        checked = run("sha256sum", "--check", "--strict", self.checksums, cwd=self.out)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertEqual(checked.stdout.count(": OK"), len(self.paths) - 1)
        self.assertEqual(sorted(os.listdir(self.out)), sorted(map(os.path.basename, self.paths)))

    def test_package_has_exactly_the_listed_files(self):
        files = {os.path.relpath(os.path.join(parent, name), self.unpacked)
                 for parent, _, names in os.walk(self.unpacked) for name in names}
        self.assertEqual(files, {*contents.PROGRAMS, *contents.DOCUMENTS})

    def test_deb_has_the_same_below_usr(self):
        listed = run("dpkg-deb", "--fsys-tarfile", self.deb, errors="replace")
        self.assertEqual(listed.returncode, 0)
        names = run("dpkg-deb", "--contents", self.deb).stdout
        for name in (*contents.PROGRAMS, *contents.DOCUMENTS):
            self.assertIn(f" ./usr/{name}\n", names)
        depends = run("dpkg-deb", "--field", self.deb, "Depends").stdout
        # These are the dependencies of a build for this machine only.
        self.assertRegex(depends, r"\Alibc6 \(>= 2\.\d+\), libboost-program-options\S+, "
                                  r"libgcc-s1, libstdc\+\+6\n\Z")

    def test_package_works_in_the_folder_where_it_was_unpacked(self):
        listed = run(self.uroce, "run", "--fabric", f"package-test-{os.getpid()}", "--",
                     "ibv_devices")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("uroce0", listed.stdout)

    def test_package_works_behind_a_link(self):
        link = os.path.join(self.folder, "uroce")
        os.symlink(self.uroce, link)
        checked = run(link, "check", "--fabric", f"package-test-{os.getpid()}")
        self.assertEqual(checked.returncode, 0, checked.stdout)
        self.assertIn("uroce0 can be opened", checked.stdout)

    def test_direct_mode_says_that_it_needs_a_build(self):
        refused = run(self.uroce, "run", "--port", "net_null0", "--", "ibv_devices")
        self.assertEqual(refused.returncode, 2, refused)
        self.assertIn("tools/package --dpdk", refused.stderr)
        self.assertEqual(refused.stderr.count("\n"), 1)

    def test_dpdk_is_a_package_that_goes_with_this_version(self):
        (deb,) = (path for path in self.paths if re.search(r"uroce-dpdk_.*\.deb\Z", path))
        version = self.version()
        depends = run("dpkg-deb", "--field", deb, "Depends").stdout
        self.assertIn(f"uroce (= {version})", depends)
        self.assertIn("libelf1", depends)
        both = os.path.join(self.folder, "both")
        for package in (self.deb, deb):
            subprocess.run(["dpkg-deb", "--extract", package, both], check=True)
        opened = run(os.path.join(both, "usr/bin/uroce"), "run", "--port", "net_null0", "--",
                     "ibv_devices")
        self.assertEqual(opened.returncode, 0, opened.stderr)
        self.assertIn("uroce0", opened.stdout)

    def test_rpm_has_the_same_files(self):
        packages = [path for path in self.paths if path.endswith(".rpm")]
        if not packages:
            self.skipTest("rpmbuild is not installed")
        listed = run("rpm", "--query", "--list", "--package", packages[0])
        self.assertEqual(sorted(listed.stdout.split()),
                         sorted(f"/usr/{name}" for name in
                                (*contents.PROGRAMS, *contents.DOCUMENTS)), listed.stderr)

    def test_manual_knows_exactly_the_options_of_the_help(self):
        helps = [run(self.uroce, subcommand, "--help").stdout
                 for subcommand in ("run", "status", "check")]
        helps.append(run(os.path.join(self.unpacked, "bin/uroced"), "--help").stdout)
        options = set(re.findall(r"^  .*?(--[a-z-]+)", "\n".join(helps), re.MULTILINE))
        self.assertGreater(len(options), 12)
        explained = set()
        for page in ("man1/uroce.1", "man8/uroced.8"):
            with gzip.open(os.path.join(self.unpacked, f"share/man/{page}.gz"), "rt") as file:
                text = file.read().replace("\\-", "-")
            explained |= set(re.findall(r"^\.TP\n\\fB(--[a-z-]+)", text, re.MULTILINE))
        self.assertEqual(explained, options | {"--help"})

    def completions(self, *words):
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _uroce; '
                  'echo "${COMPREPLY[@]}"')
        completed = run("bash", "-c", script, "bash",
                        os.path.join(self.unpacked, "share/bash-completion/completions/uroce"),
                        *words)
        self.assertEqual(completed.stderr, "")
        return completed.stdout.split()

    def test_completion_completes(self):
        daemon = os.path.join(self.unpacked, "bin/uroced")
        self.assertEqual(self.completions(self.uroce, "st"), ["status"])
        self.assertEqual(self.completions(self.uroce, "run", "--f"), ["--fabric"])
        self.assertEqual(self.completions(self.uroce, "run", "--mode", "d"), ["dedicated"])
        self.assertIn("--", self.completions(self.uroce, "run", "--"))
        self.assertIn("true", self.completions(self.uroce, "run", "--", "tru"))
        self.assertEqual(self.completions(self.uroce, "status", "--"),
                         ["--explain", "--fabric", "--help", "--json"])
        self.assertEqual(self.completions(self.uroce, "check", "--"), ["--fabric", "--help"])
        self.assertIn("--users", self.completions(daemon, "--"))


class InstallTest(unittest.TestCase):

    def test_installed_programs_work_and_are_replaced(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as prefix:
            for _ in range(2):
                installed = run("/usr/bin/python3", "-B", os.path.join(PACKAGING, "package.py"),
                                "install", "--prefix", prefix, "--bazel-bin", BAZEL_BIN, cwd=ROOT)
                self.assertEqual(installed.returncode, 0, installed.stderr)
            opened = run(os.path.join(prefix, "bin/uroce"), "run", "--port", "net_null0", "--",
                         "ibv_devices")
            self.assertEqual(opened.returncode, 0, opened.stderr)
            self.assertIn("uroce0", opened.stdout)
            self.assertEqual(sorted(os.listdir(os.path.join(prefix, "bin"))), ["uroce", "uroced"])


class ScriptsTest(unittest.TestCase):

    def test_help_and_mistakes(self):
        for script in ("package", "install"):
            path = os.path.join(ROOT, "tools", script)
            helped = run(path, "--help")
            self.assertEqual(helped.returncode, 0, helped.stderr)
            self.assertIn(f"tools/{script}", helped.stdout)
            refused = run(path, "--nonsense")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("--nonsense", refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
