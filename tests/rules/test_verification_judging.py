from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.enums import CheckKind, CheckVerdict, ExtractionStatus, ReaderClass
from schemas.reasons import ReasonCode
from schemas.verifications import CheckResult
from streams.verification.observations import Agreement, DocumentFindings
from streams.verification.policy import FaceBands, VerificationPolicy
from streams.verification.verdicts import (
    REQUIRED,
    completed_years,
    judge_authenticity,
    judge_consistency,
    judge_extraction,
    judge_faces,
)
from tests.builders import (
    TODAY,
    build_declared,
    build_faces,
    build_fields,
    build_findings,
    build_page_picture,
    build_sharpness,
    expiring,
)

POLICY = VerificationPolicy()
BANDS = FaceBands(accept_at=0.5, reject_above=0.6)
NO_FACE = build_faces(count=0, width_px=0.0, quality=None)


def consistency(findings: DocumentFindings, **declared: Any) -> CheckResult:
    return judge_consistency(POLICY, findings, build_declared(**declared), TODAY)


def test_a_passport_read_whole_passes_every_document_check() -> None:
    findings = build_findings()

    results = [
        judge_extraction(POLICY, findings, build_page_picture()),
        judge_authenticity(POLICY, findings, build_faces()),
        consistency(findings),
    ]

    assert {result.verdict for result in results} == {CheckVerdict.PASSED}


@pytest.mark.parametrize(
    "status", [ExtractionStatus.PARTIAL, ExtractionStatus.FAILED, ExtractionStatus.UNSUPPORTED]
)
def test_a_document_not_read_whole_passes_no_document_check(status: ExtractionStatus) -> None:
    findings = build_findings(status=status)

    results = [
        judge_extraction(POLICY, findings, build_page_picture()),
        judge_authenticity(POLICY, findings, build_faces()),
        consistency(findings),
    ]

    assert {result.verdict for result in results} == {CheckVerdict.UNCLEAR}
    assert all(ReasonCode.EXTRACTION_INCOMPLETE in result.reasons for result in results)


def test_the_checks_name_the_fields_that_are_in_doubt_or_contradicted() -> None:
    sure = dict.fromkeys(REQUIRED[ReaderClass.TD3_MRZ], 0.99)
    doubted = build_findings(status=ExtractionStatus.PARTIAL, confidence=sure | {"document_number": 0.45})
    contradicted = build_findings(printed={"surname": Agreement.MISMATCH, "sex": Agreement.MATCH})

    assert judge_extraction(POLICY, doubted, build_page_picture()).detail.endswith(
        "Missing or in doubt: document_number."
    )
    assert consistency(contradicted).detail.endswith("Printed otherwise: surname.")


def test_an_image_with_a_face_and_no_text_is_no_document() -> None:
    findings = build_findings(status=ExtractionStatus.FAILED, legible=False, reader=None)

    result = judge_extraction(POLICY, findings, build_page_picture())

    assert result.reasons == (ReasonCode.DOCUMENT_NOT_FOUND,)


@pytest.mark.parametrize(
    ("days", "verdict", "reasons"),
    [
        (-1, CheckVerdict.FAILED, (ReasonCode.DOCUMENT_EXPIRED,)),
        (0, CheckVerdict.WARNED, (ReasonCode.DOCUMENT_EXPIRING,)),
        (30, CheckVerdict.WARNED, (ReasonCode.DOCUMENT_EXPIRING,)),
        (31, CheckVerdict.PASSED, ()),
    ],
)
def test_the_last_day_printed_is_still_valid(
    days: int, verdict: CheckVerdict, reasons: tuple[ReasonCode, ...]
) -> None:
    result = consistency(expiring(TODAY + timedelta(days=days)))

    assert (result.verdict, result.reasons) == (verdict, reasons)


def test_an_expiry_date_whose_digits_do_not_hold_rejects_nobody() -> None:
    findings = build_findings(
        check_digits={"expiry_date": False}, fields=build_fields(expiry_date="2001-01-01")
    )

    assert ReasonCode.DOCUMENT_EXPIRED not in consistency(findings).reasons


