"""A verification as pages of the console show it: images, values by source, checks, earlier ones."""

from contextlib import suppress
from typing import Any, Final

from app.http.case_actions import Viewer
from app.http.case_matches import found_by_verification
from app.http.case_movements import strip_of
from app.http.case_view import digits_hold, images_of, rows_of, scale_of, terms_of
from app.http.console import ask
from app.http.endpoints import Call
from app.http.routes.verifications import PATH as VERIFICATIONS
from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.explanations import Explanation, FieldState
from schemas.people import Permission
from schemas.problems import NotFound
from schemas.reviews import ReviewCase
from schemas.verifications import Verification
from streams.ports.errors import Erased
from streams.ports.records import RecordKind, Records
from streams.reviews.handler import viewed_index
from streams.verification.explanation import LAST4

MOST_EARLIER: Final = 6
"""Verifications of the subject that are shown."""

MOST_VIEWS: Final = 500


async def read_verification(call: Call, verification_id: str) -> Verification:
    """Return a verification as the interface answers it."""
    return Verification.model_validate(await ask(call, f"{VERIFICATIONS}/{verification_id}"))


async def explained(
    call: Call, records: Records, verification: Verification, viewer: Viewer, case: ReviewCase | None = None
) -> dict[str, Any]:
    """Return the values of the templates that show a verification, with the reasons of its case if given.

    A view of personal values is audited, as the route of explanations does it.
    """
    path = f"{VERIFICATIONS}/{verification.verification_id}/explanation"
    explanation = Explanation.model_validate(await ask(call, path))
    rows = rows_of(explanation.fields)
    reasons, risk = (verification.reasons, explanation.risk) if case is None else (case.reasons, case.risk)
    return {
        **await _images(call, records, verification, viewer),
        "verification": verification,
        "terms": terms_of(reasons, risk, explanation.checks, rows),
        "risk_sum": risk,
        "checks": explanation.checks,
        "rows": rows,
        "marked": any(row.quads for row in rows),
        "differing": sum(row.state is FieldState.DIFFERS for row in rows),
        "digits": digits_hold(explanation.fields),
        "numbered": any(row.key == LAST4 for row in rows),
        "scale": scale_of(verification, explanation.thresholds),
        "earlier": await _earlier(call, verification),
    }


async def _images(call: Call, records: Records, verification: Verification, viewer: Viewer) -> dict[str, Any]:
    if not viewer.may(Permission.EVIDENCE_READ):
        return {"images": [], "looked": 0, "document": None, "faces": [], "strip": None, "found": ()}
    index = viewed_index(verification.verification_id, viewer.reviewer_id)
    views = await records.page(call.tenant_id, RecordKind.ACT, index, limit=MOST_VIEWS)
    images = images_of(verification, frozenset(view.body.decode() for view in views))
    stored = [one for one in images if not one.deleted]
    return {
        "images": stored,
        "looked": sum(one.seen for one in stored),
        "document": next((one for one in images if one.kind is EvidenceKind.IMAGE), None),
        "faces": [one for one in images if one.kind is not EvidenceKind.IMAGE],
        "strip": strip_of(verification, await _record(call, verification, EvidenceKind.LIVENESS_TRACE)),
        "found": found_by_verification(
            await _record(call, verification, EvidenceKind.SCREENING_RESULT) or ()
        ),
    }


async def _record(call: Call, verification: Verification, kind: EvidenceKind) -> Any:
    """Return what a piece of evidence that is a record says; None where there is none, or none any more.

    The look is audited, as the route of evidence does it.
    """
    document = verification.document.evidence if verification.document else ()
    every = (*document, *verification.evidence)
    first = next((one for one in every if one.kind is kind), None)
    if first is None or first.retention_policy is RetentionPolicy.REDACTED:
        return None
    with suppress(NotFound, Erased):
        return await ask(call, f"{VERIFICATIONS}/{verification.verification_id}/evidence/{first.id}")
    return None


async def _earlier(call: Call, verification: Verification) -> list[Verification]:
    """Return the subject's other verifications, newest first."""
    mode = "true" if verification.livemode else "false"
    query = {"subject_id": verification.subject_id, "livemode": mode, "limit": str(MOST_EARLIER + 1)}
    listed = await ask(call, VERIFICATIONS, query)
    every = [Verification.model_validate(one) for one in listed["verifications"]]
    return [one for one in every if one.verification_id != verification.verification_id][:MOST_EARLIER]
