"""SANCTIONS, PEP and ADVERSE_MEDIA of a verification: the name that was read, against the lists (G133)."""

import json
from typing import Any

import pytest

from schemas.enums import CheckKind, CheckVerdict, DecisionOutcome, EvidenceKind, VerificationStatus
from schemas.reasons import ReasonCode
from schemas.tenant_settings import USUAL_CHECKS
from schemas.verifications import StoredVerification
from streams.ports.screening import Screening
from streams.verification.name_checks import target_of
from streams.verification.policy import VerificationPolicy
from tests.builders import ACME, build_fields, build_findings
from tests.handlers.verification_stage import Scene, Stage
from tests.http.support import SCREENING

LISTS = (CheckKind.SANCTIONS, CheckKind.PEP, CheckKind.ADVERSE_MEDIA)
LISTED = {"full_name": "ZOLTAN QARAVELI", "date_of_birth": "1970-01-01", "nationality": "SC"}
NAMELESS = {"full_name": None, "surname": None, "given_names": None}


async def decided(
    fields: dict[str, Any], screening: Screening | None = SCREENING, *, livemode: bool = False
) -> tuple[Stage, StoredVerification]:
    """Decide a verification whose document says so."""
    policy = VerificationPolicy(required_checks=(*USUAL_CHECKS, *LISTS))
    scene = Scene(findings=build_findings(fields=build_fields(**fields)))
    stage = Stage(scene, policy, screening=screening)
    await stage.submit(livemode=livemode)
    return stage, await stage.stored()


@pytest.mark.parametrize(
    ("fields", "decision", "reason"),
    [
        (LISTED, DecisionOutcome.BLOCK, ReasonCode.SANCTIONS_MATCH),
        (
            LISTED | {"date_of_birth": "1990-06-01", "nationality": "NG"},
            DecisionOutcome.REVIEW_REQUIRED,
            ReasonCode.SANCTIONS_POSSIBLE_MATCH,
        ),
        ({"full_name": "HONORATA QUILLFEATHER"}, DecisionOutcome.REVIEW_REQUIRED, ReasonCode.PEP_MATCH),
        (
            {"full_name": "CASIMIR WEXELBLATT"},
            DecisionOutcome.REVIEW_REQUIRED,
            ReasonCode.ADVERSE_MEDIA_MATCH,
        ),
        (NAMELESS, DecisionOutcome.REVIEW_REQUIRED, ReasonCode.EXTRACTION_INCOMPLETE),
        ({}, DecisionOutcome.ALLOW, None),
    ],
)
async def test_the_lists_decide_with_the_name_that_was_read(
    fields: dict[str, Any], decision: DecisionOutcome, reason: ReasonCode | None
) -> None:
    _, stored = await decided(fields)

    assert stored.verification.decision is decision
    assert [one.code for one in stored.verification.reasons] == ([] if reason is None else [reason])


@pytest.mark.parametrize("screening", [SCREENING, None])
async def test_without_a_list_the_verification_fails_and_holds_and_is_never_approved(
    screening: Screening | None,
) -> None:
    _, stored = await decided({}, screening, livemode=True)

    status, outcome = stored.verification.status, stored.verification.decision
    assert (status, outcome) == (VerificationStatus.FAILED, DecisionOutcome.HOLD)
    assert [one.code for one in stored.verification.reasons] == [ReasonCode.PROVIDER_UNAVAILABLE]
    verdicts = {one.verdict for one in stored.checks if one.kind in LISTS}
    assert verdicts == {CheckVerdict.BROKEN}


async def test_what_matched_is_sealed_evidence_and_stands_nowhere_else() -> None:
    stage, stored = await decided(LISTED)

    (evidence,) = [one for one in stored.verification.evidence if one.kind is EvidenceKind.SCREENING_RESULT]
    stored_answers = json.loads(await stage.stores.evidence.get(ACME, evidence.id))
    assert [one["check"] for one in stored_answers] == [*LISTS]
    assert stored_answers[0]["matches"][0]["entity_id"] == "sandbox-1"
    assert b"QARAVELI" not in stored.to_bytes().upper()


def test_a_document_names_whom_to_ask_for() -> None:
    slip = {"first_name": "ADA", "middle_name": "N", "surname": "OKAFOR", "nationality": "UTO"}

    target = target_of(slip | {"date_of_birth": "1974-13"})
    assert (target.name, target.birth_date, target.country) == ("ADA N OKAFOR", None, None)
