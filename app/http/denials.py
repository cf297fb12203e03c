"""Write refused requests to the audit log, one row a minute for each caller, address and reason (S1, S59).

A refusal costs a request nothing but a count: rows are written beside the requests, and at the end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from aiohttp import web
from prometheus_client import Counter

from app.http.endpoints import Call, Credential
from app.http.headers import has_bearer
from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.base import rfc3339
from schemas.enums import ActorType
from schemas.ids import PLATFORM, TenantId, derive_id, encode_id
from schemas.problems import KeyRefused, ProblemCode, StoreUnavailable
from streams.audit.commit import Commit, act
from streams.audit.rows import write_row
from streams.ports.errors import Conflict
from streams.runtime.outbox_relay import beside
from streams.sign_in.attempt_limits import network_of

EVERY_S: Final = 60.0
"""One row a minute says as much as a row for each refusal, and a flood of them cannot fill the log."""

MOST_OF_A_TENANT: Final = 100
"""Callers, addresses and reasons of one tenant with rows of their own in a minute; the others share one."""

MOST_TENANTS: Final = 1_000
"""Tenants with rows of their own in a minute; refusals of the others are counted in one of the platform."""

MOST_WAITING: Final = 1_000
"""Rows that wait for a store that is away, some 2 MB; the oldest are dropped and counted."""

MOST_ROUTES: Final = 10
"""Routes named in a row."""

_ALWAYS: Final = frozenset(
    {
        ProblemCode.PERMISSION_DENIED,
        ProblemCode.API_KEY_NOT_ALLOWED,
        ProblemCode.MFA_REQUIRED,
        ProblemCode.ORIGIN_REFUSED,
    }
)
"""Refusals of what a known caller may not do."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veristream.http")


@dataclass(frozen=True, slots=True)
class _Who:
    """The key under which refusals are counted."""

    actor_type: ActorType
    actor_id: str | None
    network: str | None
    code: ProblemCode
    livemode: bool


@dataclass(slots=True)
class _Minute:
    """The refusals under one key since the last write."""

    first_at: datetime
    last_at: datetime
    request_id: str
    count: int = 0
    routes: set[str] = field(default_factory=set)


_OTHERS: Final = _Who(ActorType.SYSTEM, None, None, ProblemCode.PERMISSION_DENIED, livemode=True)
"""All callers beyond the limit, which share a row."""


@dataclass(slots=True)
class Denials:
    """Counts refusals and writes them down; a store that is away is waited for, with bounded memory."""

    commit: Commit
    clock: Callable[[], datetime]
    fresh_uuid: Callable[[], UUID]
    lost: Counter
    """Refusals that were never written, because the store was away for too long or at the end."""
    every_s: float = EVERY_S
    most_waiting: int = MOST_WAITING
    _counted: dict[TenantId, dict[_Who, _Minute]] = field(default_factory=dict)
    _unwritten: list[tuple[TenantId, AuditEvent]] = field(default_factory=list)

    def note(self, call: Call, error: Exception, code: ProblemCode) -> None:
        """Count a refusal for lack of rights (S1); never fails, never waits."""
        whose = _whose(call, error, code)
        if whose is None:
            return
        tenant_id, actor = whose
        livemode = error.livemode if isinstance(error, KeyRefused) else _mode_of(call)
        who = _Who(actor.actor_type, actor.actor_id, network_of(call.address), code, livemode)
        now = self.clock()
        minute = self._minute(tenant_id, who, _Minute(now, now, call.request_id))
        minute.count += 1
        minute.last_at = now
        if call.endpoint is not None and len(minute.routes) < MOST_ROUTES:
            minute.routes.add(f"{call.endpoint.method} {call.endpoint.path}")

    def _minute(self, tenant_id: TenantId, who: _Who, fresh: _Minute) -> _Minute:
        if tenant_id not in self._counted and len(self._counted) >= MOST_TENANTS:
            tenant_id, who = PLATFORM, _OTHERS
        counted = self._counted.setdefault(tenant_id, {})
        if who not in counted and len(counted) >= MOST_OF_A_TENANT:
            who = _OTHERS
        return counted.setdefault(who, fresh)

    async def flush(self) -> None:
        """Write the counted refusals; those the store does not take are retried, up to a bound."""
        counted, self._counted = self._counted, {}
        for tenant_id, minutes in counted.items():
            for who, minute in minutes.items():
                self._unwritten.append((tenant_id, self._row(who, minute)))
        while self._unwritten:
            tenant_id, row = self._unwritten[0]
            try:
                await self.commit(act(tenant_id, row))
            except (StoreUnavailable, Conflict):
                self._forget(self.most_waiting)
                _log.warning("denials.write_failed", rows=len(self._unwritten))
                return
            self._unwritten.pop(0)

    def _forget(self, most: int) -> None:
        """Drop the oldest rows beyond `most`, and count what they counted."""
        dropped = self._unwritten[: max(0, len(self._unwritten) - most)]
        self._unwritten = self._unwritten[len(dropped) :]
        self.lost.inc(sum(row.context["changes"]["count"] for _, row in dropped))

    def _row(self, who: _Who, minute: _Minute) -> AuditEvent:
        actor = Actor(
            actor_type=who.actor_type, actor_id=who.actor_id, request_id=minute.request_id, ip=who.network
        )
        others = " of callers that are not told apart" if who == _OTHERS else f" with {who.code}"
        return write_row(
            derive_id("aud", encode_id("den", self.fresh_uuid())),
            AuditAction.ACCESS_DENIED,
            actor,
            who.actor_id or "front",
            minute.last_at,
            detail=f"Requests{others} were refused: {minute.count}.",
            changes={
                "code": who.code,
                "count": minute.count,
                "routes": sorted(minute.routes),
                "from": rfc3339(minute.first_at),
                "to": rfc3339(minute.last_at),
            },
            livemode=who.livemode,
        )

    async def running(self, _: web.Application) -> AsyncIterator[None]:
        """Write every minute while the application runs, and once more at its end; for `cleanup_ctx`."""

        async def work() -> None:
            while True:
                await asyncio.sleep(self.every_s)
                await self.flush()

        async with beside(work, "denials", self.every_s):
            yield
        await self.flush()
        self._forget(0)


def _whose(call: Call, error: Exception, code: ProblemCode) -> tuple[TenantId, Actor] | None:
    """Return the tenant of the audit row and the refused caller; None when there is no tenant.

    A 404 counts where an id was asked for, for it may be another tenant's (S1). A credential that nobody
    knows is nobody's act: those are throttled and logged by their address.
    """
    if isinstance(error, KeyRefused):
        return error.tenant_id, Actor(actor_type=ActorType.API_KEY, actor_id=error.key_id)
    endpoint = call.endpoint
    if endpoint is None:
        return None
    if code is ProblemCode.UNAUTHENTICATED:
        is_operators = Credential.OPERATOR_TOKEN in endpoint.access.accepts and has_bearer(call.request)
        return (PLATFORM, Actor(actor_type=ActorType.SYSTEM)) if is_operators else None
    asked_for_id = code is ProblemCode.NOT_FOUND and bool(endpoint.path_forms)
    caller = call.tenant or call.reviewer or call.capture
    if caller is None or not (asked_for_id or code in _ALWAYS):
        return None
    return caller.tenant_id, call.actor


DENIALS: Final = web.AppKey("denials", Denials)
"""Where an application keeps what counts its refusals."""


def _mode_of(call: Call) -> bool:
    return call.tenant.livemode if call.tenant is not None else True
