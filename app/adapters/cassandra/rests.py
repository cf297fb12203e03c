"""Rests between the steps of a removal."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

REST: Final = 4
"""Pause after a step, in multiples of what it took: a removal is under way a fifth of the time at most."""


@asynccontextmanager
async def resting() -> AsyncIterator[None]:
    """Carry out a step, and leave the cluster to others for a multiple of what it took."""
    begun = time.monotonic()
    yield
    await asyncio.sleep((time.monotonic() - begun) * REST)