def test_a_document_that_prints_no_expiry_does_not_expire() -> None:
    slip = build_findings(
        reader=ReaderClass.NG_NIN_SLIP,
        fields={"surname": "ERIKSSON"},
        number="12345678901",
        check_digits={},
        printed={},
    )

    assert consistency(slip).verdict is CheckVerdict.PASSED


def test_a_check_digit_that_does_not_hold_is_a_question_for_a_person() -> None:
    findings = build_findings(check_digits={"composite": False, "expiry_date": True})

    result = judge_authenticity(POLICY, findings, build_faces())

    assert (result.verdict, result.reasons) == (
        CheckVerdict.UNCLEAR,
        (ReasonCode.MRZ_CHECK_DIGIT_FAILED,),
    )


def test_an_impossible_date_under_digits_that_hold_suggests_tampering() -> None:
    result = judge_authenticity(POLICY, build_findings(impossible_date=True), build_faces())

    assert result.reasons == (ReasonCode.DOCUMENT_TAMPERING_SUSPECTED,)


def test_an_impossible_date_under_digits_that_fail_is_only_misread() -> None:
    findings = build_findings(impossible_date=True, check_digits={"date_of_birth": False})

    result = judge_authenticity(POLICY, findings, build_faces())

    assert result.reasons == (ReasonCode.MRZ_CHECK_DIGIT_FAILED,)


def test_a_document_without_a_portrait_is_a_question_for_a_person() -> None:
    result = judge_authenticity(POLICY, build_findings(), NO_FACE)

    assert (result.verdict, result.reasons) == (
        CheckVerdict.UNCLEAR,
        (ReasonCode.FACE_NOT_FOUND_DOCUMENT,),
    )


def test_two_portraits_of_like_size_are_a_question_for_a_person() -> None:
    result = judge_authenticity(POLICY, build_findings(), build_faces(count=2, several_alike=True))

    assert result.reasons == (ReasonCode.MULTIPLE_FACES,)


@pytest.mark.parametrize("number", ["1234567890", "123456789012", "1234567890A", "１２３４５６７８９０１"])  # noqa: RUF001 - full-width digits are the point
def test_a_slip_whose_number_is_not_eleven_digits_is_questioned(number: str) -> None:
    slip = build_findings(reader=ReaderClass.NG_NIN_SLIP, number=number, check_digits={})

    result = judge_authenticity(POLICY, slip, build_faces())

    assert result.reasons == (ReasonCode.NIN_FORMAT_INVALID,)


def test_print_that_contradicts_the_zone_is_a_question_for_a_person() -> None:
    findings = build_findings(printed={"surname": Agreement.MISMATCH, "sex": Agreement.MATCH})

    result = consistency(findings)

    assert (result.verdict, result.reasons) == (
        CheckVerdict.UNCLEAR,
        (ReasonCode.MRZ_VISUAL_MISMATCH,),
    )


def test_a_zone_that_holds_outranks_print_that_was_not_found() -> None:
    findings = build_findings(printed=dict.fromkeys(("surname", "sex"), Agreement.NOT_FOUND))

    assert consistency(findings).verdict is CheckVerdict.PASSED


def test_a_policy_may_ask_for_print_that_confirms_the_zone() -> None:
    findings = build_findings(printed={"surname": Agreement.MATCH, "sex": Agreement.NOT_FOUND})
    policy = VerificationPolicy(visual_matches_required=2)

    result = judge_consistency(policy, findings, build_declared(), TODAY)

    assert result.reasons == (ReasonCode.IMAGE_CROPPED,)


def test_a_code_that_carries_another_number_is_a_question_for_a_person() -> None:
    result = consistency(build_findings(code=Agreement.MISMATCH))

    assert (result.verdict, result.reasons) == (CheckVerdict.UNCLEAR, (ReasonCode.QR_MISMATCH,))


