"""The queue of `/v1/control/review-cases`: newest or most urgent first, its counts, the next case (P19)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final

from aiohttp import web
from pydantic import StrictBool

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import Answer, Call, Endpoint, Parameter, reviewer
from app.http.listing import LIVEMODE, Page, Paging, modes, moment, page_of, place_of, text, word
from app.http.ports import FrontPorts
from app.http.presenters import CaseTexts
from app.http.responses import json_answer, json_list
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import CaseKind, CaseStatus, RiskLevel, TextEnum
from schemas.ids import ReviewCaseId
from schemas.people import Permission
from schemas.problems import ProblemCode, Refused
from schemas.reviews import CaseChanged, ClaimCase, ReviewCase
from schemas.topics import Topic
from streams.audit.rows import seal_actor
from streams.ports.records import Position, Record, RecordKind
from streams.reviewers.members import load_member
from streams.reviews.queue import WAITING, QueuedRecord, QueueSummary, Taker, queued_of, summary_of
from streams.verification.review_case import UNASSIGNED, index_of

PATH: Final = "/v1/control/review-cases"
SUMMARY: Final = f"{PATH}/summary"
CLAIM_NEXT: Final = f"{PATH}/claim-next"
PAGING: Final = Paging(usual=25, most=100)
ANSWER_S: Final = 10.0

MOST_SORTED: Final = 20_000
"""Waiting cases of one status and mode that are sorted by due time; the newest ones, if there are more."""

_READ: Final = 500
"""Records of one read while all waiting cases are walked."""

_ROUNDS: Final = 20
"""Pages looked through for one page that the store cannot filter; later ones come with the cursor."""

_MOST_TRIES: Final = 100
"""Cases that colleagues may take first while one is claimed."""

_ASSIGNEE: Final = rf"{UNASSIGNED}|usr_[0-9a-hjkmnp-tv-z]{{26}}"


class Order(TextEnum):
    """The order of a list of cases."""

    NEWEST = "newest"
    DUE = "due"


class CaseList(Frozen):
    """A page of cases."""

    review_cases: tuple[ReviewCase, ...]
    next_cursor: str | None


class ClaimNextBody(Frozen):
    """Which cases come into question."""

    kind: CaseKind | None = None
    livemode: StrictBool = True


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a list of cases."""

    status: CaseStatus | None = None
    risk: RiskLevel | None = None
    assignee: str | None = None
    kind: CaseKind | None = None
    due_before: datetime | None = None

    def admits(self, queued: QueuedRecord) -> bool:
        """Return whether a case passes the filters that have no index."""
        case = queued.case
        on_time = self.due_before is None or case.due_at < self.due_before
        return on_time and self.kind in {None, case.kind}

    @property
    def indexed(self) -> bool:
        """Whether the store's indexes cover every filter."""
        return self.kind is None and self.due_before is None


