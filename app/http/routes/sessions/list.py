"""`GET /v1/control/verification-sessions`: every session in one list (interface 4.7, G33-G35, G69, G78)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.cursors import Cursors
from app.http.endpoints import Answer, Call, Endpoint, Parameter, reviewer
from app.http.filters import LIVEMODE, Page, Paging, modes, word
from app.http.listing import Listed, page_of
from app.http.responses import json_list
from app.http.routes.sessions.routes import SESSION_FORM
from schemas.base import Frozen
from schemas.enums import DecisionOutcome, SessionStatus
from schemas.ids import TenantId
from schemas.people import Permission
from schemas.problems import NotFound
from schemas.sessions import VerificationSession, row_of
from schemas.verifications import SUBJECT_PATTERN
from streams.ports.records import Record, RecordKind, Records
from streams.verification.records import STATUS_OF, Index, by_mode, by_status, folded

PATH: Final = "/v1/control/verification-sessions"
MAX_LIMIT: Final = 100
"""Interface section 8, G33."""

PAGING: Final = Paging(usual=25, most=MAX_LIMIT)


class SessionList(Frozen):
    """A page of sessions, newest first."""

    sessions: tuple[VerificationSession, ...]
    next_cursor: str | None
    """Null at the end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions are asked for."""

    modes: tuple[bool, ...]
    statuses: frozenset[SessionStatus] | None
    """None: in whatever status; at most one otherwise."""
    subject: str
    """A fragment of the subject id in folded case; empty: whatever subject."""

    @property
    def possible(self) -> bool:
        """Whether any session can be meant: none has a status of neither filter, or such a subject."""
        return self.statuses != frozenset() and (not self.subject or _may_be_subject(self.subject))

    def index(self, livemode: bool) -> Index:  # noqa: FBT001 - the interface's own word for it
        """Return where sessions of a mode are listed."""
        if self.statuses is None:
            return by_mode(livemode)
        return by_status(livemode, next(iter(self.statuses)))

    def admits(self, row: VerificationSession) -> bool:
        """Tell whether a session is meant."""
        in_status = self.statuses is None or row.status in self.statuses
        return row.livemode in self.modes and in_status and self.subject in folded(row.subject_id)


@dataclass(frozen=True, slots=True)
class SessionListRoutes:
    """What the reviewers' list does."""

    records: Records
    cursors: Cursors

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of the sessions, hosted ones and direct verifications alike, newest first."""
        query = call.request.query
        wanted, scope = _wanted(call), _scope(call)
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        session_id = query.get("session_id")
        if page.limit == 0 or not wanted.possible:
            listed = Listed(())
        elif session_id is not None:
            listed = Listed(await self._one(call.tenant_id, session_id, wanted))
        else:
            listed = await self._page(call.tenant_id, wanted, page)
        rows = [row_of(record.body).model_dump_json().encode() for record in listed.records]
        return json_list("sessions", rows, self.cursors.write_next(listed.following, scope))

    async def _one(self, tenant_id: TenantId, session_id: str, wanted: Wanted) -> Sequence[Record]:
        """Return the session, on whichever page it would stand, unless a filter excludes it."""
        if re.fullmatch(SESSION_FORM, session_id) is None:
            return ()
        try:
            record = await self.records.get(tenant_id, RecordKind.SESSION, session_id)
        except NotFound:
            return ()
        return (record,) if wanted.admits(row_of(record.body)) else ()

    async def _page(self, tenant_id: TenantId, wanted: Wanted, page: Page) -> Listed:
        return await page_of(
            self.records, tenant_id, RecordKind.SESSION, wanted.modes, wanted.index, page, wanted.subject
        )


def _wanted(call: Call) -> Wanted:
    """Read the filters.

    Raises:
        Refused: FILTER_INVALID.
    """
    query = call.request.query
    status = word(query, "status", SessionStatus)
    decision = word(query, "decision", DecisionOutcome)
    statuses = None if status is None else frozenset({status})
    if decision is not None:
        made = frozenset({STATUS_OF[decision]} if decision in STATUS_OF else ())
        statuses = made if statuses is None else statuses & made
    return Wanted(modes(call), statuses, folded(query.get("subject", "")))


def _may_be_subject(fragment: str) -> bool:
    """Tell whether a subject id may contain it."""
    return re.fullmatch(SUBJECT_PATTERN, fragment) is not None


def _scope(call: Call) -> dict[str, str]:
    """Return what a cursor is bound to; not the session id, which is found from any page."""
    query = call.request.query
    filters = {name: query.get(name, "") for name in ("status", "decision", "livemode")}
    return {"list": PATH, "tenant": call.tenant_id, "subject": folded(query.get("subject", "")), **filters}


def session_list_endpoints(routes: SessionListRoutes) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.list_page,
            summary="List verification sessions, newest first",
            family="Sessions",
            answers={HTTPStatus.OK: Answer("A page of sessions.", SessionList)},
            access=reviewer(Permission.VERIFICATIONS_READ),
            parameters=(
                Parameter("status", "Sessions in one status.", {"enum": [*SessionStatus]}),
                Parameter(
                    "decision",
                    "Sessions in the statuses that produce the decision; it may be one that none produces.",
                    {"enum": [*DecisionOutcome]},
                ),
                Parameter(
                    "subject",
                    "A fragment of the subject id, in whatever case. While one of common pieces is sought, a "
                    "page may be shorter than `limit`, even empty: the search goes on at `next_cursor`.",
                    {"type": "string"},
                ),
                Parameter(
                    "session_id",
                    "One session, on whichever page it stands; the other filters still hold.",
                    {"type": "string"},
                ),
                LIVEMODE,
                *PAGING.parameters,
            ),
        ),
    )
