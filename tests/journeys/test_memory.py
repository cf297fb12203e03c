"""What a served process does about garbage and freed memory, in a process of its own."""

import platform
import subprocess
import sys
from typing import Final

import pytest

ENOUGH: Final = 2_000_000
"""Objects of a few thousand small requests."""

KNOTS: Final = f"""
import gc
from app.process.startup import settle_memory

def full_collections():
    return gc.get_stats()[2]["collections"]

class Knot:
    pass

start_up = [[number] for number in range(400_000)]
settle_memory()
before, made, alive = full_collections(), 0, []
while full_collections() == before and made < {ENOUGH}:
    knot = Knot()
    knot.itself = knot
    alive.append(knot)
    made += 1
    if len(alive) == 50_000:
        alive.clear()
print(full_collections() > before)
"""

STARTED: Final = """
import gc, sys
from app.__main__ import main
from app.process.startup import COLLECT_AFTER, settle_memory

sys.argv[1:] = ["--help"]
try:
    main()
except SystemExit:
    before = gc.get_stats()[2]["collections"]
import app.composition.front, app.composition.worker
print(gc.get_stats()[2]["collections"] == before)
settle_memory()
print(gc.get_threshold() == COLLECT_AFTER)
"""

RESIDENT: Final = """
import psutil
from app.process.startup import settle_memory

def resident():
    return psutil.Process().memory_info().rss
"""

FREED_BEFORE: Final = f"""{RESIDENT}
blocks = [b"x" * 100_000 for _ in range(2_000)]
full = resident()
del blocks[:-1]
settle_memory()
print(full - resident() > 150_000_000)
"""

FREED_LATER: Final = f"""{RESIDENT}
passing = b"x" * 30_000_000
del passing
settle_memory()
before = resident()
pairs = [(b"x" * 1_000_000, b"y" * 2_000) for _ in range(100)]
small = [kept for _, kept in pairs]
del pairs
print(resident() - before < 20_000_000)
"""

RECEIVED: Final = """
import resource, socket
from app.process.startup import settle_memory

ours, theirs = socket.socketpair()
settle_memory()

def faults_of_receiving(messages):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(messages):
        ours.send(b"x" * 300)
        theirs.recv(256 * 1024)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults_of_receiving(10)
print(faults_of_receiving(1_000) < 100)
"""
"""asyncio receives into blocks of that size; each page fault is memory the system has given anew."""


def output_of(program: str) -> str:
    """Run a program and return what it printed."""
    ran = subprocess.run(  # noqa: S603 - our own programs
        [sys.executable, "-c", program], capture_output=True, timeout=600, check=True, text=True
    )
    return ran.stdout.strip()


def test_garbage_that_grew_old_is_collected_however_much_start_up_left() -> None:
    assert output_of(KNOTS) == "True"


def test_what_imports_made_is_not_looked_through_before_a_role_is_ready() -> None:
    assert output_of(STARTED).splitlines()[-2:] == ["True", "True"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what was freed")
@pytest.mark.parametrize(
    "program", [FREED_BEFORE, FREED_LATER], ids=["at the start", "in large blocks later"]
)
def test_what_was_freed_is_given_back_to_the_system(program: str) -> None:
    assert output_of(program) == "True"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these limits")
def test_receiving_a_small_message_asks_the_system_for_no_memory() -> None:
    assert output_of(RECEIVED) == "True"