@dataclass(frozen=True, slots=True)
class QueueRoutes:
    """What the routes of the queue do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors
    texts: CaseTexts

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of cases."""
        query, seen = call.request.query, modes(call)
        filters = Filters(
            word(query, "status", CaseStatus),
            word(query, "risk_level", RiskLevel),
            text(query, "assignee", _ASSIGNEE),
            word(query, "kind", CaseKind),
            moment(query, "due_before"),
        )
        order = word(query, "order", Order) or Order.NEWEST
        asked = f"{filters}|{order}"
        scope = {"list": PATH, "tenant": call.tenant_id, "live": str(seen), "asked": asked}
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        found = self._by_due if order is Order.DUE else self._newest
        rows, following = await found(call, seen, filters, page)
        shown = [await self.texts.show(call.tenant_id, record) for record in rows]
        return json_list("review_cases", shown, self.cursors.write_next(following, scope))

    async def _newest(
        self, call: Call, seen: Sequence[bool], filters: Filters, page: Page
    ) -> tuple[Sequence[Record], Position | None]:
        rows: list[Record] = []
        for _ in range(_ROUNDS):
            listed = await page_of(
                self.ports.stores.records,
                call.tenant_id,
                RecordKind.REVIEW_CASE,
                seen,
                lambda livemode: index_of(livemode, filters.status, filters.assignee, filters.risk),
                page,
            )
            rows += [one for one in listed.records if filters.admits(queued_of(one.body))]
            if listed.following is None or len(rows) >= page.limit or filters.indexed:
                break
            page = Page(page.limit, listed.following)
        rows, over = rows[: page.limit], rows[page.limit :]
        return rows, place_of(rows[-1]) if over else listed.following

    async def _by_due(
        self, call: Call, seen: Sequence[bool], filters: Filters, page: Page
    ) -> tuple[Sequence[Record], Position | None]:
        waiting = await self._waiting(call, seen, filters)
        behind = None if page.before is None else (page.before.created_at, page.before.id)
        rest = [one for one in waiting if behind is None or one[0].case.urgency > behind]
        rows = rest[: page.limit]
        following = Position(*rows[-1][0].case.urgency) if rows and len(rest) > len(rows) else None
        return [record for _, record in rows], following

    async def _waiting(
        self, call: Call, seen: Sequence[bool], filters: Filters
    ) -> list[tuple[QueuedRecord, Record]]:
        """Return the cases of the filters, the most urgent first; concluded ones only on demand."""
        statuses = WAITING if filters.status is None else (filters.status,)
        indexes = [
            index_of(livemode, status, filters.assignee, filters.risk)
            for livemode in seen
            for status in statuses
        ]
        walked = await asyncio.gather(*(self._walk(call, index) for index in indexes))
        found = ((queued_of(record.body), record) for records in walked for record in records)
        return sorted((one for one in found if filters.admits(one[0])), key=lambda one: one[0].case.urgency)

    async def _walk(self, call: Call, index: tuple[str, str]) -> list[Record]:
        found: list[Record] = []
        before: Position | None = None
        while len(found) < MOST_SORTED:
            page = await self.ports.stores.records.page(
                call.tenant_id, RecordKind.REVIEW_CASE, index, limit=_READ, before=before
            )
            found += page
            if len(page) < _READ:
                break
            before = place_of(page[-1])
        return found

    async def summarise(self, call: Call) -> web.Response:
        """Answer how many cases wait."""
        waiting = await self._waiting(call, modes(call), Filters())
        cases = (queued.case for queued, _ in waiting)
        counted = summary_of(cases, call.person.reviewer_id, self.ports.clock())
        return json_answer(counted.model_dump_json().encode())

    async def claim_next(self, call: Call) -> web.Response:
        """Claim the most urgent case that the reviewer may conclude; none waits: 204."""
        body = await self.bodies.read(call, ClaimNextBody)
        person = call.person
        member = (await load_member(self.ports.people.records, person.tenant_id, person.reviewer_id)).reviewer
        taker = Taker(member, self.ports.clock())
        waiting = await self._waiting(call, (body.livemode,), Filters(kind=body.kind))
        free = [queued.case.review_case_id for queued, _ in waiting if taker.may_take(queued)]
        for case_id in free[:_MOST_TRIES]:
            if await self._claimed(call, ReviewCaseId(case_id)):
                records = self.ports.stores.records
                record = await records.get(call.tenant_id, RecordKind.REVIEW_CASE, case_id)
                return json_answer(await self.texts.show(call.tenant_id, record))
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _claimed(self, call: Call, case_id: ReviewCaseId) -> bool:
        """Claim a case; False when a colleague was faster."""
        command = ClaimCase(
            tenant_id=call.tenant_id,
            review_case_id=case_id,
            actor=await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor),
            requested_at=self.ports.clock(),
            reviewer_id=call.person.reviewer_id,
        )
        try:
            request = self.ports.request_reply.request
            await request(Topic.REVIEW_COMMANDS, case_id, command, CaseChanged, ANSWER_S)
        except Refused as refused:
            taken = {ProblemCode.CASE_CLAIMED, ProblemCode.CASE_ALREADY_CONCLUDED}
            if refused.refusal.code in taken:
                return False
            raise
        return True


_FAMILY: Final = "Review cases"
_PARAMETERS: Final = (
    Parameter("order", "Newest first, or the most urgent of those that wait.", {"enum": [*Order]}),
    Parameter("kind", "Cases of one kind.", {"enum": [*CaseKind]}),
    Parameter("status", "Cases in one status.", {"enum": [*CaseStatus]}),
    Parameter(
        "assignee", "Cases of one reviewer, or `none`.", {"type": "string", "pattern": f"^({_ASSIGNEE})$"}
    ),
    Parameter("risk_level", "Cases of one risk level.", {"enum": [*RiskLevel]}),
    Parameter("due_before", "Cases due before this time.", {"type": "string", "format": "date-time"}),
    LIVEMODE,
    *PAGING.parameters,
)


def queue_endpoints(routes: QueueRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    reads = reviewer(Permission.CASES_READ)
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.list_page,
            summary="List review cases",
            answers={HTTPStatus.OK: Answer("As it stands.", CaseList)},
            family=_FAMILY,
            access=reads,
            parameters=_PARAMETERS,
        ),
        Endpoint(
            method="GET",
            path=SUMMARY,
            handler=routes.summarise,
            summary="Count the review cases that wait",
            answers={HTTPStatus.OK: Answer("The counts.", QueueSummary)},
            family=_FAMILY,
            access=reads,
            parameters=(LIVEMODE,),
        ),
        Endpoint(
            method="POST",
            path=CLAIM_NEXT,
            handler=routes.claim_next,
            summary="Claim the most urgent review case",
            description="Of the cases the reviewer may conclude; the answer may be one claimed before.",
            answers={
                HTTPStatus.OK: Answer("The case, claimed.", ReviewCase),
                HTTPStatus.NO_CONTENT: Answer("None waits.", media_type=""),
            },
            family=_FAMILY,
            access=reviewer(Permission.CASES_CONCLUDE),
            body=ClaimNextBody,
            problems=(ProblemCode.DECISION_PENDING, ProblemCode.OVERLOADED),
            audits=(AuditAction.CASE_ASSIGNED,),
        ),
    )
