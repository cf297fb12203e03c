"""What a served process does about garbage, in a process of its own."""

import subprocess
import sys
from typing import Final

ENOUGH: Final = 2_000_000
"""Objects of a few thousand small requests."""

PROGRAM: Final = f"""
import gc
from app.startup import settle_memory

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


def test_garbage_that_grew_old_is_collected_however_much_start_up_left() -> None:
    told = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], capture_output=True, timeout=60, check=True
    )

    assert told.stdout.strip() == b"True"
