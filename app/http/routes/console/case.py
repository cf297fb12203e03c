"""`/console/review-cases/{id}`: a review case with what it is about and what may be done with it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aiohttp import web

from app.http.case_actions import CaseActions, Viewer, actions_of
from app.http.case_matches import FoundMatches, found_by_screening, found_by_transaction, may_be_judged
from app.http.case_view import due_of, history_of, terms_of, title_of
from app.http.console import Console, ask, ask_tagged, console_page
from app.http.endpoints import Call, Endpoint
from app.http.routes.console.explained import explained, read_verification
from app.http.routes.console.queue import PATH as QUEUE
from app.http.routes.name_screenings import PATH as SCREENINGS
from app.http.routes.people import PEOPLE
from app.http.routes.review_cases.queue import PATH as CASES
from app.http.routes.review_cases.routes import CASE_FORM
from schemas.audit import AuditAction
from schemas.name_screenings import NameScreening
from schemas.people import PERMISSIONS_OF, Permission
from schemas.reasons import ReasonCode
from schemas.reviews import ReviewCase
from schemas.verifications import Verification
from streams.tenants.settings import read_settings

PATH: Final = f"{QUEUE}/{{review_case_id}}"
_OF_CONCLUSIONS: Final = {ReasonCode.REVIEWER_APPROVED, ReasonCode.REVIEWER_REJECTED}


@dataclass(frozen=True, slots=True)
class CasePages:
    """Draws one case."""

    console: Console

    async def show(self, call: Call) -> web.Response:
        """Answer the case as it stands."""
        said, version = await ask_tagged(call, f"{CASES}/{call.path_value('review_case_id')}")
        case = ReviewCase.model_validate(said)
        viewer = Viewer(call.person.reviewer_id, PERMISSIONS_OF[call.person.role])
        verification = await read_verification(call, case.verification_id) if case.verification_id else None
        settings = await read_settings(self.console.records, call.tenant_id)
        now = self.console.clock()
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
        }
        return await self.console.show(call, "case.html", place="review", livemode=case.livemode, **values)

    async def _body(
        self, call: Call, case: ReviewCase, verification: Verification | None, viewer: Viewer
    ) -> dict[str, Any]:
        """Return what the case is about: a verification explained, a transaction or a screening."""
        if verification is not None:
            shown = await explained(call, self.console.records, verification, viewer, case)
            return {**shown, "judgeable": may_be_judged(shown["found"])}
        transaction, screening, found = None, None, tuple[FoundMatches, ...]()
        if case.transaction_id is not None and viewer.may(Permission.TRANSACTIONS_READ):
            transaction = await ask(call, f"/v1/transactions/{case.transaction_id}")
            found = found_by_transaction(transaction)
        if case.screening_id is not None and viewer.may(Permission.SCREENINGS_READ):
            screening = NameScreening.model_validate(await ask(call, f"{SCREENINGS}/{case.screening_id}"))
            found = found_by_screening(screening)
        return {
            "verification": None,
            "transaction": transaction,
            "screening": screening,
            "found": found,
            "judgeable": may_be_judged(found),
            "terms": terms_of(case.reasons, case.risk),
            "risk_sum": case.risk,
            "images": (),
        }


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
    return [*listed["flows"]]


def case_page_endpoints(pages: CasePages) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    page = console_page(PATH, pages.show, "Show a review case", {"review_case_id": CASE_FORM})
    return (replace(page, audits=(AuditAction.EVIDENCE_VIEWED,)),)
