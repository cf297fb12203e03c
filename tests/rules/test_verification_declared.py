from typing import Any

import pytest

from schemas.reasons import ReasonCode
from streams.verification.declared_values import code_at, disagreements
from tests.builders import build_declared, build_fields, build_findings


def reasons(findings_fields: dict[str, Any] | None = None, **declared: Any) -> list[ReasonCode]:
    findings = build_findings(fields=build_fields(**(findings_fields or {})))
    return [code_at(pointer) for pointer in disagreements(build_declared(**declared), findings)]


def test_nothing_declared_disagrees_with_nothing() -> None:
    assert reasons() == []


@pytest.mark.parametrize("last4", ["02C3", "02c3", "902C3", "02-C3"])
def test_the_last_four_agree_however_they_are_typed(last4: str) -> None:
    assert reasons(number_last4=last4) == []


@pytest.mark.parametrize("last4", ["02C4", "898902", "C3"])
def test_other_last_four_are_a_number_mismatch(last4: str) -> None:
    assert reasons(number_last4=last4) == [ReasonCode.NUMBER_MISMATCH]


def test_last_four_say_nothing_when_no_number_was_read() -> None:
    findings = build_findings(number=None)

    assert list(disagreements(build_declared(number_last4="1234"), findings)) == []


@pytest.mark.parametrize(
    ("read", "text"),
    [("DE", "de"), ("DE", "DEU"), ("DE", "D"), ("GB", "GBN"), ("UTO", "UTO"), ("NG", "NGA")],
)
def test_a_country_agrees_in_either_code(read: str, text: str) -> None:
    assert reasons({"issuing_state": read}, issuing_country=text) == []


def test_another_country_disagrees() -> None:
    assert reasons({"issuing_state": "DE"}, issuing_country="FR") == [ReasonCode.DECLARED_FIELD_MISMATCH]


@pytest.mark.parametrize("text", ["2030-05-01", "2030-05-01T00:00:00Z", " 2030-05-01 "])
def test_a_day_agrees_as_a_date_or_as_a_time(text: str) -> None:
    assert reasons({"expiry_date": "2030-05-01"}, expires_at=text) == []


@pytest.mark.parametrize("text", ["2030-05-02", "soon", "2030-13-45"])
def test_another_day_or_no_day_disagrees(text: str) -> None:
    assert reasons({"expiry_date": "2030-05-01"}, expires_at=text) == [ReasonCode.DECLARED_FIELD_MISMATCH]


@pytest.mark.parametrize(
    ("key", "read", "text"),
    [
        ("surname", "ERIKSSON", "Eriksson"),
        ("surname", "MUELLER", "Müller"),
        ("surname", "MULLER", "Müller"),
        ("surname", "OCONNOR", "O'Connor"),
        ("surname", "SMITH JONES", "Smith-Jones"),
        ("given_names", "ANNA MARIA", "Anna"),
        ("given_names", "ANNA", "Anna Maria"),
        ("first_name", "ANNA MARIA", "anna maria"),
        ("full_name", "ANNA MARIA ERIKSSON", "Eriksson Anna Maria"),
        ("surname", "PETROV", "Петров"),
        ("date_of_birth", "1974-08-12", "1974-08-12"),
        ("sex", "F", "female"),
        ("gender", "F", "F"),
        ("nationality", "SE", "SWE"),
    ],
)
def test_a_field_agrees_in_its_usual_spellings(key: str, read: str, text: str) -> None:
    keys = {"first_name": "given_names", "gender": "sex"}

    assert reasons({keys.get(key, key): read}, extracted_fields={key: text}) == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("surname", "Svensson"),
        ("given_names", "Berta"),
        ("date_of_birth", "1974-12-08"),
        ("sex", "M"),
        ("nationality", "NO"),
    ],
)
def test_a_field_that_differs_disagrees(key: str, text: str) -> None:
    assert reasons(extracted_fields={key: text}) == [ReasonCode.DECLARED_FIELD_MISMATCH]


@pytest.mark.parametrize("answer", [None, "", "  ", True, {"nested": "value"}, ["list"]])
def test_a_value_that_cannot_be_compared_says_nothing(answer: Any) -> None:
    assert reasons(extracted_fields={"surname": answer}) == []


def test_a_field_that_was_not_read_says_nothing() -> None:
    assert reasons(extracted_fields={"tracking_id": "S7Y0"}) == []


def test_r7_every_declared_value_that_differs_is_pointed_at() -> None:
    declared = build_declared(
        number_last4="0000",
        issuing_country="FR",
        expires_at="2030-05-01",
        extracted_fields={"surname": "Svensson", "given_names": "Anna", "first_name": "Berta"},
    )

    assert list(disagreements(declared, build_findings())) == [
        "/document/number_last4",
        "/document/extracted_fields/surname",
        "/document/extracted_fields/first_name",
        "/document/issuing_country",
        "/document/expires_at",
    ]
