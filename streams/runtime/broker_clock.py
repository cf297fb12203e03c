"""The time by the broker's clock, derived from the last record the broker accepted."""

import time
from collections.abc import Callable
from typing import Final

KNOWN_FOR_S: Final = 600.0
"""After so long without a record the time is asked for anew: two clocks drift apart by some 0.1 s a day."""

JUMP_S: Final = 1.0
"""By so much the wall clock and the steady one may differ since; more, and this machine slept or was set."""


class BrokerClock:
    """Extrapolate the broker's time from the last accepted record, by this machine's monotonic clock.

    This machine's own date does not matter: fronts and workers whose clocks differ by hours agree.
    """

    def __init__(
        self, steady: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._steady = steady
        self._wall = wall
        self._set: tuple[int, float, float] | None = None

    def set(self, appended_ms: int) -> None:
        """Note that the broker took a record just now, at this time by its clock."""
        self._set = appended_ms, self._steady(), self._wall()

    def now_ms(self) -> int | None:
        """Return the time in milliseconds since 1970; None when it has to be asked for."""
        if self._set is None:
            return None
        appended_ms, steady, wall = self._set
        passed_s = self._steady() - steady
        if passed_s > KNOWN_FOR_S or abs(self._wall() - wall - passed_s) > JUMP_S:
            return None
        return appended_ms + int(passed_s * 1000)
