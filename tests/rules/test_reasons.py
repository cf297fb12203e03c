import pytest

from schemas.enums import CheckVerdict
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import VERDICT_OF, ReasonCategory, ReasonCode, ReasonEntry, Severity
from streams.verification.sandbox import parse_scenario

SERVED = {
    "code",
    "category",
    "severity",
    "retryable",
    "subject_message",
    "reviewer_message",
    "simulate",
}


def test_the_catalogue_holds_every_reason() -> None:
    assert list(CATALOGUE) == list(ReasonCode)


def test_an_entry_has_exactly_the_served_fields() -> None:
    assert set(ReasonEntry.model_fields) == SERVED


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_says_something_to_both_sides(code: ReasonCode) -> None:
    entry = CATALOGUE[code]

    assert entry.code is code
    assert entry.subject_message.endswith(".")
    assert entry.reviewer_message.endswith(".")


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_can_be_asked_of_the_sandbox(code: ReasonCode) -> None:
    scenario = parse_scenario(CATALOGUE[code].simulate)

    assert scenario is not None
    assert scenario.reason is code


@pytest.mark.parametrize("code", ReasonCode)
def test_no_reason_is_a_passed_check(code: ReasonCode) -> None:
    assert VERDICT_OF[code] is not CheckVerdict.PASSED


def test_an_authenticity_reason_says_no_more_than_that_the_document_was_not_accepted() -> None:
    result = {
        entry.subject_message for entry in CATALOGUE.values() if entry.category is ReasonCategory.AUTHENTICITY
    }

    assert result == {"The document could not be accepted."}


@pytest.mark.parametrize("code", [code for code in ReasonCode if code.startswith("IMAGE_")])
def test_an_image_reason_can_be_fixed_by_taking_it_again(code: ReasonCode) -> None:
    assert CATALOGUE[code].category is ReasonCategory.IMAGE
    assert CATALOGUE[code].retryable


@pytest.mark.parametrize(
    ("code", "category"),
    [
        (ReasonCode.WRONG_SIDE, ReasonCategory.IMAGE),
        (ReasonCode.NIN_FORMAT_INVALID, ReasonCategory.DOCUMENT),
        (ReasonCode.PRINTED_COPY_SUSPECTED, ReasonCategory.AUTHENTICITY),
        (ReasonCode.LIVENESS_FAILED, ReasonCategory.FACE),
        (ReasonCode.SANCTIONS_MATCH, ReasonCategory.SCREENING),
        (ReasonCode.UNDER_AGE, ReasonCategory.SUBJECT),
        (ReasonCode.MODEL_UNAVAILABLE, ReasonCategory.SYSTEM),
    ],
)
def test_a_reason_belongs_to_its_line_of_the_catalogue(code: ReasonCode, category: ReasonCategory) -> None:
    assert CATALOGUE[code].category is category


def test_only_a_sanctions_match_and_a_listed_wallet_are_critical_by_themselves() -> None:
    critical = [code for code, entry in CATALOGUE.items() if entry.severity is Severity.CRITICAL]

    assert critical == [ReasonCode.SANCTIONS_MATCH, ReasonCode.WALLET_LISTED]
