"""`/v1/transactions`: screen one, read one, list them (G39, G129)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import IDEMPOTENCY, Access, Answer, Call, Credential, Endpoint, Parameter
from app.http.headers import idempotency_key
from app.http.idempotent_create import LOCATION, REPLAYED, created_at, created_or_replayed
from app.http.listing import LIVEMODE, Listed, Page, Paging, modes, moment, page_of, place_of, text, word
from app.http.ports import FrontPorts
from app.http.presented_transactions import PresentedTransactions
from app.http.responses import json_answer, json_list
from app.intake.verifications import RequestContext
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import DecisionOutcome, RiskLevel, Scope
from schemas.ids import SubjectId, TenantId
from schemas.people import Permission
from schemas.problems import FieldProblem, NotFound, ProblemCode, Refused
from schemas.transaction_decisions import StoredTransaction, Transaction, TransactionDetail
from schemas.transactions import OUTCOME_CLASS, OutcomeClass, TransactionRequest, TransactionType
from schemas.verifications import SUBJECT_PATTERN
from streams.ports.records import Position, Record, RecordKind
from streams.transactions.records import by_decision, by_reference
from streams.verification.records import Index, by_mode, by_subject

PATH: Final = "/v1/transactions"
PAGING: Final = Paging(usual=25, most=100)
"""G88."""

TRANSACTION_FORM: Final = r"txn_[0-9a-hjkmnp-tv-z]{26}"

SCANNED: Final = 2_000
"""So many transactions one request looks through for its filters; then the page is shorter."""

_CHUNK: Final = 200

READER: Final = Access(
    frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
    scope=Scope.TRANSACTIONS_READ,
    permission=Permission.TRANSACTIONS_READ,
)
WRITER: Final = Access(frozenset({Credential.TENANT_KEY}), scope=Scope.TRANSACTIONS_WRITE)


class TransactionList(Frozen):
    """A page of transactions, newest first."""

    transactions: tuple[Transaction, ...]
    next_cursor: str | None
    """Null at the end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which transactions are asked for; None: any."""

    subject_id: SubjectId | None
    decision: DecisionOutcome | None
    type: TransactionType | None
    outcome: OutcomeClass | None
    risk_level: RiskLevel | None
    reference: str | None
    policy_revision: int | None
    since: datetime | None
    until: datetime | None

    def index(self, livemode: bool) -> Index:  # noqa: FBT001 - the interface's own word for it
        """Return the shortest list of a mode that holds all of them."""
        if self.reference is not None:
            return by_reference(livemode, self.reference)
        if self.subject_id is not None:
            return by_subject(livemode, self.subject_id)
        return by_mode(livemode) if self.decision is None else by_decision(livemode, self.decision)

    def admits(self, record: Record) -> bool:
        """Return whether a transaction is meant."""
        one = StoredTransaction.from_bytes(record.body).transaction
        return (
            self.subject_id in (None, one.subject_id)
            and self.decision in (None, one.decision)
            and self.type in (None, one.type)
            and self.outcome in (None, OUTCOME_CLASS[one.decision])
            and self.risk_level in (None, one.risk_level)
            and self.reference in (None, one.reference)
            and self.policy_revision in (None, one.policy.revision)
        )


@dataclass(frozen=True, slots=True)
class TransactionRoutes:
    """What the routes of transactions do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors
    presented: PresentedTransactions

    async def submit(self, call: Call) -> web.Response:
        """Decide whether the money may move; a replayed key answers 200 with the first result."""
        key = required_key(call)
        body = await self.bodies.read(call, TransactionRequest)
        asked = RequestContext(call.caller, call.request_id, key, call.address)
        submitted = await self.ports.transactions.submit(body, asked, key)
        stored = StoredTransaction.from_bytes(submitted.record.first_body or submitted.record.body)
        answer = await self.presented.answer(call.tenant_id, stored)
        if stored.request_id != call.request_id:
            return json_answer(answer, headers={REPLAYED: "true"})
        return json_answer(answer, HTTPStatus.CREATED, created_at(PATH, stored.transaction.transaction_id))

    async def read(self, call: Call) -> web.Response:
        """Answer one transaction of the caller's tenant and mode as it stands."""
        record = await self.ports.stores.records.get(
            call.tenant_id, RecordKind.TRANSACTION, call.path_value("transaction_id")
        )
        stored = StoredTransaction.from_bytes(record.body)
        if stored.transaction.livemode not in modes(call):
            raise NotFound
        return json_answer(await self.presented.detail(call.tenant_id, stored))

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of transactions as they stand, newest first."""
        query, seen = call.request.query, modes(call)
        wanted = _wanted(query)
        filters = {name: query[name] for name in sorted(query) if name not in {"limit", "cursor", "livemode"}}
        scope = _scope(call.tenant_id, seen, filters)
        cursor = query.get("cursor")
        before = self.cursors.read(cursor, scope) if cursor is not None else None
        if before is None and wanted.until is not None:
            before = Position(wanted.until, "")
        listed = await self._admitted(call.tenant_id, seen, wanted, Page(PAGING.limit(query), before))
        stored = [StoredTransaction.from_bytes(record.body) for record in listed.records]
        rows = [await self.presented.answer(call.tenant_id, one) for one in stored]
        return json_list("transactions", rows, self.cursors.write_next(listed.following, scope))

    async def _admitted(
        self, tenant_id: TenantId, seen: Sequence[bool], wanted: Wanted, page: Page
    ) -> Listed:
        """Return the page of those that the filters admit."""
        found: list[Record] = []
        before, scanned = page.before, 0
        while page.limit and scanned < SCANNED:
            chunk = await page_of(
                self.ports.stores.records,
                tenant_id,
                RecordKind.TRANSACTION,
                seen,
                wanted.index,
                Page(_CHUNK, before),
            )
            for record in chunk.records:
                if wanted.since is not None and record.created_at < wanted.since:
                    return Listed(found)
                if wanted.admits(record):
                    if len(found) == page.limit:
                        return Listed(found, place_of(found[-1]))
                    found.append(record)
            scanned += len(chunk.records)
            before = chunk.following
            if before is None:
                return Listed(found)
        return Listed(found, before)


def required_key(call: Call) -> str:
    """Return the Idempotency-Key of a route that moves money.

    Raises:
        Refused: IDEMPOTENCY_KEY_REQUIRED, IDEMPOTENCY_KEY_INVALID.
    """
    key = idempotency_key(call.request)
    if key is None:
        code = ProblemCode.IDEMPOTENCY_KEY_REQUIRED
        message = "Send an Idempotency-Key: a duplicated transaction is a duplicated financial record."
        raise Refused.because(code, message, FieldProblem(code=code, message=message, header=IDEMPOTENCY))
    return key


def _wanted(query: Mapping[str, str]) -> Wanted:
    """Read the filters.

    Raises:
        Refused: FILTER_INVALID.
    """
    subject = text(query, "subject_id", SUBJECT_PATTERN)
    revision = text(query, "policy_revision", r"[0-9]{1,9}")
    return Wanted(
        subject_id=None if subject is None else SubjectId(subject),
        decision=word(query, "decision", DecisionOutcome),
        type=word(query, "type", TransactionType),
        outcome=word(query, "outcome", OutcomeClass),
        risk_level=word(query, "risk_level", RiskLevel),
        reference=text(query, "reference", r"[^\x00-\x1f\x7f]{1,128}"),
        policy_revision=None if revision is None else int(revision),
        since=moment(query, "from"),
        until=moment(query, "to"),
    )


def _scope(tenant_id: TenantId, seen: Sequence[bool], filters: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a cursor of this list is bound to."""
    return {"list": PATH, "tenant": tenant_id, "live": str(seen), **filters}


