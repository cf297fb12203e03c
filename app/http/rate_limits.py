"""How often a key may ask (G62): a fixed window per key and limit, opened by its first request."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from pydantic import Field, ValidationError

from schemas.base import Frozen

WINDOW_S: Final = 60
"""G62 counts per minute."""

MAX_TRACKED: Final = 20_000
"""Windows remembered at one time; the one opened longest ago is forgotten first."""


class RateLimits(Frozen):
    """Requests per minute and key, but for `sign_in` and `rejected`."""

    key: int = Field(default=300, ge=1)
    """Every route together."""
    verifications: int = Field(default=60, ge=1)
    """`POST /v1/verifications` alone."""
    capture: int = Field(default=60, ge=1)
    """Per client token (G62)."""
    sign_in: int = Field(default=10, ge=1)
    """Sign-ins in 15 minutes: all of an address, and failed ones of an account; kept in the store (G96)."""
    rejected: int = Field(default=100, ge=1)
    """Refused credentials per minute and address; over it their answer is 429 instead of 401."""


def parse_rate_limits(setting: str) -> RateLimits | None:
    """Read the setting: `on`, `off` (None), or the numbers as a JSON object.

    Raises:
        ValueError: It is none of these.
    """
    match setting.strip().lower():
        case "on" | "":
            return RateLimits()
        case "off":
            return None
    try:
        return RateLimits.model_validate_json(setting)
    except ValidationError as error:
        complaints = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ValueError(f"neither on, off nor a JSON object of limits: {complaints}") from None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a caller stands with one limit after this request."""

    name: str
    quota: int
    remaining: int
    resets_in_s: int
    """Whole seconds until the window ends, rounded up."""
    exceeded: bool


class RateLimiter:
    """Counts requests; knows nothing of tenants beyond the keys it is given."""

    def __init__(self, max_tracked: int = MAX_TRACKED) -> None:
        self._windows: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()
        self._max_tracked = max_tracked

    def count(self, name: str, key: str, quota: int, now: float) -> Standing:
        """Count one request of a key at a monotonic time in seconds, and tell how it stands."""
        opened, used = self._windows.get((name, key), (now, 0))
        if now - opened >= WINDOW_S:
            del self._windows[name, key]
            opened, used = now, 0
        used += 1
        self._windows[name, key] = opened, used
        if len(self._windows) > self._max_tracked:
            self._windows.popitem(last=False)
        resets_in_s = max(1, math.ceil(opened + WINDOW_S - now))
        return Standing(name, quota, max(0, quota - used), resets_in_s, exceeded=used > quota)


def headers_of(standings: list[Standing]) -> dict[str, str]:
    """Return `RateLimit-Policy` and `RateLimit` for all limits that were counted (IETF ratelimit-headers)."""
    return {
        "RateLimit-Policy": ", ".join(f'"{s.name}";q={s.quota};w={WINDOW_S}' for s in standings),
        "RateLimit": ", ".join(f'"{s.name}";r={s.remaining};t={s.resets_in_s}' for s in standings),
    }
