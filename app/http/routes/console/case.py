"""`/console/review-cases/{id}`: a review case with what it is about and what may be done with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from app.http.case_actions import CaseActions, Viewer, actions_of
from app.http.case_view import (
    digits_hold,
    due_of,
    history_of,
    images_of,
    rows_of,
    scale_of,
    terms_of,
    title_of,
)
from app.http.console import Console, ask, ask_tagged, console_page
from app.http.endpoints import Call, Endpoint
from app.http.routes.console.queue import PATH as QUEUE
from app.http.routes.people import PEOPLE, PREFERENCES
from app.http.routes.review_cases.routes import CASE_FORM
from app.http.routes.review_cases.routes import PATH as CASES
from app.http.routes.verifications import PATH as VERIFICATIONS
from schemas.audit import AuditAction
from schemas.enums import EvidenceKind
from schemas.explanations import Explanation, FieldState
from schemas.people import PERMISSIONS_OF, Permission
from schemas.reasons import ReasonCode
from schemas.reviews import ReviewCase
from schemas.verifications import Verification
from streams.ports.records import RecordKind, Records
from streams.reviews.handler import viewed_index
from streams.tenants.settings import read_settings
from streams.verification.explanation import LAST4

PATH: Final = f"{QUEUE}/{{review_case_id}}"
MOST_EARLIER: Final = 6
"""Verifications of the subject that are shown."""

MOST_VIEWS: Final = 500
_OF_CONCLUSIONS: Final = {ReasonCode.REVIEWER_APPROVED, ReasonCode.REVIEWER_REJECTED}


@dataclass(frozen=True, slots=True)
class CasePages:
    """Draws one case."""

    console: Console
    records: Records
    clock: Callable[[], datetime]

    async def show(self, call: Call) -> web.Response:
        """Answer the case as it stands."""
        said, version = await ask_tagged(call, f"{CASES}/{call.path_value('review_case_id')}")
        case = ReviewCase.model_validate(said)
        viewer = Viewer(call.person.reviewer_id, PERMISSIONS_OF[call.person.role])
        verification = await self._verification(call, case)
        settings = await read_settings(self.records, call.tenant_id)
        now = self.clock()
        actions = actions_of(case, verification, viewer, settings.four_eyes, now)
        people = (await ask(call, PEOPLE))["people"]
        names = {str(one["reviewer_id"]): str(one["name"]) for one in people}
        body = await self._body(call, case, verification, viewer)
        values = {
            **body,
            **_reasons(case),
            "case": said,
            "version": version,
            "actions": actions,
            "due": due_of(case.due_at, now),
            "history": history_of(case, names),
            "name_of": lambda reviewer_id: names.get(reviewer_id, ""),
            "colleagues": _colleagues(people, viewer, actions),
            "flows": await _flows(call, actions),
            "single_keys": (await ask(call, PREFERENCES))["single_keys"],
        }
        return await self.console.show(call, "case.html", place="review", livemode=case.livemode, **values)

    async def _body(
        self, call: Call, case: ReviewCase, verification: Verification | None, viewer: Viewer
    ) -> dict[str, Any]:
        """Return what the case is about: a verification explained, a transaction, or neither."""
        if verification is not None:
            return await self._explained(call, case, verification, viewer)
        transaction = None
        if case.transaction_id is not None and viewer.may(Permission.TRANSACTIONS_READ):
            transaction = await ask(call, f"/v1/transactions/{case.transaction_id}")
        return {"verification": None, "transaction": transaction, "terms": terms_of(case), "images": ()}

    async def _explained(
        self, call: Call, case: ReviewCase, verification: Verification, viewer: Viewer
    ) -> dict[str, Any]:
        path = f"{VERIFICATIONS}/{verification.verification_id}/explanation"
        explanation = Explanation.model_validate(await ask(call, path))
        rows = rows_of(explanation.fields)
        index = viewed_index(verification.verification_id, viewer.reviewer_id)
        views = await self.records.page(call.tenant_id, RecordKind.ACT, index, limit=MOST_VIEWS)
        seen = frozenset(view.body.decode() for view in views)
        images = images_of(verification, seen) if viewer.may(Permission.EVIDENCE_READ) else ()
        stored = [one for one in images if not one.deleted]
        return {
            "verification": verification,
            "terms": terms_of(case, explanation.checks, rows),
            "checks": explanation.checks,
            "rows": rows,
            "marked": any(row.quads for row in rows),
            "differing": sum(row.state is FieldState.DIFFERS for row in rows),
            "digits": digits_hold(explanation.fields),
            "numbered": any(row.key == LAST4 for row in rows),
            "scale": scale_of(verification, explanation.thresholds),
            "images": stored,
            "looked": sum(one.seen for one in stored),
            "document": next((one for one in images if one.kind is EvidenceKind.IMAGE), None),
            "faces": [one for one in images if one.kind is not EvidenceKind.IMAGE],
            "earlier": await _earlier(call, verification),
        }

    async def _verification(self, call: Call, case: ReviewCase) -> Verification | None:
        if case.verification_id is None:
            return None
        return Verification.model_validate(await ask(call, f"{VERIFICATIONS}/{case.verification_id}"))


def _reasons(case: ReviewCase) -> dict[str, list[tuple[str, str]]]:
    """Return the reasons that may be given: those of the case itself, and all others."""
    own = [code for code in dict.fromkeys(str(one.code) for one in case.reasons) if code in set(ReasonCode)]
    others = sorted((title_of(code), str(code)) for code in set(ReasonCode) - _OF_CONCLUSIONS - set(own))
    return {
        "own_reasons": [(code, title_of(code)) for code in own],
        "other_reasons": [(code, title) for title, code in others],
    }


def _colleagues(
    people: list[Mapping[str, Any]], viewer: Viewer, actions: CaseActions
) -> list[Mapping[str, Any]]:
    """Return whom the case may be given to."""
    if not actions.assign:
        return []
    return [one for one in people if one["active"] and one["reviewer_id"] != viewer.reviewer_id]


async def _flows(call: Call, actions: CaseActions) -> list[Mapping[str, Any]]:
    """Return the flows in which a subject may be asked again."""
    if actions.blocked:
        return []
    listed = await ask(call, "/v1/verification-flows", {"status": "ACTIVE", "limit": "100"})
    flows: list[Mapping[str, Any]] = listed["flows"]
    return flows


async def _earlier(call: Call, verification: Verification) -> list[Verification]:
    """Return the subject's verifications before this one, newest first."""
    mode = "true" if verification.livemode else "false"
    query = {"subject_id": verification.subject_id, "livemode": mode, "limit": str(MOST_EARLIER + 1)}
    listed = await ask(call, VERIFICATIONS, query)
    every = [Verification.model_validate(one) for one in listed["verifications"]]
    return [one for one in every if one.verification_id != verification.verification_id][:MOST_EARLIER]


def case_page_endpoints(pages: CasePages) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    page = console_page(PATH, pages.show, "Show a review case", {"review_case_id": CASE_FORM})
    return (replace(page, audits=(AuditAction.EVIDENCE_VIEWED,)),)
