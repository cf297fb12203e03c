"""What a vision child cannot do, tried from inside a real one's confinement (S42)."""

import subprocess
import sys

import pytest

ATTEMPTS = {
    "open a file": "open('/etc/hostname')",
    "write a file": "os.open('/tmp/x', os.O_CREAT | os.O_WRONLY)",
    "make a socket": "socket.socket()",
    "run a program": "os.execv('/bin/true', ['true'])",
    "fork": "os.fork()",
    "signal its parent": "os.kill(os.getppid(), 0)",
    "raise its parent's limits": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
    "take more memory than it may": "bytearray(400 * 2**20)",
    "list the data folder": "os.listdir('/')",
}
PROGRAM = """
import os, resource, socket
from app.vision import sandbox
parent = os.getpid()
pid = os.fork()
if pid:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
sandbox.enter(parent)
try:
    {attempt}
except (OSError, MemoryError):
    os._exit(7)
os._exit(1)
"""


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_s42_a_child_cannot(attempt: str) -> None:
    program = PROGRAM.format(attempt=ATTEMPTS[attempt])
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)  # noqa: S603 - our interpreter

    assert done.returncode == 7


def test_s42_a_child_without_confinement_could() -> None:
    """What the attempts need is there: the same program without `sandbox.enter` opens its file."""
    program = PROGRAM.replace("sandbox.enter(parent)", "").format(attempt=ATTEMPTS["open a file"])
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)  # noqa: S603 - our interpreter

    assert done.returncode == 1
