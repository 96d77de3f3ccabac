"""How pytest tests a program that uses RDMA: each test has a fabric of its own.

    pytest tools/ci/test_rdma.py
"""

import os
import subprocess
import uuid

import pytest


@pytest.fixture
def uroce_run():
    """Starts a command with an RDMA device; all commands of a test reach each other."""
    fabric = f"test-{uuid.uuid4().hex[:12]}"
    started = []

    def start(*command):
        program = subprocess.Popen(
            [os.environ.get("UROCE", "uroce"), "run", "--fabric", fabric, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(program)
        return program

    yield start
    for program in started:
        program.kill()
        program.wait()


def test_there_is_a_device(uroce_run):
    output, _ = uroce_run("ibv_devices").communicate(timeout=60)
    assert "uroce0" in output
