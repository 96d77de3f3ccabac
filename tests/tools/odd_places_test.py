#!/usr/bin/python3
"""Programs in places where something is missing: each works, or prints one sentence that says what
to do.

usage: odd_places_test.py PATH_OF_UROCE
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

UROCE = os.path.abspath(sys.argv[1])

# Two users who are not root.
USERS = (65534, 1234)
LIBRARIES = ("verbs_provider/virtual_kernel/liburoce-preload.so",
             "verbs_provider/liburoce-provider.so")

_fabrics = 0


def new_fabric():
    global _fabrics
    _fabrics += 1
    return f"odd-places-test-{os.getpid()}-{_fabrics}"


def environment():
    return {name: value for name, value in os.environ.items()
            if name not in ("LD_PRELOAD", "XDG_RUNTIME_DIR") and not name.startswith("UROCE_")}


class OddPlacesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        # Bazel's output may lie where an unprivileged user cannot go.
        cls.folder = tempfile.mkdtemp(prefix="uroce-odd-places-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.chmod(cls.folder, 0o755)
        root = os.path.dirname(os.path.dirname(UROCE))
        for file in ("tools/uroce", "tools/uroced", *LIBRARIES):
            target = os.path.join(cls.folder, file)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.join(root, file), target)
            os.chmod(target, 0o755)
        cls.uroce = os.path.join(cls.folder, "tools", "uroce")

    def run_command(self, *command, **variables):
        return subprocess.run(command, check=False, text=True, capture_output=True, cwd="/",
                              env={**environment(), **variables}, timeout=120)

    def run_on(self, fabric, *command, before=(), **variables):
        return self.run_command(*before, self.uroce, "run", "--fabric", fabric, "--", *command,
                                **variables)

    def check_device(self, run):
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("uroce0", run.stdout)

    def check_refused(self, run, *says):
        self.assertNotEqual(run.returncode, 0, run)
        for words in says:
            self.assertIn(words, run.stderr)
        self.assertNotIn("filesystem error", run.stderr)

    def need_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")

    def as_user(self, uid):
        return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")

    def test_few_files_may_be_open(self):
        for limit in range(3, 10):
            run = self.run_on(new_fabric(), "ibv_devinfo",
                              before=("sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"))
            if run.returncode == 0:
                self.check_device(run)
            elif "error while loading shared libraries" not in run.stderr:
                self.check_refused(run, "open files", "ulimit -n")

    def test_program_may_open_few_files(self):
        """The limit holds for the program alone, set after uroce has started it."""
        saw_sentence = False
        for limit in range(5, 16):
            run = self.run_on(new_fabric(), "sh", "-c", f"ulimit -n {limit}; exec ibv_devinfo")
            if "ulimit -n" in run.stderr:
                saw_sentence = True
            self.assertNotIn("does not answer", run.stderr)
            self.assertNotIn("no uroced serves", run.stderr)
        self.assertTrue(saw_sentence)

    def under_limit(self, limit, *command):
        """As a user who may not pass a hard limit."""
        user = self.as_user(USERS[0]) if os.geteuid() == 0 else ()
        return self.run_on(new_fabric(), *command,
                           before=(*user, "sh", "-c", f'{limit}; exec "$@"', "sh"))

    def test_soft_limit_on_the_length_of_files_does_not_count_for_memory(self):
        """A pair, too, as it has a link."""
        self.check_device(self.under_limit("ulimit -S -f 8", "ibv_devinfo"))
        pair = "ibv_rc_pingpong -g 0 & until ibv_rc_pingpong -g 0 127.0.0.1; do :; done; wait $!"
        run = self.under_limit("ulimit -S -f 8", "sh", "-c", pair)
        self.assertEqual(run.returncode, 0, run)
        self.assertNotIn("uroce", run.stderr)

    def test_hard_limit_on_the_length_of_files_is_a_sentence_and_no_signal(self):
        for limit in (0, 8):
            run = self.under_limit(f"ulimit -f {limit}", "ibv_rc_pingpong", "-g", "0")
            self.assertGreater(run.returncode, 0, run)
            self.check_refused(run, "ulimit -f")

    def test_limit_on_address_space(self):
        self.check_device(self.under_limit("ulimit -v 300000", "ibv_devinfo"))

    def test_no_memory_may_be_locked(self):
        self.check_device(self.under_limit("ulimit -l 0", "ibv_devinfo"))

    def in_mount_namespace(self, script, *command):
        self.need_root()
        return self.run_on(new_fabric(), *command, before=(
            "unshare", "-m", "sh", "-ec", f'{script}; exec "$@"', "sh"))

    def test_no_dev_null(self):
        script = "mount -t tmpfs none /dev; mkdir /dev/shm"
        self.check_device(self.in_mount_namespace(script, "ibv_devinfo"))

    def test_no_proc(self):
        self.check_device(self.in_mount_namespace("umount -l /proc", "ibv_devinfo"))

    def in_read_only_root(self, shm_option, user):
        """Runs a program in a read-only root file system with a tmpfs on /dev/shm."""
        script = (f"mount -t tmpfs -o {shm_option} none /dev/shm; mount --bind / /mnt; "
                  "mount -o remount,bind,ro /mnt; mount --rbind /dev /mnt/dev; "
                  "mount --rbind /proc /mnt/proc; "
                  f'set -- chroot --userspec={user}:{user} /mnt "$@"')
        return self.in_mount_namespace(script, "ibv_devinfo")

    def test_read_only_root(self):
        for user in (0, *USERS):
            self.check_device(self.in_read_only_root("mode=1777,size=1m", user))

    def test_nothing_can_be_written(self):
        for user in (0, *USERS):
            run = self.in_read_only_root("ro", user)
            self.assertEqual(run.returncode, 2, run)
            self.check_refused(run, "Read-only file system", "mount a tmpfs on /tmp")
            self.assertEqual(run.stderr.count("\n"), 1, run)

    def test_user_namespace(self):
        """The root of a user namespace is the user who made it."""
        self.need_root()
        for uid in USERS:
            for before, inside in (((), ("unshare", "-Ur")), (("unshare", "-Ur"), ())):
                run = self.run_on(new_fabric(), *inside, "ibv_devices",
                                  before=(*self.as_user(uid), *before))
                self.check_device(run)

    def test_root_of_a_user_namespace_takes_nothing_from_root(self):
        self.need_root()
        fabric = new_fabric()
        with self.daemon(fabric, *self.as_user(USERS[0]), "unshare", "-Ur"):
            # Root can use the same fabric name, and the users do not see each other's fabrics.
            with self.daemon(fabric):
                owners = set()
                for before in ((), self.as_user(USERS[0]), self.as_user(USERS[1])):
                    run = self.run_command(*before, self.uroce, "status", "--fabric", fabric,
                                           "--json")
                    owners.add(run.stdout.split('"pid":')[1].split(",")[0]
                               if run.returncode == 0 else run.stderr)
                self.assertEqual(len(owners), 3, owners)
                self.assertIn("--users", str(owners))

    def daemon(self, fabric, *before):
        test = self

        class Daemon:
            def __enter__(self):
                self.process = subprocess.Popen(
                    [*before, os.path.join(test.folder, "tools", "uroced"), "--fabric", fabric],
                    text=True, stderr=subprocess.PIPE, env=environment())
                line = self.process.stderr.readline()
                test.assertIn("is served", line)

            def __exit__(self, *_):
                self.process.terminate()
                self.process.communicate()
        return Daemon()

    def test_program_that_is_linked_statically(self):
        source = os.path.join(self.folder, "static.c")
        program = os.path.join(self.folder, "static")
        with open(source, "w", encoding="ascii") as file:
            file.write("int main(void) { return 7; }\n")
        subprocess.run(["gcc", "-static", "-o", program, source], check=True)
        run = self.run_on(new_fabric(), program)
        self.assertEqual(run.returncode, 7, run)
        self.assertRegex(run.stderr, r"\Auroce run: [^\n]* is linked statically[^\n]*\.\n\Z")
        self.assertIn("libibverbs", run.stderr)

    def test_program_of_another_user(self):
        """The loader preloads nothing into a program that is set-user-ID."""
        self.need_root()
        program = os.path.join(self.folder, "set-user-id")
        shutil.copy("/bin/true", program)
        os.chown(program, USERS[0], USERS[0])
        os.chmod(program, 0o4755)
        run = self.run_on(new_fabric(), program)
        self.assertEqual(run.returncode, 0, run)
        self.assertRegex(run.stderr, r"\Auroce run: [^\n]*set-user-ID[^\n]*\.\n")

    def test_program_that_never_loads_libibverbs(self):
        run = self.run_on(new_fabric(), "python3", "-c", "exit(3)")
        self.assertEqual(run.returncode, 3, run)
        self.assertRegex(run.stderr, r"\Auroce run: 'python3' [^\n]*libibverbs[^\n]*\.\n\Z")

    def test_programs_that_start_programs_or_load_libibverbs(self):
        for command in (("bash", "-c", "/bin/true; /bin/true; echo hello"),
                        ("bash", "-c", "ibv_devices; echo hello"),
                        ("env", "ibv_devices"),
                        ("python3", "-c", "import ctypes; ctypes.CDLL('libibverbs.so.1')")):
            run = self.run_on(new_fabric(), *command)
            self.assertEqual((run.returncode, run.stderr), (0, ""), run)

    def test_preload_that_a_program_overwrites(self):
        run = self.run_on(new_fabric(), "env", "LD_PRELOAD=libibverbs.so.1", "ibv_devices")
        self.check_device(run)

    def test_uroced_goes_on_when_its_log_is_not_read(self):
        """uroced goes on when the pipe that it writes to is full."""
        fabric = new_fabric()
        read_end, write_end = os.pipe()
        with subprocess.Popen([os.path.join(self.folder, "tools", "uroced"), "--fabric", fabric],
                              stderr=write_end, env=environment()) as daemon:
            try:
                os.read(read_end, 1)
                os.set_blocking(write_end, False)
                try:
                    while True:
                        os.write(write_end, b"x" * 4096)
                except BlockingIOError:
                    pass
                os.set_blocking(write_end, True)  # uroced shares the open file.
                for _ in range(30):
                    # uroced refuses this MTU and logs it each time.
                    run = self.run_on(fabric, "ibv_devinfo", UROCE_MTU="9601")
                    self.assertNotEqual(run.returncode, 0)
                self.check_device(self.run_on(fabric, "ibv_devices"))
            finally:
                daemon.terminate()
        os.close(read_end)
        os.close(write_end)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
