"""`/v1/wallet-assessments`: assess one or many, read one, list them (G41, G123, G124)."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import IDEMPOTENCY, Access, Answer, Call, Credential, Endpoint, Parameter
from app.http.idempotent_create import (
    KEY_PROBLEMS,
    LOCATION,
    REPLAYED,
    Naming,
    created_at,
    created_or_replayed,
    name_created,
)
from app.http.listing import LIVEMODE, Page, Paging, modes, page_of, text
from app.http.ports import FrontPorts
from app.http.problems import Problem, problem_of, refusal_of
from app.http.responses import json_answer, json_list
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import Scope
from schemas.ids import AssessmentId, SubjectId, derive_id
from schemas.people import Permission
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.verifications import SUBJECT_PATTERN
from schemas.wallets import StoredAssessment, WalletAssessment, WalletAssessmentRequest
from streams.ports.errors import Erased
from streams.ports.records import RecordKind
from streams.verification.records import by_mode, by_subject
from streams.wallets.handler import Assessed, AssessWallet

MAX_BATCH: Final = 100


class WalletAssessmentList(Frozen):
    """A page of assessments, newest first."""

    assessments: tuple[WalletAssessment, ...]
    next_cursor: str | None
    """Null at the end."""


class WalletBatchRequest(Frozen):
    """Several requests, assessed one by one."""

    assessments: Annotated[tuple[WalletAssessmentRequest, ...], Field(min_length=1, max_length=MAX_BATCH)]


class FailedAssessment(Frozen):
    """What stands in the place of an assessment that could not be made."""

    error: Problem


class WalletBatch(Frozen):
    """The answers, in the order of the requests."""

    assessments: tuple[WalletAssessment | FailedAssessment, ...]


PATH: Final = "/v1/wallet-assessments"
PAGING: Final = Paging(usual=25, most=100)
"""G88."""

ASSESSMENT_FORM: Final = r"wa_[0-9a-hjkmnp-tv-z]{26}"

READER: Final = Access(
    frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
    scope=Scope.WALLETS_READ,
    permission=Permission.WALLETS_READ,
)
WRITER: Final = Access(frozenset({Credential.TENANT_KEY}), scope=Scope.WALLETS_WRITE)


@dataclass(frozen=True, slots=True)
class WalletRoutes:
    """What the routes of wallets do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors
    base_url: str

    async def assess(self, call: Call) -> web.Response:
        """Assess one wallet; a replayed key answers 200 with the first answer."""
        body = await self.bodies.read(call, WalletAssessmentRequest)
        named = self._named(call, body)
        made = await self._assess(call, named, body)
        shown = _whole(made.assessment)
        if made.replayed:
            return json_answer(shown, headers={REPLAYED: "true"})
        return json_answer(shown, HTTPStatus.CREATED, created_at(PATH, made.assessment.assessment_id))

    async def assess_batch(self, call: Call) -> web.Response:
        """Assess several wallets; one that is refused takes no other with it."""
        body = await self.bodies.read(call, WalletBatchRequest)
        named = self._named(call, body)
        keyed = IDEMPOTENCY in call.request.headers
        replayed = keyed and await self.ports.wallets.reserve(call.tenant_id, named.id, named.fingerprint)
        answers = []
        for position, request in enumerate(body.assessments):
            own = Naming(derive_id("wa", named.id, str(position)), named.fingerprint)
            answer = await self._one_of_batch(call, own, request, position)
            answers.append(_whole(answer.assessment) if isinstance(answer, Assessed) else answer.to_bytes())
        shown = b'{"assessments":[%b]}' % b",".join(answers)
        if replayed:
            return json_answer(shown, headers={REPLAYED: "true"})
        return json_answer(shown, HTTPStatus.CREATED)

    async def read(self, call: Call) -> web.Response:
        """Answer one assessment of the caller's tenant and mode; any other is not found."""
        about = call.path_value("assessment_id")
        record = await self.ports.stores.records.get(call.tenant_id, RecordKind.WALLET_ASSESSMENT, about)
        if StoredAssessment.from_bytes(record.body).assessment.livemode not in modes(call):
            raise NotFound(about)
        return json_answer(_whole(await self.ports.wallets.shown(record)))

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of assessments, newest first."""
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
            RecordKind.WALLET_ASSESSMENT,
            seen,
            lambda livemode: by_mode(livemode) if own is None else by_subject(livemode, own),
            page,
        )
        rows = [_whole(await self.ports.wallets.shown(record)) for record in listed.records]
        return json_list("assessments", rows, self.cursors.write_next(listed.following, scope))

    def _named(self, call: Call, body: Frozen) -> Naming:
        livemode = call.caller.livemode
        return name_created(
            "wa", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id, livemode=livemode
        )

    async def _assess(self, call: Call, named: Naming, request: WalletAssessmentRequest) -> Assessed:
        command = AssessWallet(
            assessment_id=AssessmentId(named.id),
            fingerprint=named.fingerprint,
            tenant_id=call.tenant_id,
            livemode=call.caller.livemode,
            actor=call.actor,
            request=request,
        )
        return await self.ports.wallets(command)

    async def _one_of_batch(
        self, call: Call, named: Naming, request: WalletAssessmentRequest, position: int
    ) -> Assessed | FailedAssessment:
        """Assess one of a batch, or say why it cannot be, at its place in the body."""
        try:
            return await self._assess(call, named, request)
        except (Refused, Erased) as error:
            refusal = refusal_of(error, call.store_failure)
            if refusal is None:
                raise
            at = f"/assessments/{position}"
            moved = tuple(
                field.model_copy(update={"pointer": f"{at}{field.pointer or ''}"}) for field in refusal.errors
            )
            refusal = refusal.model_copy(update={"errors": moved})
            path = call.request.rel_url.raw_path
            return FailedAssessment(error=problem_of(refusal, self.base_url, path, call.request_id))


def _whole(value: Frozen) -> bytes:
    return value.model_dump_json().encode()


_KEY: Final = Parameter(
    IDEMPOTENCY,
    "1 to 255 printable ASCII characters, quoted or bare; the same key answers the same assessment.",
    {"type": "string", "minLength": 1, "maxLength": 257},
)


def wallet_endpoints(routes: WalletRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (_assess(routes), _assess_batch(routes), _list(routes), _read(routes))


def _assess(routes: WalletRoutes) -> Endpoint:
    return Endpoint(
        method="POST",
        path=PATH,
        handler=routes.assess,
        summary="Assess the risk of a wallet",
        family="Wallets",
        answers=created_or_replayed(
            Answer("The assessment; absence is not clearance.", WalletAssessment, headers=LOCATION),
            WalletAssessment,
        ),
        access=WRITER,
        headers=(_KEY,),
        body=WalletAssessmentRequest,
        problems=(ProblemCode.ADDRESS_INVALID, *KEY_PROBLEMS),
        audits=(AuditAction.WALLET_ASSESSED,),
    )


def _assess_batch(routes: WalletRoutes) -> Endpoint:
    return Endpoint(
        method="POST",
        path=f"{PATH}/batch",
        handler=routes.assess_batch,
        summary="Assess the risk of up to 100 wallets",
        family="Wallets",
        answers=created_or_replayed(
            Answer("An assessment or a problem for each, in order.", WalletBatch), WalletBatch
        ),
        access=WRITER,
        headers=(_KEY,),
        body=WalletBatchRequest,
        problems=KEY_PROBLEMS,
        audits=(AuditAction.WALLET_ASSESSED,),
    )


def _read(routes: WalletRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"{PATH}/{{assessment_id}}",
        handler=routes.read,
        summary="Read a wallet assessment",
        family="Wallets",
        answers={HTTPStatus.OK: Answer("The assessment.", WalletAssessment)},
        access=READER,
        path_forms={"assessment_id": ASSESSMENT_FORM},
    )


def _list(routes: WalletRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=PATH,
        handler=routes.list_page,
        summary="List wallet assessments, newest first",
        family="Wallets",
        answers={HTTPStatus.OK: Answer("A page of assessments.", WalletAssessmentList)},
        access=READER,
        parameters=(
            Parameter("subject_id", "Those of one subject.", {"type": "string", "pattern": SUBJECT_PATTERN}),
            LIVEMODE,
            *PAGING.parameters,
        ),
    )
