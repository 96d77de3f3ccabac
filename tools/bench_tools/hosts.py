"""Hosts on one machine: network namespaces, and in each a user without any capability who runs a
copy of uroce."""

import os
import shutil
import subprocess
import tempfile

# Bazel's output may lie where an unprivileged user cannot go.
FILES = ("tools/uroce", "tools/uroced", "verbs_provider/liburoce-provider.so",
         "verbs_provider/virtual_kernel/liburoce-preload.so")
USER = 65534


class Hosts:
    """Hosts by name, for a `with` block. A namespace lives as long as the process that holds it,
    which ends with its standard input: nothing is left behind however the bench ends."""

    def __init__(self, bin_folder, names):
        self.bin = bin_folder
        self._names = names
        self._folder = None
        self._namespaces = {}

    def __enter__(self):
        self._folder = tempfile.mkdtemp(prefix="uroce-bench-", dir="/tmp")
        for file in FILES:
            target = os.path.join(self._folder, file)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.join(self.bin, file), target)
        subprocess.run(["chmod", "-R", "a+rX,u+w", self._folder], check=True)
        for name in self._names:
            namespace = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && cat"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._namespaces[name] = namespace
            namespace.stdout.readline()
        return self

    def __exit__(self, *_):
        for namespace in self._namespaces.values():
            namespace.communicate()
        shutil.rmtree(self._folder)

    def pid(self, name):
        """The process that holds the host's namespace."""
        return self._namespaces[name].pid

    def inside(self, name):
        """The words in front of a command that make it run on that host."""
        return ["nsenter", f"--net=/proc/{self.pid(name)}/ns/net"]

    def ip(self, name, command):
        subprocess.run([*self.inside(name), "ip", *command.split()], check=True)

    def uroce_run(self, name, *options):
        """`uroce run` of that host's user."""
        return [*self.inside(name), "setpriv", f"--reuid={USER}", f"--regid={USER}",
                "--clear-groups", "--no-new-privs", "env", "-u", "XDG_RUNTIME_DIR",
                os.path.join(self._folder, "tools/uroce"), "run", *options, "--"]

    def uroce_run_as_root(self, name, *options):
        """The same, for ports that need capabilities."""
        return [*self.inside(name), os.path.join(self.bin, "tools/uroce"), "run", *options, "--"]
