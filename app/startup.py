"""What a start can be refused for, and the waiting for the end."""

import asyncio
import signal
from typing import Final

READY_S: Final = 60.0
"""A start that takes longer has failed."""


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
