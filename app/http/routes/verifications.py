"""`/v1/verifications`: submit one, read one, list them (interface section 4.4, G30, G31)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import MEBIBYTE, Access, Answer, Call, Credential, Endpoint, Parameter
from app.http.headers import idempotency_key
from app.http.idempotent_create import LOCATION, REPLAYED, created_at, created_or_replayed
from app.http.listing import LIVEMODE, Page, Paging, modes, page_of, text, word
from app.http.ports import FrontPorts
from app.http.presenters import Presenter
from app.http.responses import json_answer, json_list
from app.intake.body import SubmitBody
from app.intake.verifications import RequestContext
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import Scope, VerificationStatus
from schemas.ids import SubjectId, TenantId, drawn_at, is_derived
from schemas.people import Permission
from schemas.problems import NotFound, ProblemCode
from schemas.verifications import SUBJECT_PATTERN, StoredVerification, Verification
from streams.ports.records import RecordKind
from streams.verification.records import Index, by_mode, by_status, by_subject, by_subject_and_status

PATH: Final = "/v1/verifications"
PAGING: Final = Paging(usual=25, most=100)
"""G88."""

BODY_LIMIT: Final = 28 * MEBIBYTE
"""Two images of 10 MB in base64 and the rest (G61)."""

PENDING: Final = timedelta(hours=1)
"""How long a verification may wait in the log: longer than a restart or a full queue of a deployment takes.
Afterwards the command was refused, or nobody drew the id."""

RETRY_AFTER_S: Final = 2
"""As with DECISION_PENDING: a decision by the packaged engines takes about a second."""

VERIFICATION_FORM: Final = r"ver_[0-9a-hjkmnp-tv-z]{26}"

READER: Final = Access(
    frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
    scope=Scope.VERIFICATIONS_READ,
    permission=Permission.VERIFICATIONS_READ,
)
WRITER: Final = Access(frozenset({Credential.TENANT_KEY}), scope=Scope.VERIFICATIONS_WRITE)


class VerificationList(Frozen):
    """A page of verifications, newest first."""

    verifications: tuple[Verification, ...]
    next_cursor: str | None
    """Null at the end."""


@dataclass(frozen=True, slots=True)
class VerificationRoutes:
    """What the routes of verifications do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors
    presenter: Presenter

    async def submit(self, call: Call) -> web.Response:
        """Evaluate a document and a selfie; a replayed key answers 200 with the first result."""
        key = idempotency_key(call.request)
        body = await self.bodies.read(call, SubmitBody)
        asked = RequestContext(call.caller, call.request_id, key, call.address)
        submitted = await self.ports.intake.submit(body, asked)
        stored = StoredVerification.from_bytes(submitted.record.first_body or submitted.record.body)
        answer = await self.presenter.present(call.caller.tenant_id, stored)
        self.ports.metrics.decided.labels(stored.verification.status, str(submitted.replayed).lower()).inc()
        if submitted.replayed:
            return json_answer(answer, headers={REPLAYED: "true"})
        return json_answer(answer, HTTPStatus.CREATED, created_at(PATH, stored.verification.verification_id))

    async def read(self, call: Call) -> web.Response:
        """Answer one verification of the caller's tenant and mode; any other is not found.

        Not found carries `Retry-After` while it may still be decided (R8).
        """
        verification_id = call.path_value("verification_id")
        try:
            stored = await find_stored(self.ports, call, verification_id)
        except NotFound:
            if may_be_pending(verification_id, self.ports.clock()):
                call.headers["Retry-After"] = str(RETRY_AFTER_S)
            raise
        return json_answer(await self.presenter.present(call.tenant_id, stored))

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of verifications, newest first."""
        query, seen = call.request.query, modes(call)
        subject = text(query, "subject_id", SUBJECT_PATTERN)
        status = word(query, "status", VerificationStatus)
        scope = scope_of(call.tenant_id, seen, subject_id=subject or "", status=status or "")
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        listed = await page_of(
            self.ports.stores.records,
            call.tenant_id,
            RecordKind.VERIFICATION,
            seen,
            lambda livemode: index_of(livemode, subject, status),
            page,
        )
        rows = [
            await self.presenter.present(call.tenant_id, StoredVerification.from_bytes(record.body))
            for record in listed.records
        ]
        return json_list("verifications", rows, self.cursors.write_next(listed.following, scope))


async def find_stored(ports: FrontPorts, call: Call, verification_id: str) -> StoredVerification:
    """Return a verification of the caller's tenant and mode, or raise `NotFound`."""
    record = await ports.stores.records.get(call.tenant_id, RecordKind.VERIFICATION, verification_id)
    stored = StoredVerification.from_bytes(record.body)
    if stored.livemode not in modes(call):
        raise NotFound
    return stored


