"""`/v1/control/dispositions`: judge that a match or a rule does not concern somebody, and end that (G120)."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import IDEMPOTENCY, Answer, Call, Endpoint, Parameter, reviewer
from app.http.idempotent_create import KEY_PROBLEMS, REPLAYED, created_or_replayed, name_created
from app.http.listing import LIVEMODE, Page, Paging, modes, page_of, text
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.dispositions import Disposition, DispositionRequest
from schemas.ids import DispositionId, SubjectId
from schemas.people import Permission
from schemas.problems import ProblemCode
from schemas.verifications import SUBJECT_PATTERN
from streams.dispositions.ending import ChangeDispositions
from streams.dispositions.records import by_counterparty, by_subject_key, shown
from streams.ports.records import Record, RecordKind
from streams.verification.records import Index, by_mode

PATH: Final = "/v1/control/dispositions"
PAGING: Final = Paging(usual=25, most=100)
"""G88."""

FORM: Final = r"dsp_[0-9a-hjkmnp-tv-z]{26}"


class DispositionList(Frozen):
    """A page of dispositions, newest first, those that ended too."""

    dispositions: tuple[Disposition, ...]
    next_cursor: str | None
    """Null at the end."""


@dataclass(frozen=True, slots=True)
class DispositionRoutes:
    """What the routes of dispositions do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors

    async def create(self, call: Call) -> web.Response:
        """Judge a match or a rule; a replayed key answers 200 with the first result."""
        body = await self.bodies.read(call, DispositionRequest)
        named = name_created(
            "dsp", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id, livemode=body.livemode
        )
        about = DispositionId(named.id)
        made = await self.ports.dispositions.submit(body, call.tenant_id, call.actor, about)
        answer = await self._whole(made.record, made.record.first_body)
        if made.replayed:
            return json_answer(answer, headers={REPLAYED: "true"})
        return json_answer(answer, HTTPStatus.CREATED)

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of dispositions, newest first."""
        query, seen = call.request.query, modes(call)
        subject = text(query, "subject_id", SUBJECT_PATTERN)
        counterparty = text(query, "counterparty_id", r"[^\x00-\x1f\x7f]{1,128}")
        filters = {"subject_id": subject or "", "counterparty_id": counterparty or ""}
        scope: Mapping[str, str] = {"list": PATH, "tenant": call.tenant_id, "live": str(seen), **filters}
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        listed = await page_of(
            self.ports.stores.records,
            call.tenant_id,
            RecordKind.DISPOSITION,
            seen,
            lambda livemode: self._index(call, subject, counterparty, livemode=livemode),
            page,
        )
        rows = [await self._whole(record) for record in listed.records]
        return json_list("dispositions", rows, self.cursors.write_next(listed.following, scope))

    async def delete(self, call: Call) -> web.Response:
        """Let it count again; a disposition that has ended stays as it is."""
        await self._changes.delete(call.tenant_id, call.path_value("disposition_id"), call.actor)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def approve(self, call: Call) -> web.Response:
        """Agree to a disposition as a second person; it counts from now on."""
        record = await self._changes.approve(call.tenant_id, call.path_value("disposition_id"), call.actor)
        return json_answer(await self._whole(record))

    @property
    def _changes(self) -> ChangeDispositions:
        return ChangeDispositions(self.ports.stores.records, self.ports.commit, self.ports.clock)

    def _index(self, call: Call, subject: str | None, counterparty: str | None, *, livemode: bool) -> Index:
        tenant_id, hashes = call.tenant_id, self.ports.dispositions.hashes
        if subject is not None:
            return by_subject_key(hashes.subject_key(tenant_id, SubjectId(subject), livemode=livemode))
        if counterparty is not None:
            return by_counterparty(hashes, tenant_id, counterparty, livemode=livemode)
        return by_mode(livemode)

    async def _whole(self, record: Record, body: bytes | None = None) -> bytes:
        return (await shown(self.ports.stores.vault, record.tenant_id, body or record.body)).to_bytes()


def disposition_endpoints(routes: DispositionRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (_create(routes), _list(routes), _approve(routes), _delete(routes))


def _create(routes: DispositionRoutes) -> Endpoint:
    key = Parameter(
        IDEMPOTENCY,
        "1 to 255 printable ASCII characters, quoted or bare; the same key answers the same disposition.",
        {"type": "string", "minLength": 1, "maxLength": 257},
    )
    return Endpoint(
        method="POST",
        path=PATH,
        handler=routes.create,
        summary="Judge that a listed entity or a rule does not concern somebody",
        family="Screenings",
        answers=created_or_replayed(Answer("The disposition.", Disposition), Disposition),
        access=reviewer(Permission.CASES_CONCLUDE),
        headers=(key,),
        body=DispositionRequest,
        problems=(*KEY_PROBLEMS, ProblemCode.DECISION_PENDING, ProblemCode.OVERLOADED),
        audits=(AuditAction.DISPOSITION_CREATED,),
        description="The match, or the hit of the rule, no longer counts and shows `suppressed_by`. It "
        "counts again at `expires_at`, when the disposition is deleted, and when the entity's entry or the "
        "rule changes. Where `four_eyes` is ALWAYS, or CRITICAL or OVERTURN and the list is one of "
        "sanctions, it is PROPOSED and counts once a second person has approved it.",
    )


def _list(routes: DispositionRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=PATH,
        handler=routes.list_page,
        summary="List dispositions, newest first",
        family="Screenings",
        answers={HTTPStatus.OK: Answer("A page of dispositions.", DispositionList)},
        access=reviewer(Permission.SCREENINGS_READ),
        parameters=(
            Parameter(
                "subject_id", "Those about one subject.", {"type": "string", "pattern": SUBJECT_PATTERN}
            ),
            Parameter("counterparty_id", "Those about a counterparty.", {"type": "string", "maxLength": 128}),
            LIVEMODE,
            *PAGING.parameters,
        ),
    )


def _approve(routes: DispositionRoutes) -> Endpoint:
    return Endpoint(
        method="POST",
        path=f"{PATH}/{{disposition_id}}/approve",
        handler=routes.approve,
        summary="Approve a disposition as a second person",
        family="Screenings",
        answers={HTTPStatus.OK: Answer("The disposition, which counts.", Disposition)},
        access=reviewer(Permission.CASES_CONCLUDE),
        path_forms={"disposition_id": FORM},
        problems=(ProblemCode.SECOND_REVIEWER_MUST_DIFFER,),
        audits=(AuditAction.DISPOSITION_APPROVED,),
    )


def _delete(routes: DispositionRoutes) -> Endpoint:
    return Endpoint(
        method="DELETE",
        path=f"{PATH}/{{disposition_id}}",
        handler=routes.delete,
        summary="End a disposition",
        family="Screenings",
        answers={HTTPStatus.NO_CONTENT: Answer("It counts again.", media_type="")},
        access=reviewer(Permission.CASES_CONCLUDE),
        path_forms={"disposition_id": FORM},
        audits=(AuditAction.DISPOSITION_ENDED,),
    )
