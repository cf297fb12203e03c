from dataclasses import replace

import pytest

from schemas.enums import CheckKind, CheckVerdict, ExtractionStatus, ReaderClass, Recommendation
from schemas.enums import VerificationStatus as Status
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import ReasonCategory, ReasonCode
from streams.verification.observations import DocumentFindings, Evaluation, ReuseFacts
from streams.verification.policy import VerificationPolicy
from streams.verification.reuse import duplicated, is_page, is_specimen, judged, worth_reading
from streams.verification.rules import decide, found, usual

POLICY = VerificationPolicy()
PAGE = DocumentFindings(ExtractionStatus.UNSUPPORTED, legible=True)


def evaluation(reuse: ReuseFacts | None = None, **changes: object) -> Evaluation:
    """One whose every check passed."""
    results = tuple(found(kind, (), detail="Seen.") for kind in POLICY.required_checks)
    return replace(Evaluation(results, None, reuse=reuse), **changes)  # type: ignore[arg-type]


REUSED = {
    "the document's picture": ReuseFacts(same_pixels=True),
    "a picture of a document": ReuseFacts(shows_document=True, parallax=1.9, copy_at=0.45),
    "a copy of the portrait": ReuseFacts(parallax=0.2, copy_at=0.45),
    "a copy at the threshold": ReuseFacts(parallax=0.45, copy_at=0.45),
}


@pytest.mark.parametrize("what", REUSED)
def test_a_reused_selfie_goes_to_a_person_with_the_advice_to_reject(what: str) -> None:
    decision = decide(POLICY, judged(evaluation(REUSED[what]), exempt=False).results)

    assert decision.status is Status.REVIEW_REQUIRED
    assert decision.reasons == (ReasonCode.SELFIE_REUSED,)
    assert decision.recommendation is Recommendation.REJECTED


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(None, id="no selfie"),
        pytest.param(ReuseFacts(), id="another person"),
        pytest.param(ReuseFacts(parallax=0.46, copy_at=0.45), id="another photograph"),
    ],
)
def test_a_selfie_of_its_own_passes(facts: ReuseFacts | None) -> None:
    assert decide(POLICY, judged(evaluation(facts), exempt=False).results).status is Status.APPROVED


@pytest.mark.parametrize("what", REUSED)
def test_a_specimen_in_test_mode_passes_and_its_decision_says_why(what: str) -> None:
    exempted = judged(evaluation(REUSED[what]), exempt=True)

    assert exempted.exempt
    assert decide(POLICY, exempted.results).status is Status.APPROVED
    (match,) = [one for one in exempted.results if one.kind is CheckKind.FACE_MATCH]
    assert match.detail == "Seen. Reuse of pictures is not judged: a specimen of UTO in test mode."


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ReuseFacts(broken=True), id="broken"),
        pytest.param(ReuseFacts(parallax=float("nan"), copy_at=0.45), id="no number"),
    ],
)
def test_a_measure_that_broke_approves_nobody(facts: ReuseFacts) -> None:
    decision = decide(POLICY, judged(evaluation(facts), exempt=False).results)

    assert decision.status is Status.FAILED
    assert decision.reasons == (ReasonCode.PROVIDER_UNAVAILABLE,)


def test_the_decision_records_what_was_measured() -> None:
    results = judged(evaluation(ReuseFacts(parallax=1.234, copy_at=0.45)), exempt=False).results

    (match,) = [one for one in results if one.kind is CheckKind.FACE_MATCH]
    assert match.detail == "Seen. Parallax 1.23 px, a copy up to 0.45 px."


def test_reuse_is_judged_where_faces_are_not_compared() -> None:
    policy = VerificationPolicy(required_checks=(CheckKind.DOCUMENT_EXTRACTION,))
    alone = Evaluation((found(CheckKind.DOCUMENT_EXTRACTION, ()),), None, reuse=ReuseFacts(same_pixels=True))

    assert decide(policy, judged(alone, exempt=False).results).status is Status.REVIEW_REQUIRED


def test_a_worse_verdict_stays() -> None:
    mismatch = found(CheckKind.FACE_MATCH, usual(ReasonCode.FACE_MISMATCH))
    seen = Evaluation((mismatch,), None, reuse=ReuseFacts(same_pixels=True))

    (result,) = judged(seen, exempt=False).results

    assert result.verdict is CheckVerdict.FAILED
    assert result.reasons == (ReasonCode.FACE_MISMATCH, ReasonCode.SELFIE_REUSED)


@pytest.mark.parametrize("which", [{"document"}, {"selfie"}, {"document", "selfie"}])
def test_a_picture_of_another_subject_goes_to_a_person(which: set[str]) -> None:
    known = duplicated(evaluation(), document="document" in which, selfie="selfie" in which)
    decision = decide(POLICY, known.results)

    assert decision.status is Status.REVIEW_REQUIRED
    assert decision.reasons == (ReasonCode.DUPLICATE_SUBJECT,)
    assert decision.recommendation is Recommendation.REJECTED


def test_new_pictures_change_nothing() -> None:
    assert duplicated(evaluation(), document=False, selfie=False) == evaluation()


def test_a_selfie_is_read_when_it_shows_rows_of_print_or_a_small_face() -> None:
    assert worth_reading(7, 300, 500)
    assert worth_reading(0, 74, 500)
    assert not worth_reading(6, 75, 500)


def test_a_zone_or_a_printed_page_is_a_document_and_a_word_is_none() -> None:
    assert is_page(replace(PAGE, reader=ReaderClass.TD3_MRZ), 0)
    assert is_page(PAGE, 7)
    assert not is_page(PAGE, 6)
    assert not is_page(replace(PAGE, legible=False), 30)


def test_only_the_fictional_issuer_makes_a_specimen() -> None:
    read = DocumentFindings(ExtractionStatus.EXTRACTED, fields={"issuing_state": "UTO"})

    assert is_specimen(evaluation(findings=read))
    assert not is_specimen(evaluation(findings=replace(read, fields={"issuing_state": "GB"})))
    assert not is_specimen(evaluation())


def test_the_reason_is_about_the_face_and_asks_for_no_other_try() -> None:
    entry = CATALOGUE[ReasonCode.SELFIE_REUSED]

    assert entry.category is ReasonCategory.FACE
    assert not entry.retryable
    assert CATALOGUE[ReasonCode.SANCTIONS_MATCH].category is ReasonCategory.SCREENING
