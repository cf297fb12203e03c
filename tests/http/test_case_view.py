"""What the case page is drawn from: rows by source, scales, points, history, and what may be done."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.http.case_actions import Blocked, CaseActions, Viewer, actions_of
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
from schemas.enums import (
    CaseKind,
    CaseStatus,
    DecisionOutcome,
    EvidenceKind,
    ExtractionStatus,
    Recommendation,
    RetentionPolicy,
    ReviewStatus,
    RiskLevel,
    VerificationStatus,
)
from schemas.explanations import ExplainedCheck, ExplainedField
from schemas.ids import UserId
from schemas.people import PERMISSIONS_OF, Role
from schemas.reviews import CaseOutcome, ReviewCase
from schemas.tenant_settings import FourEyes
from schemas.verifications import Verification

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
EARLIER, LATER = NOW - timedelta(hours=2), NOW + timedelta(minutes=1)
ME, COLLEAGUE = UserId("usr_me"), UserId("usr_colleague")
REASON = {"code": "FACE_MATCH_UNCERTAIN", "message": "The selfie could not be matched with certainty."}


def build_case(**changes: Any) -> ReviewCase:
    """A case that waits."""
    values: dict[str, Any] = {
        "review_case_id": "rc_1", "kind": CaseKind.VERIFICATION, "subject_id": "customer-8841",
        "verification_id": "ver_1", "status": CaseStatus.OPEN, "risk_level": RiskLevel.MEDIUM,
        "recommendation": Recommendation.REJECTED, "review_status": ReviewStatus.PENDING,
        "reasons": (REASON,), "due_at": NOW + timedelta(hours=1), "livemode": True,
        "risk": {"points": 20, "level": "MEDIUM", "terms": [{"code": REASON["code"], "points": 20}]},
        "created_at": NOW - timedelta(days=1), "updated_at": NOW,
    }  # fmt: skip
    return ReviewCase.model_validate(values | changes)


def build_verification(**changes: Any) -> Verification:
    """A verification that a person looks at."""
    values: dict[str, Any] = {
        "verification_id": "ver_1", "subject_id": "customer-8841", "created_at": NOW,
        "status": VerificationStatus.REVIEW_REQUIRED, "decision": DecisionOutcome.REVIEW_REQUIRED,
        "decision_id": "dec_1", "review_status": ReviewStatus.PENDING, "risk_level": RiskLevel.MEDIUM,
        "distance": 0.54, "model_version": "dlib@1", "livemode": True,
    }  # fmt: skip
    return Verification.model_validate(values | changes)


def concluded(**by: Any) -> dict[str, Any]:
    """A first conclusion."""
    return {"reviewer_id": ME, "outcome": "REJECT", "note": "Altered.", "concluded_at": NOW, **by}


def act(case: ReviewCase, role: Role = Role.REVIEWER, **more: Any) -> CaseActions:
    """What a member of a role may do."""
    viewer = Viewer(ME, PERMISSIONS_OF[role])
    four_eyes = more.get("four_eyes", FourEyes.CRITICAL)
    return actions_of(case, more.get("verification"), viewer, four_eyes, NOW)


def test_sources_that_agree_are_one_value_and_others_stand_side_by_side() -> None:
    said: list[dict[str, Any]] = [
        {"key": "surname", "zone": "ERIKSSON", "page": "ERIKSSON", "declared": "Eriksson", "state": "SAME"},
        {"key": "date_of_birth", "zone": "1974-08-12", "page": "12 AUG 1979", "state": "DIFFERS"},
        {"key": "number_last4", "zone": "02C3", "declared": "02C3", "state": "SAME"},
        {"key": "mrz_checks", "zone": {"number": True, "composite": False}, "state": "ONE_SOURCE"},
        {"key": "address", "declared": "1 Main Street", "state": "ONE_SOURCE"},
    ]
    fields = [ExplainedField.model_validate(one) for one in said]

    rows = {row.key: row for row in rows_of(fields)}

    assert rows["surname"].values == (("", "ERIKSSON"),)
    assert rows["date_of_birth"].values == (("zone", "12 Aug 1974"), ("page", "12 AUG 1979"))
    assert (rows["number_last4"].values, rows["number_last4"].declared) == ((("zone", "…02C3"),), "…02C3")
    assert (rows["address"].values, rows["address"].declared) == ((), "1 Main Street")
    assert "mrz_checks" not in rows
    assert digits_hold(fields) is False


@pytest.mark.parametrize(
    ("left", "text", "late", "soon"),
    [
        (timedelta(hours=1, minutes=10), "1 h 10", False, True),
        (timedelta(minutes=-5), "5 min", True, False),
        (timedelta(hours=5, minutes=3), "5 h 03", False, False),
        (timedelta(days=-2, hours=-3), "2 d 3 h", True, False),
    ],
)
def test_due_is_how_far_away_it_is(left: timedelta, text: str, late: bool, soon: bool) -> None:  # noqa: FBT001
    due = due_of(NOW + left, NOW)

    assert (due.text, due.late, due.soon) == (text, late, soon)


@pytest.mark.parametrize(
    ("distance", "side", "share"), [(0.5, "same", 0.4545), (0.54, "unsure", 0.4909), (2.0, "other", 1.0)]
)
def test_a_distance_stands_on_the_scale_of_its_own_engine(distance: float, side: str, share: float) -> None:
    bands = {
        "sface": {"accept_at": 0.6, "reject_above": 0.7},
        "dlib": {"accept_at": 0.5, "reject_above": 0.6},
    }

    scale = scale_of(build_verification(distance=distance), {"face_bands": bands})

    assert scale is not None
    assert (scale.side, scale.share(distance)) == (side, share)
    assert (scale.share(0.5), scale.share(0.6)) == (0.4545, 0.5455)
    assert scale_of(build_verification(distance=None), {"face_bands": bands}) is None
    assert scale_of(build_verification(), {}) is None


def test_a_reason_has_its_points_and_what_its_check_found() -> None:
    detail = "Band UNCERTAIN, accept up to 0.5."
    check = ExplainedCheck.model_validate(
        {"kind": "FACE_MATCH", "verdict": "UNCLEAR", "reasons": [REASON["code"]], "detail": detail}
    )
    case = build_case()

    (term,) = terms_of(case.reasons, case.risk, [check])
    (bare,) = terms_of(case.reasons, None)
    (unsaid,) = terms_of((), case.risk, [check])

    assert (term.title, term.detail, term.points) == ("Face match uncertain", REASON["message"], 20)
    assert (bare.detail, bare.points) == (REASON["message"], None)
    assert (unsaid.detail, unsaid.points) == (detail, 20)
    assert title_of("MRZ_VISUAL_MISMATCH") == "MRZ visual mismatch"


def test_a_contradiction_names_its_fields() -> None:
    said: list[dict[str, Any]] = [
        {"key": "surname", "zone": "ERIKSSON", "declared": "Ericsson", "state": "DIFFERS"},
        {"key": "date_of_birth", "zone": "1974-08-12", "page": "12 AUG 1979", "state": "DIFFERS"},
        {"key": "sex", "zone": "F", "declared": "F", "state": "SAME"},
    ]
    codes = ("DECLARED_FIELD_MISMATCH", "MRZ_VISUAL_MISMATCH", "DOCUMENT_EXPIRED")
    case = build_case(reasons=[{"code": code, "message": "x"} for code in codes], risk=None)

    terms = terms_of(case.reasons, None, rows=rows_of([ExplainedField.model_validate(one) for one in said]))

    assert [term.fields for term in terms] == [("surname",), ("date_of_birth",), ()]


def test_images_come_document_first_and_say_what_was_deleted_and_seen() -> None:
    def piece(one: str, kind: str, retention: str = "BIOMETRIC_P30D") -> dict[str, Any]:
        return {"id": one, "kind": kind, "retention_policy": retention, "location": "x"}

    document = {
        "document_type": "PASSPORT", "extraction_status": ExtractionStatus.EXTRACTED,
        "evidence": [piece("evd_3", "EXTRACTION"), piece("evd_2", "PORTRAIT")],
    }  # fmt: skip
    evidence = [piece("evd_1", "SELFIE", RetentionPolicy.REDACTED), piece("evd_0", "IMAGE")]

    images = images_of(build_verification(document=document, evidence=evidence), frozenset({"evd_0"}))

    assert [(one.evidence_id, one.kind, one.deleted, one.seen) for one in images] == [
        ("evd_0", EvidenceKind.IMAGE, False, True),
        ("evd_2", EvidenceKind.PORTRAIT, False, False),
        ("evd_1", EvidenceKind.SELFIE, True, False),
    ]
    assert images[0].address == "/v1/verifications/ver_1/evidence/evd_0"


def test_a_history_is_in_order_and_has_names() -> None:
    note = {
        "note_id": "nt_1",
        "author_id": COLLEAGUE,
        "text": "Worn.",
        "created_at": EARLIER,
    }
    lease = {"assignee": ME, "lease_expires_at": NOW + timedelta(minutes=29), "status": "IN_REVIEW"}

    entries = history_of(build_case(notes=[note], **lease), {COLLEAGUE: "Tunde", ME: "Ada"})

    assert [(one.what, one.author, one.text) for one in entries] == [
        ("opened", "", ""), ("noted", "Tunde", "Worn."), ("claimed", "Ada", ""),
    ]  # fmt: skip
    assert entries[-1].at == NOW - timedelta(minutes=1)


@pytest.mark.parametrize(
    ("changes", "role", "blocked"),
    [
        ({}, Role.REVIEWER, None),
        ({}, Role.ADMIN, Blocked.ROLE),
        ({}, Role.AUDITOR, Blocked.ROLE),
        ({"status": "ESCALATED"}, Role.REVIEWER, Blocked.LEAD),
        ({"status": "ESCALATED"}, Role.COMPLIANCE_LEAD, None),
        ({"kind": "APPEAL"}, Role.REVIEWER, Blocked.LEAD),
        ({"status": "CONCLUDED"}, Role.OWNER, Blocked.CONCLUDED),
        (
            {"assignee": COLLEAGUE, "lease_expires_at": NOW + timedelta(minutes=1)},
            Role.OWNER,
            Blocked.CLAIMED,
        ),
        ({"assignee": COLLEAGUE, "lease_expires_at": NOW - timedelta(minutes=1)}, Role.REVIEWER, None),
        ({"status": "AWAITING_SECOND", "first_conclusion": concluded()}, Role.OWNER, Blocked.FIRST),
        (
            {"status": "AWAITING_SECOND", "first_conclusion": concluded(reviewer_id=COLLEAGUE)},
            Role.REVIEWER,
            None,
        ),
    ],
)
def test_a_conclusion_is_offered_to_who_may_make_it(
    changes: dict[str, Any], role: Role, blocked: Blocked | None
) -> None:
    offered = act(build_case(**changes), role)

    assert offered.blocked is blocked
    assert [one.outcome for one in offered.choices] == ([] if blocked else [*CaseOutcome])


def test_what_a_conclusion_does_is_known_before_it_is_made() -> None:
    critical = build_case(risk_level="CRITICAL")
    first = {"status": "AWAITING_SECOND", "first_conclusion": concluded(reviewer_id=COLLEAGUE)}

    def effects(case: ReviewCase, four_eyes: FourEyes) -> list[tuple[bool, bool]]:
        return [(one.overturns, one.waits) for one in act(case, four_eyes=four_eyes).choices]

    assert effects(build_case(), FourEyes.CRITICAL) == [(True, False), (False, False), (False, False)]
    assert effects(build_case(), FourEyes.OVERTURN) == [(True, True), (False, False), (False, False)]
    assert effects(critical, FourEyes.CRITICAL) == [(True, True), (False, True), (False, False)]
    assert effects(build_case(**first), FourEyes.ALWAYS) == [(True, False), (False, False), (False, False)]


def test_moves_are_offered_as_the_case_stands() -> None:
    mine = act(build_case(assignee=ME, lease_expires_at=NOW + timedelta(minutes=1)))
    done, final = (
        build_case(status="CONCLUDED"),
        build_verification(status="REJECTED", review_status="APPROVED"),
    )

    free, seen = act(build_case()), act(build_case(), Role.AUDITOR)
    ended, lead = act(done, verification=final), act(done, Role.COMPLIANCE_LEAD, verification=final)

    assert (free.claim, free.release, free.assign, free.escalate, free.reopen) == (
        True,
        False,
        True,
        True,
        False,
    )
    assert (mine.claim, mine.release, mine.mine) == (False, True, True)
    assert not any((seen.claim, seen.assign, seen.note, seen.escalate, seen.appeal))
    assert (ended.note, ended.appeal, ended.reopen, ended.claim) == (True, True, False, False)
    assert lead.reopen
    assert not act(done, verification=build_verification()).appeal