def transaction_endpoints(routes: TransactionRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (_submit(routes), _list(routes), _read(routes))


def _submit(routes: TransactionRoutes) -> Endpoint:
    key = Parameter(
        IDEMPOTENCY,
        "Required. 1 to 255 printable ASCII characters, quoted or bare; one key, one transaction.",
        {"type": "string", "minLength": 1, "maxLength": 257},
    )
    return Endpoint(
        method="POST",
        path=PATH,
        handler=routes.submit,
        summary="Screen a transaction",
        family="Transactions",
        answers=created_or_replayed(
            Answer("The decision, with everything it was made by.", Transaction, headers=LOCATION),
            Transaction,
        ),
        access=WRITER,
        headers=(key,),
        body=TransactionRequest,
        problems=(
            ProblemCode.IDEMPOTENCY_KEY_REQUIRED,
            ProblemCode.IDEMPOTENCY_KEY_INVALID,
            ProblemCode.IDEMPOTENCY_KEY_REUSED,
            ProblemCode.DECISION_PENDING,
            ProblemCode.OVERLOADED,
        ),
        audits=(AuditAction.TRANSACTION_SCREENED, AuditAction.CASE_OPENED, AuditAction.SUBJECT_SUSPENDED),
        description="The money waits for the answer at most 2 seconds. After that `DECISION_PENDING` says "
        "that nothing is decided yet; the same request with the same key finds the decision.",
    )


def _read(routes: TransactionRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"{PATH}/{{transaction_id}}",
        handler=routes.read,
        summary="Read a transaction",
        family="Transactions",
        answers={HTTPStatus.OK: Answer("The transaction as it stands.", TransactionDetail)},
        access=READER,
        path_forms={"transaction_id": TRANSACTION_FORM},
    )


def _list(routes: TransactionRoutes) -> Endpoint:
    instant = {"type": "string", "format": "date-time"}
    return Endpoint(
        method="GET",
        path=PATH,
        handler=routes.list_page,
        summary="List transactions, newest first",
        family="Transactions",
        answers={HTTPStatus.OK: Answer("A page of transactions as they stand.", TransactionList)},
        access=READER,
        parameters=(
            Parameter("subject_id", "Those of one subject.", {"type": "string", "pattern": SUBJECT_PATTERN}),
            Parameter("decision", "Those with one decision.", {"enum": [*DecisionOutcome]}),
            Parameter("type", "Those of one type.", {"enum": [*TransactionType]}),
            Parameter("outcome", "Those whose money moves, waits or stops.", {"enum": [*OutcomeClass]}),
            Parameter("risk_level", "Those of one risk level.", {"enum": [*RiskLevel]}),
            Parameter("reference", "Those with the tenant's own id.", {"type": "string", "maxLength": 128}),
            Parameter("policy_revision", "Those decided by one revision.", {"type": "integer", "minimum": 0}),
            Parameter("from", "Those screened at this time or later.", instant),
            Parameter("to", "Those screened before this time.", instant),
            LIVEMODE,
            *PAGING.parameters,
        ),
    )
