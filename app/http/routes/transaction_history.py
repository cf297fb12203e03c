"""`POST /v1/transactions/history`: import transactions of the past (G119)."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from pydantic import ValidationError

from app.http.bodies import MAX_ERRORS, BodyReader, field_problem
from app.http.endpoints import IDEMPOTENCY, Answer, Call, Endpoint, Parameter
from app.http.idempotent_create import REPLAYED
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.transactions import PATH, WRITER, required_key
from app.intake.history import ParsedHistory
from app.intake.verifications import RequestContext
from schemas.audit import AuditAction
from schemas.problems import ProblemCode
from schemas.transaction_history import (
    HistoricTransaction,
    HistoryImport,
    HistoryRequest,
    RejectedHistory,
    UncheckedHistory,
)

BODY_LIMIT: Final = 8 * 1024 * 1024
"""A thousand transactions with everything that one may have, but for metadata at its limits."""


BODY_SCALE: Final = 20
"""40,000 keys: 40 for each of a thousand transactions."""


@dataclass(frozen=True, slots=True)
class HistoryRoutes:
    """What the route of history does."""

    ports: FrontPorts
    bodies: BodyReader

    async def submit(self, call: Call) -> web.Response:
        """Import what is valid of the history and say what is not; nothing of it is decided."""
        key = required_key(call)
        body = await self.bodies.read(call, UncheckedHistory)
        asked = RequestContext(call.caller, call.request_id, key, call.address)
        result, replayed = await self.ports.history.submit(_parsed(body), asked, key)
        return json_answer(result.to_bytes(), headers={REPLAYED: "true"} if replayed else None)


def _parsed(body: UncheckedHistory) -> ParsedHistory:
    valid = dict[int, HistoricTransaction]()
    rejected = list[RejectedHistory]()
    for index, sent in enumerate(body.transactions):
        try:
            valid[index] = HistoricTransaction.model_validate(sent)
        except ValidationError as error:
            rejected.append(RejectedHistory(index=index, errors=_errors(index, error)))
    return ParsedHistory(body.transactions, valid, tuple(rejected))


def _errors(index: int, error: ValidationError) -> tuple[Any, ...]:
    found = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_ERRORS]
    placed: list[Mapping[str, Any]] = [{**one, "loc": ("transactions", index, *one["loc"])} for one in found]
    return tuple(field_problem(one) for one in placed)


def history_endpoints(routes: HistoryRoutes) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    key = Parameter(
        IDEMPOTENCY,
        "Required. 1 to 255 printable ASCII characters, quoted or bare; the same key answers the same.",
        {"type": "string", "minLength": 1, "maxLength": 257},
    )
    imported = Answer(
        "How many were imported, how many were known, and what is wrong with the others.",
        HistoryImport,
        headers={REPLAYED: "`true`: the key had been used; the first answer again."},
    )
    return (
        Endpoint(
            method="POST",
            path=f"{PATH}/history",
            handler=routes.submit,
            summary="Import transactions of the past",
            family="Transactions",
            answers={HTTPStatus.OK: imported},
            access=WRITER,
            headers=(key,),
            body=HistoryRequest,
            body_limit=BODY_LIMIT,
            body_scale=BODY_SCALE,
            problems=(
                ProblemCode.IDEMPOTENCY_KEY_REQUIRED,
                ProblemCode.IDEMPOTENCY_KEY_INVALID,
                ProblemCode.IDEMPOTENCY_KEY_REUSED,
                ProblemCode.DECISION_PENDING,
                ProblemCode.OVERLOADED,
            ),
            audits=(AuditAction.TRANSACTION_IMPORTED,),
            description="Feeds features, the ledger of wallets and backtests; nothing is decided, and no "
            "event is sent. A reference that is known counts once. After `DECISION_PENDING` the same "
            "request with the same key imports what is left.",
        ),
    )