def may_be_pending(verification_id: str, at: datetime) -> bool:
    """Return whether an id that names no verification yet may name one later.

    Only the id is looked at, so every front answers alike, after a restart too. The id of a request without
    a key has the time in it at which it was drawn; that of a request with one has none, and its key finds
    out what became of the request.
    """
    drawn = drawn_at(verification_id)
    if drawn is None:
        return is_derived(verification_id)
    return abs(at - drawn) < PENDING


def index_of(
    livemode: bool,  # noqa: FBT001 - the interface's own word for it
    subject: str | None,
    status: VerificationStatus | None,
) -> Index:
    """Return the index of the requested verifications of one mode."""
    if subject is None:
        return by_mode(livemode) if status is None else by_status(livemode, status)
    subject_id = SubjectId(subject)
    if status is None:
        return by_subject(livemode, subject_id)
    return by_subject_and_status(livemode, subject_id, status)


def scope_of(tenant_id: TenantId, seen: Sequence[bool], **filters: str) -> Mapping[str, str]:
    """Return what a cursor of this list is bound to."""
    return {"list": PATH, "tenant": tenant_id, "live": str(seen), **filters}


def verification_endpoints(routes: VerificationRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (_submit(routes), _list(routes), _read(routes))


def _submit(routes: VerificationRoutes) -> Endpoint:
    key = Parameter(
        "Idempotency-Key",
        "1 to 255 printable ASCII characters, quoted or bare; the same key answers the same verification.",
        {"type": "string", "minLength": 1, "maxLength": 257},
    )
    return Endpoint(
        method="POST",
        path=PATH,
        handler=routes.submit,
        summary="Evaluate a document and a selfie",
        family="Verifications",
        answers=created_or_replayed(
            Answer("The verification, evaluated.", Verification, headers=LOCATION), Verification
        ),
        access=WRITER,
        headers=(key,),
        body=SubmitBody,
        body_limit=BODY_LIMIT,
        problems=(
            ProblemCode.IMAGE_UNDECODABLE,
            ProblemCode.IDEMPOTENCY_KEY_INVALID,
            ProblemCode.IMAGE_NOT_EVALUABLE,
            ProblemCode.DOCUMENT_UNUSABLE,
            ProblemCode.IDEMPOTENCY_KEY_REUSED,
            ProblemCode.DECISION_PENDING,
            ProblemCode.OVERLOADED,
        ),
        store_failure=ProblemCode.STORE_FAILED,
        audits=(AuditAction.VERIFICATION_EVALUATED, AuditAction.CASE_OPENED),
        limited_as="verifications",
    )


def _read(routes: VerificationRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"{PATH}/{{verification_id}}",
        handler=routes.read,
        summary="Read a verification",
        family="Verifications",
        answers={HTTPStatus.OK: Answer("The verification as it stands.", Verification)},
        access=READER,
        path_forms={"verification_id": VERIFICATION_FORM},
        description="While the verification that a `DECISION_PENDING` names is not decided, this is 404 with "
        "`Retry-After`.",
    )


def _list(routes: VerificationRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=PATH,
        handler=routes.list_page,
        summary="List verifications, newest first",
        family="Verifications",
        answers={HTTPStatus.OK: Answer("A page of verifications.", VerificationList)},
        access=READER,
        parameters=(
            Parameter("subject_id", "Those of one subject.", {"type": "string", "pattern": SUBJECT_PATTERN}),
            Parameter("status", "Those in one status.", {"enum": [*VerificationStatus]}),
            LIVEMODE,
            *PAGING.parameters,
        ),
    )
