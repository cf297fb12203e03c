"""`/v1/audit`, `/v1/platform/audit`: the audit logs, page by page or as CSV (interface section 4.6, G32)."""

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.cursors import Cursors
from app.http.endpoints import OPERATOR, Access, Answer, Call, Credential, Endpoint, Parameter
from app.http.headers import wanted
from app.http.listing import LIVEMODE, Page, Paging, modes, moment, refused_filter, text, word
from app.http.ports import FrontPorts
from app.http.responses import JSON, dress, json_list
from schemas.audit import AuditAction, AuditEvent, AuditFilter
from schemas.base import Frozen, rfc3339
from schemas.enums import ActorType, Scope
from schemas.ids import PLATFORM, TenantId, derive_id, encode_id
from schemas.people import Permission
from schemas.problems import ProblemCode
from schemas.verifications import SUBJECT_PATTERN
from streams.audit.commit import act
from streams.audit.rows import write_row
from streams.ports.records import Position

PATH: Final = "/v1/audit"
PLATFORM_PATH: Final = "/v1/platform/audit"
CSV: Final = "text/csv"
PAGING: Final = Paging(usual=50, most=200)

_ACTION_FORM: Final = r"[a-z_]{1,40}\.([a-z_]{1,40})?"
_NAME_FORM: Final = r"[A-Za-z0-9._:@-]{1,128}"

_COLUMNS: Final = (
    "event_id",
    "action",
    "actor_type",
    "actor_id",
    "subject_id",
    "correlation_id",
    "decision_id",
    "detail",
    "created_at",
    "livemode",
    "context",
)

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""A cell beginning with one of them runs as a formula in a spreadsheet; an apostrophe in front stops it."""


class AuditList(Frozen):
    """A page of the audit log, newest first."""

    events: tuple[AuditEvent, ...]
    next_cursor: str | None
    """Null at the end."""


@dataclass(frozen=True, slots=True)
class AuditRoutes:
    """What the route of the audit log does."""

    ports: FrontPorts
    cursors: Cursors
    standing: Mapping[str, str]

    async def read(self, call: Call) -> web.StreamResponse:
        """Answer a page of the caller's log, or all of it as CSV."""
        return await self._answer(call, call.tenant_id)

    async def read_platform(self, call: Call) -> web.StreamResponse:
        """Answer a page of the log of what belongs to no tenant (G93), or all of it as CSV."""
        return await self._answer(call, PLATFORM)

    async def _answer(self, call: Call, tenant_id: TenantId) -> web.StreamResponse:
        query = call.request.query
        chosen = filter_of(query, modes(call))
        scope = scope_of(tenant_id, chosen)
        cursor = query.get("cursor")
        before = self.cursors.read(cursor, scope) if cursor is not None else None
        if wanted(call.request, (JSON, CSV)) == CSV:
            most = PAGING.limit(query) if "limit" in query else None
            return await self._export(call, tenant_id, chosen, self._rows(tenant_id, chosen, before, most))
        page = Page(PAGING.limit(query), before)
        events = await self._events(tenant_id, chosen, page.limit + 1, before) if page.limit else ()
        rows = [event.to_bytes() for event in events[: page.limit]]
        last = events[page.limit - 1] if len(events) > page.limit else None
        next_cursor = self.cursors.write(_position(last), scope) if last is not None else None
        return json_list("events", rows, next_cursor)

    async def _events(
        self, tenant_id: TenantId, chosen: AuditFilter, limit: int, before: Position | None
    ) -> Sequence[AuditEvent]:
        return await self.ports.stores.audit_log.page(tenant_id, chosen, limit=limit, before=before)

    async def _rows(
        self, tenant_id: TenantId, chosen: AuditFilter, before: Position | None, most: int | None
    ) -> AsyncIterator[Sequence[AuditEvent]]:
        """Give the rows page by page; `most` of them, or all."""
        left = most
        while left is None or left > 0:
            limit = PAGING.most if left is None else min(PAGING.most, left)
            events = await self._events(tenant_id, chosen, limit, before)
            yield events
            if len(events) < limit:
                return
            before = _position(events[-1])
            left = None if left is None else left - limit

    async def _export(
        self,
        call: Call,
        tenant_id: TenantId,
        chosen: AuditFilter,
        pages: AsyncIterator[Sequence[AuditEvent]],
    ) -> web.StreamResponse:
        """Stream CSV (RFC 4180), audited first; a store that fails midway cuts the answer short, visibly."""
        first = await anext(pages, ())
        if call.request.method != "HEAD":
            await self._write_export(call, tenant_id, chosen)
        response = web.StreamResponse(
            headers={
                "Content-Disposition": 'attachment; filename="audit.csv"',
                "Content-Type": "text/csv; charset=utf-8",
            }
        )
        dress(response, call, self.standing)
        await response.prepare(call.request)
        call.begun = True
        if call.request.method != "HEAD":
            await response.write(csv_lines([_COLUMNS]) + csv_lines(cells(event) for event in first))
            async for events in pages:
                await response.write(csv_lines(cells(event) for event in events))
        await response.write_eof()
        return response

    async def _write_export(self, call: Call, tenant_id: TenantId, chosen: AuditFilter) -> None:
        """Write the audit row of an export (S59)."""
        row = write_row(
            derive_id("aud", encode_id("exp", self.ports.fresh_uuid())),
            AuditAction.AUDIT_EXPORTED,
            call.actor,
            call.actor.actor_id or tenant_id,
            self.ports.clock(),
            detail="Rows of the audit log were exported as CSV.",
            changes={"filter": chosen.model_dump(mode="json", exclude_none=True)},
            livemode=call.tenant.livemode if call.tenant is not None else True,
        )
        await self.ports.commit(act(tenant_id, row))


