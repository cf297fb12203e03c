"""The clock of the store, so that nothing depends on the clocks of the processes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.adapters.cassandra.session import Session, Statement

ASKED_EVERY_S: Final = 30.0
"""How long an answer is gone on from, by ticks that no setting of a clock touches; they drift by a few
milliseconds in that time."""

ROUGH_S: Final = 0.25
"""An answer that took longer is asked for again each time."""

_NOW: Final = Statement("SELECT toUnixTimestamp(now()) FROM system.local")

_TICKING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The former goes on while a machine sleeps."""


def ticks() -> float:
    """Return seconds that only ever pass."""
    return time.clock_gettime(_TICKING)


@dataclass(frozen=True, slots=True)
class Reading:
    """The time at the store."""

    micros: int
    """Since 1970; never later than it is."""
    doubt_s: float
    """How much later it may be."""


class StoreClock:
    """Reads the store's clock from time to time, and counts from its answer."""

    def __init__(self, session: Session, ticks: Callable[[], float] = ticks) -> None:
        self._session = session
        self.ticks = ticks
        self._asked = float("-inf")
        self._known = Reading(0, 0.0)

    async def read(self) -> Reading:
        """Return the time.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        if self.ticks() - self._asked > ASKED_EVERY_S or self._known.doubt_s > ROUGH_S:
            await self._ask()
        since = self.ticks() - self._asked
        return Reading(self._known.micros + int(since * 1_000_000), self._known.doubt_s)

    async def _ask(self) -> None:
        begun = self.ticks()
        ((millis,),) = await self._session.execute(_NOW)
        asked = self.ticks()
        self._known, self._asked = Reading(millis * 1_000, asked - begun + 0.001), asked
