"""Count refused credentials by network address; over a limit the answer is 429.

A good credential is never refused here, for many callers may share one address.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import structlog

from app.http.rate_limits import WINDOW_S
from streams.sign_in.attempt_limits import network_of

MAX_ADDRESSES: Final = 20_000
"""Addresses remembered at one time, about 5 MB; the one whose minute began first is forgotten first."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veristream.http")


@dataclass(slots=True)
class _Minute:
    opened_s: float
    count: int = 0
    unlogged: int = 0


class Rejections:
    """Remembers for a minute how many credentials of an address were refused."""

    def __init__(self, max_addresses: int = MAX_ADDRESSES) -> None:
        self._minutes: OrderedDict[str, _Minute] = OrderedDict()
        self._max_addresses = max_addresses

    def count(self, address: str | None, most: int, now: float) -> int | None:
        """Count a refused credential; return the seconds to wait when there were too many.

        The first of a minute is logged at once, the others in one line when the minute is over and any
        credential is refused again; exceeding the limit is logged too. `now` is monotonic, in seconds.
        """
        network = network_of(address)
        self._forget(now)
        minute = self._minutes.get(network)
        if minute is None:
            minute = self._minutes[network] = _Minute(now)
            self._log(network, 1)
        else:
            minute.unlogged += 1
        minute.count += 1
        if minute.count <= most:
            return None
        if minute.count == most + 1:
            _log.warning("auth.throttled", address=network, limit=most)
        return max(1, math.ceil(minute.opened_s + WINDOW_S - now))

    def _forget(self, now: float) -> None:
        """Forget minutes that are over, and the oldest when there are too many; log what was not logged."""
        while self._minutes:
            network, oldest = next(iter(self._minutes.items()))
            if now - oldest.opened_s < WINDOW_S and len(self._minutes) < self._max_addresses:
                return
            del self._minutes[network]
            if oldest.unlogged:
                self._log(network, oldest.unlogged)

    def _log(self, network: str, count: int) -> None:
        _log.warning("auth.rejected", address=network, count=count)