def filter_of(query: Mapping[str, str], seen: Sequence[bool]) -> AuditFilter:
    """Return what the parameters choose, of the caller's own mode.

    Raises:
        Refused: FILTER_INVALID at the first parameter that is malformed.
    """
    since, until = moment(query, "from"), moment(query, "to")
    if since is not None and until is not None and since > until:
        raise refused_filter("to", "The end lies before the beginning.")
    return AuditFilter(
        action=text(query, "action", _ACTION_FORM),
        actor_type=word(query, "actor_type", ActorType),
        actor_id=text(query, "actor_id", _NAME_FORM),
        subject_id=text(query, "subject_id", SUBJECT_PATTERN),
        decision_id=text(query, "decision_id", _NAME_FORM),
        correlation_id=text(query, "correlation_id", _NAME_FORM),
        since=since,
        until=until,
        livemode=seen[0] if len(seen) == 1 else None,
    )


def scope_of(tenant_id: TenantId, chosen: AuditFilter) -> Mapping[str, str]:
    """Return what a cursor of this list is bound to."""
    return {"list": PATH, "tenant": tenant_id, "filter": chosen.model_dump_json()}


def cells(event: AuditEvent) -> tuple[str, ...]:
    """Return a row's cells in the order of the header."""
    row = event.model_dump()
    row["created_at"] = rfc3339(event.created_at)
    row["livemode"] = str(event.livemode).lower()
    row["context"] = json.dumps(event.context, sort_keys=True, default=str)
    return tuple(_harmless(str(row[name])) if row[name] is not None else "" for name in _COLUMNS)


def csv_lines(rows: Iterable[Sequence[str]]) -> bytes:
    """Write rows as CSV."""
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell


def _position(event: AuditEvent) -> Position:
    return Position(event.created_at, event.event_id)


_NAME: Final = {"type": "string", "pattern": _NAME_FORM}
_TIME: Final = {"type": "string", "format": "date-time"}

PARAMETERS: Final = (
    Parameter(
        "action",
        "One action; a resource with a trailing dot means all of its.",
        {"type": "string", "pattern": _ACTION_FORM},
    ),
    Parameter("actor_type", "Rows of one kind of actor.", {"enum": [*ActorType]}),
    Parameter("actor_id", "Rows of one actor.", _NAME),
    Parameter("subject_id", "Rows about one subject, or one thing.", _NAME),
    Parameter("decision_id", "Rows about one decision.", _NAME),
    Parameter("correlation_id", "Rows of one request: its `X-Request-Id`.", _NAME),
    Parameter("from", "Rows at or after this time.", _TIME),
    Parameter("to", "Rows before this time.", _TIME),
    LIVEMODE,
    *PAGING.parameters,
)

_EXPORT: Final = "`Accept: text/csv` streams every matching row as an export."


def audit_endpoints(routes: AuditRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    answers = {HTTPStatus.OK: Answer("A page of the log.", AuditList, also=(CSV,))}
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read,
            summary="Read the audit log, newest first",
            description=_EXPORT,
            family="Audit",
            answers=answers,
            access=Access(
                frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
                scope=Scope.AUDIT_READ,
                permission=Permission.AUDIT_READ,
            ),
            parameters=PARAMETERS,
            audits=(AuditAction.AUDIT_EXPORTED,),
            store_failure=ProblemCode.STORE_FAILED,
        ),
        Endpoint(
            method="GET",
            path=PLATFORM_PATH,
            handler=routes.read_platform,
            summary="Read the audit log of what belongs to no tenant, newest first",
            description=f"Tenants, the catalogue, and sign-ins of nobody. {_EXPORT}",
            family="Platform",
            answers=answers,
            access=OPERATOR,
            parameters=PARAMETERS,
            audits=(AuditAction.AUDIT_EXPORTED,),
        ),
    )
