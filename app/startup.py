"""What a start can be refused for, what follows it, and the waiting for the end."""

import asyncio
import ctypes
import gc
import signal
from contextlib import suppress
from typing import Final

READY_S: Final = 60.0
"""A start that takes longer has failed."""

COLLECT_AFTER: Final = (20_000, 5, 5)
"""Allocations before the collector looks at the youngest objects, and how seldom at older ones.

Once all that start-up made is set aside, the old ones are few and looking at them is cheap; seldom, it let
garbage lie for 25 minutes of a full load.
"""

LARGE_BYTES: Final = 256 * 1024
"""Blocks from this size on are the system's as soon as they are freed.

glibc would raise its limit up to 32 MiB with every larger block that is freed, and tables that are made anew
as they fill would then leave holes in the heap that nothing fits into.
"""

_M_MMAP_THRESHOLD: Final = -3
"""The name of that limit in glibc's malloc.h; mallopt(3)."""


class CannotStart(Exception):
    """A part cannot start; the message names the mend."""


async def until_told_to_stop() -> None:
    """Return at the first SIGTERM or SIGINT; a second one ends the process the hard way."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)


def settle_memory() -> None:
    """Set aside what start-up made, so that the collector no longer walks it, and give back what it freed.

    Libraries and models leave several hundred thousand objects that live as long as the process;
    walking them took about a quarter of the time of a small request. Trying the models out frees several
    hundred megabytes, which glibc would keep for as long as something lies behind them.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # it looks again at a quarter more than it found last: now that is little
    gc.set_threshold(*COLLECT_AFTER)
    with suppress(OSError, AttributeError):  # a C library other than glibc has neither
        c_library = ctypes.CDLL(None)
        c_library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        c_library.malloc_trim(0)
