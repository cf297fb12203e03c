"""Cache of the rate limits tenants chose (R14)."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from app.configuration.front import RateLimits
from app.http.rate_limits import NONE_OF_ITS_OWN
from schemas.ids import TenantId
from schemas.problems import StoreUnavailable
from schemas.tenant_settings import TenantRateLimits
from streams.ports.records import Records
from streams.tenants.settings import read_settings

log = structlog.get_logger(__name__)

FRESH_S: Final = 1.0
"""How long limits are used before they are read again: as late as a front hears of what another admitted."""

MOST_TENANTS: Final = 10_000
"""Tenants remembered; the one asked about longest ago is forgotten first, and read again."""


@dataclass(slots=True)
class _Known:
    read_at: float
    """Monotonic, seconds."""
    quotas: Mapping[str, int]


@dataclass(slots=True)
class TenantLimits:
    """Cache of tenants' limits; a change applies here at once and on other fronts within `FRESH_S`."""

    records: Records
    ceilings: RateLimits | None
    """The deployment's; a tenant's own are never above them. None: nothing is counted."""
    now: Callable[[], float] = time.monotonic
    _known: OrderedDict[TenantId, _Known] = field(default_factory=OrderedDict)

    async def of(self, tenant_id: TenantId) -> Mapping[str, int]:
        """Return the quotas a tenant chose, by name of the limit; without the store those read last."""
        known, now = self._known.get(tenant_id), self.now()
        if known is not None:
            if now - known.read_at < FRESH_S:
                return known.quotas
            known.read_at = now  # requests that come meanwhile do not read as well
        try:
            chosen = (await read_settings(self.records, tenant_id)).rate_limits
        except StoreUnavailable:
            log.warning("rate_limits.settings_read_failed", tenant_id=tenant_id)
            return known.quotas if known is not None else NONE_OF_ITS_OWN
        changed = self._known.get(tenant_id)
        if changed is not None and changed is not known:  # while this was read, and so it is newer
            return changed.quotas
        self.remember(tenant_id, chosen)
        return self._known[tenant_id].quotas

    def remember(self, tenant_id: TenantId, chosen: TenantRateLimits) -> None:
        """Use what a tenant chose from now on."""
        self._known[tenant_id] = _Known(self.now(), self.effective(chosen, all_of_them=False))
        self._known.move_to_end(tenant_id)
        if len(self._known) > MOST_TENANTS:
            self._known.popitem(last=False)

    def effective(self, chosen: TenantRateLimits, *, all_of_them: bool = True) -> dict[str, int]:
        """Return the limits that hold for a tenant; else only those that it chose."""
        if self.ceilings is None:
            return {}
        most: dict[str, int] = self.ceilings.model_dump()
        own: dict[str, int | None] = chosen.model_dump()
        return {
            name: min(value or most[name], most[name])
            for name, value in own.items()
            if all_of_them or value is not None
        }