def test_a_code_that_cannot_be_read_says_nothing() -> None:
    assert consistency(build_findings(code=Agreement.NOT_FOUND)).verdict is CheckVerdict.PASSED


def test_a_declared_value_that_differs_never_rejects_by_itself() -> None:
    result = consistency(build_findings(), number_last4="9999", issuing_country="SE")

    assert result.verdict is CheckVerdict.UNCLEAR
    assert result.reasons == (ReasonCode.NUMBER_MISMATCH, ReasonCode.DECLARED_FIELD_MISMATCH)


@pytest.mark.parametrize(
    ("quality", "reason", "verdict"),
    [
        ({"blur": 39.9}, ReasonCode.IMAGE_BLURRED, CheckVerdict.WARNED),
        ({"blur": 11.9}, ReasonCode.IMAGE_BLURRED, CheckVerdict.UNCLEAR),
        ({"brightness": 39.0}, ReasonCode.IMAGE_TOO_DARK, CheckVerdict.WARNED),
    ],
)
def test_a_poor_document_image_earns_its_reason(
    quality: dict[str, float], reason: ReasonCode, verdict: CheckVerdict
) -> None:
    picture = build_page_picture(whole=build_sharpness(**quality))

    result = judge_extraction(POLICY, build_findings(), picture)

    assert (result.verdict, result.reasons) == (verdict, (reason,))


def test_glare_counts_on_the_portrait() -> None:
    picture = build_page_picture(portrait=build_sharpness(glare=0.5))

    assert judge_extraction(POLICY, build_findings(), picture).reasons == (ReasonCode.IMAGE_GLARE,)


def test_white_paper_is_not_glare() -> None:
    picture = build_page_picture(whole=build_sharpness(glare=0.9))

    assert judge_extraction(POLICY, build_findings(), picture).verdict is CheckVerdict.PASSED


def test_a_small_image_that_was_read_is_not_blamed_for_its_size() -> None:
    picture = build_page_picture(shorter_side_px=300)

    assert judge_extraction(POLICY, build_findings(), picture).verdict is CheckVerdict.PASSED


def test_a_small_image_explains_what_could_not_be_read() -> None:
    findings = build_findings(status=ExtractionStatus.PARTIAL)

    result = judge_extraction(POLICY, findings, build_page_picture(shorter_side_px=300))

    assert ReasonCode.IMAGE_TOO_SMALL in result.reasons


@pytest.mark.parametrize(
    ("distance", "verdict", "reasons"),
    [
        (0.31, CheckVerdict.PASSED, ()),
        (0.55, CheckVerdict.UNCLEAR, (ReasonCode.FACE_MATCH_UNCERTAIN,)),
        (0.85, CheckVerdict.FAILED, (ReasonCode.FACE_MISMATCH,)),
    ],
)
def test_the_band_of_the_distance_decides_the_face_match(
    distance: float, verdict: CheckVerdict, reasons: tuple[ReasonCode, ...]
) -> None:
    result = judge_faces(POLICY, build_faces(), build_faces(), distance, BANDS)

    assert (result.verdict, result.reasons, result.score) == (verdict, reasons, distance)


def test_without_a_portrait_nobody_knows_whose_document_it_is() -> None:
    result = judge_faces(POLICY, NO_FACE, build_faces(), None, BANDS)

    assert (result.verdict, result.score) == (CheckVerdict.UNCLEAR, None)


def test_several_faces_on_the_selfie_are_a_question_even_when_the_best_one_matches() -> None:
    selfie = build_faces(count=2, several_alike=True)

    result = judge_faces(POLICY, build_faces(), selfie, 0.2, BANDS)

    assert (result.verdict, result.reasons) == (CheckVerdict.UNCLEAR, (ReasonCode.MULTIPLE_FACES,))


def test_a_mismatch_among_several_faces_rejects_nobody() -> None:
    selfie = build_faces(count=2, several_alike=True)

    result = judge_faces(POLICY, build_faces(), selfie, 0.9, BANDS)

    assert result.verdict is CheckVerdict.UNCLEAR
    assert ReasonCode.FACE_MISMATCH not in result.reasons


