"""A copy of uroce and of the test programs that every user can read."""

import atexit
import os
import shutil
import sys
import tempfile

UROCE = "tools/uroce"
UROCED = "tools/uroced"
LIBRARIES = (
    "verbs_provider/virtual_kernel/liburoce-preload.so",
    "verbs_provider/liburoce-provider.so",
    "dpdk_nic/port/dpdk/liburoce-dpdk.so",
)
MOVER = "tests/system/mover/mover"
AGENT = "tests/system/agent/agent"
THREAD_PAIRS = "tools/bench_tools/thread_pairs"
MESH = "tests/system/mesh/mesh"
CHURN = "tests/system/churn/churn"
PLACEMENT = "tests/system/placement/placement"
MPI_EXCHANGE = {library: f"tests/system/mpi/exchange.{library}" for library in ("openmpi", "mpich")}


class Installation:
    """Bazel's output may lie where an unprivileged user cannot go, so it is copied.

    The files are looked for below the current directory: Bazel's runfiles, or bazel-bin. `more` are
    further programs, which only some tests need.
    """

    def __init__(self, more=()):
        # Not $TMPDIR: other users may have no access to it.
        self.folder = tempfile.mkdtemp(prefix="uroce-system-test-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        atexit.register(self.remove)
        for file in (UROCE, UROCED, *LIBRARIES, MOVER, AGENT, MESH, *more):
            if not os.path.exists(file):
                sys.exit(f"{file} is missing here: start this with 'bazel test', or in bazel-bin")
            self._copy(file)
        # Where programs of any user may leave files.
        self.scratch = os.path.join(self.folder, "scratch")
        os.mkdir(self.scratch)
        os.chmod(self.scratch, 0o1777)

    def _copy(self, file):
        target = os.path.join(self.folder, file)
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        shutil.copy(file, target)
        while folder != self.folder:
            os.chmod(folder, 0o755)
            folder = os.path.dirname(folder)
        os.chmod(target, 0o755)

    def path(self, file):
        return os.path.join(self.folder, file)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
