"""`/v1/audit/chain`: whether a tenant's audit log is still what was written (G21)."""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.endpoints import Access, Answer, Call, Credential, Endpoint
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.audit import PATH as AUDIT
from schemas.base import Frozen
from schemas.enums import Scope
from schemas.ids import AuditEventId
from schemas.people import Permission
from schemas.problems import Overloaded
from streams.audit.handler import ChainReport, verify_chain
from streams.audit.rules import ChainFault

PATH: Final = f"{AUDIT}/chain"

LONGEST_S: Final = 50.0
"""Waiting for other walks included; a chain that takes longer is verified by `veristream audit verify`."""

RETRY_AFTER_S: Final = 60


class ChainCheck(Frozen):
    """The result of a walk along the chain; live and test rows are in one chain."""

    intact: bool
    rows: int
    """Sealed rows found good before the walk ended."""
    waiting: int
    """Rows that are not sealed yet, which is nothing bad."""
    fault: ChainFault | None
    position: int | None
    """The first bad place in the chain."""
    event_id: AuditEventId | None
    """The first bad row, unless it is gone."""
    head: str | None
    """`tenant:position:hash` of the last good link. Stored elsewhere, it proves later that nothing up to it
    was removed (`veristream audit verify --expect`)."""


@dataclass(frozen=True, slots=True)
class AuditChainRoutes:
    """What the route of the chain does."""

    ports: FrontPorts
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One walk at a time, for each reads a whole log."""

    async def verify(self, call: Call) -> web.Response:
        """Walk the chain of the caller's tenant."""
        try:
            async with asyncio.timeout(LONGEST_S), self.turn:
                report = await verify_chain(self.ports.stores.audit_log, call.tenant_id)
        except TimeoutError as error:
            raise Overloaded("the audit chain is long", retry_after_s=RETRY_AFTER_S) from error
        return json_answer(_checked(report).model_dump_json().encode())


def _checked(report: ChainReport) -> ChainCheck:
    said = report.model_dump(include={"rows", "waiting", "fault", "position", "event_id"})
    return ChainCheck(**said, intact=report.ok, head=None if report.head is None else str(report.head))


def audit_chain_endpoints(routes: AuditChainRoutes) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.verify,
            summary="Verify the chain of the audit log",
            description="Walks the whole chain of the tenant and names the first row that was edited, "
            "removed, reordered or forged. That the whole log was set back, only a stored head shows.",
            family="Audit",
            answers={HTTPStatus.OK: Answer("What the walk found.", ChainCheck)},
            access=Access(
                frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
                scope=Scope.AUDIT_READ,
                permission=Permission.AUDIT_READ,
            ),
        ),
    )