@pytest.mark.parametrize(
    ("portrait_blur", "selfie_blur", "verdict"),
    [
        (12.0, 5.0, CheckVerdict.FAILED),
        (11.9, 100.0, CheckVerdict.UNCLEAR),
        (100.0, 4.9, CheckVerdict.UNCLEAR),
    ],
)
def test_a_mismatch_of_blurred_faces_rejects_nobody(
    portrait_blur: float, selfie_blur: float, verdict: CheckVerdict
) -> None:
    document = build_faces(quality=build_sharpness(blur=portrait_blur))
    selfie = build_faces(quality=build_sharpness(blur=selfie_blur))

    assert judge_faces(POLICY, document, selfie, 0.9, BANDS).verdict is verdict


@pytest.mark.parametrize(
    ("faces", "reason"),
    [
        ({"quality": build_sharpness(blur=8)}, ReasonCode.IMAGE_BLURRED),
        ({"quality": build_sharpness(brightness=10)}, ReasonCode.IMAGE_TOO_DARK),
        ({"quality": build_sharpness(glare=0.5)}, ReasonCode.IMAGE_GLARE),
        ({"width_px": 40.0}, ReasonCode.IMAGE_TOO_SMALL),
    ],
)
def test_a_poor_selfie_is_evaluated_with_a_warning(faces: dict[str, Any], reason: ReasonCode) -> None:
    result = judge_faces(POLICY, build_faces(), build_faces(**faces), 0.3, BANDS)

    assert (result.verdict, result.reasons) == (CheckVerdict.WARNED, (reason,))


def test_the_representation_of_findings_shows_nothing_personal() -> None:
    shown = repr(build_findings())

    assert "ERIKSSON" not in shown
    assert "L898902C3" not in shown


def age(born: str | None, minimum: int | None = 18, **changes: Any) -> CheckResult:
    fields = build_fields(date_of_birth=born) if born else build_fields()
    if born is None:
        del fields["date_of_birth"]
    policy = VerificationPolicy(minimum_age=minimum)
    return judge_consistency(policy, build_findings(fields=fields, **changes), build_declared(), TODAY)


def years_before(years: int, days: int = 0) -> str:
    return (TODAY.replace(year=TODAY.year - years) + timedelta(days=days)).isoformat()


@pytest.mark.parametrize(
    ("born", "reasons"),
    [
        (years_before(11), (ReasonCode.UNDER_AGE,)),
        (years_before(18, days=1), (ReasonCode.UNDER_AGE,)),
        (years_before(18), ()),
        (years_before(80), ()),
        (None, (ReasonCode.EXTRACTION_INCOMPLETE,)),
    ],
)
def test_r10_a_person_below_the_minimum_age_is_rejected(
    born: str | None, reasons: tuple[ReasonCode, ...]
) -> None:
    result = age(born)

    assert result.reasons == reasons
    assert (result.verdict is CheckVerdict.FAILED) == (reasons == (ReasonCode.UNDER_AGE,))


def test_r10_without_a_minimum_any_age_passes() -> None:
    assert age(years_before(3), minimum=None).verdict is CheckVerdict.PASSED


def test_r10_a_birth_date_whose_digits_do_not_hold_is_not_judged() -> None:
    assert ReasonCode.UNDER_AGE not in age(years_before(3), check_digits={"date_of_birth": False}).reasons


def test_r10_who_was_born_on_a_leap_day_is_of_age_on_the_first_of_march() -> None:
    born = date(2008, 2, 29)

    assert [completed_years(born, day) for day in (date(2026, 2, 28), date(2026, 3, 1))] == [17, 18]


def test_r10_a_minimum_age_needs_the_check_that_judges_it() -> None:
    with pytest.raises(ValidationError, match="DOCUMENT_CONSISTENCY"):
        VerificationPolicy(required_checks=(CheckKind.FACE_MATCH,), minimum_age=18)
