"""`/v1/name-screenings`: screen names, read a screening, list them (G118)."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import IDEMPOTENCY, Access, Answer, Call, Credential, Endpoint, Parameter
from app.http.idempotent_create import (
    KEY_PROBLEMS,
    LOCATION,
    REPLAYED,
    created_at,
    created_or_replayed,
    name_created,
)
from app.http.listing import LIVEMODE, Page, Paging, modes, page_of, text
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.intake.name_screenings import AskedScreening
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import Scope
from schemas.ids import ScreeningId, SubjectId
from schemas.name_screenings import NameScreening, NameScreeningRequest, StoredNameScreening
from schemas.people import Permission
from schemas.problems import NotFound, ProblemCode
from schemas.verifications import SUBJECT_PATTERN
from streams.name_screenings.records import shown
from streams.ports.records import Record, RecordKind
from streams.verification.records import by_mode, by_subject

PATH: Final = "/v1/name-screenings"
PAGING: Final = Paging(usual=25, most=100)
"""G88."""

SCREENING_FORM: Final = r"ns_[0-9a-hjkmnp-tv-z]{26}"

BODY_LIMIT: Final = 512 * 1024
"""Sealed and in base64 it still fits a record of the log."""

_BOTH: Final = frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION})
READER: Final = Access(_BOTH, scope=Scope.SCREENINGS_READ, permission=Permission.SCREENINGS_READ)
WRITER: Final = Access(_BOTH, scope=Scope.SCREENINGS_WRITE, permission=Permission.SCREENINGS_READ)
"""Who may read what was found may ask; asking changes nothing."""


class NameScreeningList(Frozen):
    """A page of screenings, newest first."""

    screenings: tuple[NameScreening, ...]
    next_cursor: str | None
    """Null at the end."""


@dataclass(frozen=True, slots=True)
class NameScreeningRoutes:
    """What the routes of name screenings do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors

    async def screen(self, call: Call) -> web.Response:
        """Compare names with the lists; a replayed key answers 200 with the first result."""
        body = await self.bodies.read(call, NameScreeningRequest)
        livemode = call.tenant is None or call.tenant.livemode
        named = name_created(
            "ns", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id, livemode=livemode
        )
        asked = AskedScreening(call.tenant_id, livemode, call.actor, ScreeningId(named.id))
        submitted = await self.ports.name_screenings.submit(body, asked)
        answer = await self._whole(submitted.record)
        if submitted.replayed:
            return json_answer(answer, headers={REPLAYED: "true"})
        return json_answer(answer, HTTPStatus.CREATED, created_at(PATH, named.id))

    async def read(self, call: Call) -> web.Response:
        """Answer one screening of the caller's tenant and mode; any other is not found."""
        about = call.path_value("screening_id")
        record = await self.ports.stores.records.get(call.tenant_id, RecordKind.NAME_SCREENING, about)
        if StoredNameScreening.from_bytes(record.body).screening.livemode not in modes(call):
            raise NotFound(about)
        return json_answer(await self._whole(record))

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of screenings, newest first."""
        query, seen = call.request.query, modes(call)
        subject = text(query, "subject_id", SUBJECT_PATTERN)
        scope: Mapping[str, str] = {
            "list": PATH,
            "tenant": call.tenant_id,
            "live": str(seen),
            "subject_id": subject or "",
        }
        cursor = query.get("cursor")
        own = None if subject is None else SubjectId(subject)
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        listed = await page_of(
            self.ports.stores.records,
            call.tenant_id,
            RecordKind.NAME_SCREENING,
            seen,
            lambda livemode: by_mode(livemode) if own is None else by_subject(livemode, own),
            page,
        )
        rows = [await self._whole(record) for record in listed.records]
        return json_list("screenings", rows, self.cursors.write_next(listed.following, scope))

    async def _whole(self, record: Record) -> bytes:
        found = await shown(self.ports.stores.vault, record.tenant_id, record.body)
        return found.to_bytes()


def name_screening_endpoints(routes: NameScreeningRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (_screen(routes), _list(routes), _read(routes))


def _screen(routes: NameScreeningRoutes) -> Endpoint:
    key = Parameter(
        IDEMPOTENCY,
        "1 to 255 printable ASCII characters, quoted or bare; the same key answers the same screening.",
        {"type": "string", "minLength": 1, "maxLength": 257},
    )
    return Endpoint(
        method="POST",
        path=PATH,
        handler=routes.screen,
        summary="Screen names against sanctions, PEP and other lists",
        family="Screenings",
        answers=created_or_replayed(
            Answer("What the lists say; absence is not clearance.", NameScreening, headers=LOCATION),
            NameScreening,
        ),
        access=WRITER,
        headers=(key,),
        body=NameScreeningRequest,
        body_limit=BODY_LIMIT,
        problems=(*KEY_PROBLEMS, ProblemCode.DECISION_PENDING, ProblemCode.OVERLOADED),
        audits=(AuditAction.NAME_SCREENED,),
        description="A check that lacks a list is ERROR with its causes, never CLEAR. The names are stored "
        "sealed under the subject's key, or the tenant's without one. A person is MATCH only if a fact "
        "beside the name supports it and none contradicts.",
    )


def _read(routes: NameScreeningRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"{PATH}/{{screening_id}}",
        handler=routes.read,
        summary="Read a name screening",
        family="Screenings",
        answers={HTTPStatus.OK: Answer("The screening.", NameScreening)},
        access=READER,
        path_forms={"screening_id": SCREENING_FORM},
    )


def _list(routes: NameScreeningRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=PATH,
        handler=routes.list_page,
        summary="List name screenings, newest first",
        family="Screenings",
        answers={HTTPStatus.OK: Answer("A page of screenings.", NameScreeningList)},
        access=READER,
        parameters=(
            Parameter("subject_id", "Those of one subject.", {"type": "string", "pattern": SUBJECT_PATTERN}),
            LIVEMODE,
            *PAGING.parameters,
        ),
    )
