"""Count requests per key and tenant in fixed windows, opened by their first request (G62, S61).

Fronts of one deployment share what they admitted (`app/http/rate_limit_sharing.py`); every
request is counted here, in this process, without waiting for anybody.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from app.configuration.front import RateLimits

WINDOW_S: Final = 60
"""G62 counts per minute."""

MAX_TRACKED: Final = 20_000
"""Windows remembered at one time; the one opened longest ago is forgotten first."""


MAX_DEBT: Final = 16
"""Quotas one window can have used: 16 fronts, which is as many as there may be, that had not heard of one
another. No forged or mistaken count shuts a caller out for longer."""

LIVE_AND_TEST_APART: Final = "/test"
"""Put after a tenant's id for its test keys: a test that runs wild leaves the live keys their limit (G46)."""


class Standing(NamedTuple):
    """The state of one limit of a caller after this request."""

    name: str
    quota: int
    remaining: int
    resets_in_s: int
    """Whole seconds until the window ends, rounded up."""
    exceeded: bool


Counted = tuple[str, str]
"""The name of a limit, and whom it counts: a key, a tenant, a session."""

NONE_OF_ITS_OWN: Final[Mapping[str, int]] = MappingProxyType({})
"""The quotas of a tenant that chose none."""


@dataclass(slots=True)
class _Window:
    opened: float
    """Monotonic, seconds."""
    quota: int
    """As it was when it was last counted: a tenant may have chosen a lower one than the deployment's."""
    used: int = 0
    """Admitted since then, by every front that was heard of, and what an earlier window had too much."""
    unshared: int = 0
    """Admitted here and not yet sent to the other fronts."""

    def limit_to(self, quota: int) -> None:
        """Take another quota at once; what was admitted under a higher one uses up this window only."""
        if quota != self.quota:
            self.quota, self.used = quota, min(self.used, quota)

    def roll(self, now: float) -> None:
        """Open the window that `now` falls into; what was admitted over the quota is taken off the next."""
        windows = int((now - self.opened) // WINDOW_S)
        if windows > 0:
            self.used = max(0, self.used - windows * self.quota)
            self.opened = self.opened + windows * WINDOW_S if self.used else now


class RateLimiter:
    """Counts admitted requests by the names it is given.

    A request counts only if it is admitted. Alone, it admits exactly the quota in a window. Of several
    fronts each admits the quota less what it has heard of the others, so that they admit too much only
    until they hear of one another; that much is taken off the windows that follow.
    """

    def __init__(self, limits: RateLimits | None = None, max_tracked: int = MAX_TRACKED) -> None:
        self._quotas: dict[str, int] = (limits or RateLimits()).model_dump()
        self._windows: OrderedDict[Counted, _Window] = OrderedDict()
        self._unshared: set[Counted] = set()
        self._max_tracked = max_tracked

    def count(
        self, asked: Iterable[Counted], now: float, quotas: Mapping[str, int] = NONE_OF_ITS_OWN
    ) -> list[Standing]:
        """Count one request against several limits at a monotonic time in seconds; return their states.

        It is admitted, and counted, when none is exceeded. `quotas` stand before the deployment's, by name.
        """
        windows, admitted = [], True
        for counted in asked:
            window = self._window(counted, now)
            window.limit_to(quotas.get(counted[0]) or self._quotas[counted[0]])
            windows.append((counted, window))
            admitted = admitted and window.used < window.quota
        if admitted:
            for counted, window in windows:
                window.used += 1
                window.unshared += 1
                self._unshared.add(counted)
        return [_stand(name, window, now, admitted) for (name, _), window in windows]

    def hear(self, admitted: Mapping[Counted, int], now: float) -> None:
        """Add what another front admitted; limits this front does not have are passed over."""
        for counted, many in admitted.items():
            if counted[0] in self._quotas:
                window = self._window(counted, now)
                window.used = min(window.used + many, window.quota * MAX_DEBT)

    def take_unshared(self) -> dict[Counted, int]:
        """Return the counts since the last call, for the other fronts."""
        taken: dict[Counted, int] = {}
        for counted in self._unshared:
            window = self._windows.get(counted)
            if window is not None:
                taken[counted], window.unshared = window.unshared, 0
        self._unshared.clear()
        return taken

    def _window(self, counted: Counted, now: float) -> _Window:
        window = self._windows.get(counted)
        if window is None:
            window = self._windows[counted] = _Window(now, self._quotas[counted[0]])
            if len(self._windows) > self._max_tracked:
                self._windows.popitem(last=False)
        elif now - window.opened >= WINDOW_S:
            window.roll(now)
            self._windows.move_to_end(counted)
        return window


def _stand(name: str, window: _Window, now: float, admitted: bool) -> Standing:  # noqa: FBT001
    used, quota = window.used, window.quota
    exceeded = not admitted and used >= quota
    ends_in_s = (used // quota if exceeded else 1) * WINDOW_S - (now - window.opened)
    return Standing(name, quota, max(0, quota - used), max(1, math.ceil(ends_in_s)), exceeded)


def headers_of(standings: list[Standing]) -> dict[str, str]:
    """Return `RateLimit-Policy` and `RateLimit` for all limits that were counted (IETF ratelimit-headers)."""
    return {
        "RateLimit-Policy": ", ".join(f'"{s.name}";q={s.quota};w={WINDOW_S}' for s in standings),
        "RateLimit": ", ".join(f'"{s.name}";r={s.remaining};t={s.resets_in_s}' for s in standings),
    }
