"""How the sources of a field agree, as reviewers are reported it (P17)."""

from typing import Any

import pytest

from schemas.explanations import FieldState
from schemas.verifications import DeclaredDocument, PersonalFields
from streams.verification.explanation import Reading, explain_fields

ZONE = "TD3_MRZ"
SLIP = "NG_NIN_SLIP"


def field(
    key: str,
    value: Any,
    *,
    reader: str = ZONE,
    printed: dict[str, str] | None = None,
    declared: DeclaredDocument | None = None,
    places: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What is notified of one field that was read."""
    personal = (
        PersonalFields(number_last4=value)
        if key == "number_last4"
        else PersonalFields(extracted_fields={key: value})
    )
    reading = Reading(personal, reader, {"document_number": 0.5, "surname": 0.9}, printed or {}, places or {})
    result = {one.key: one for one in explain_fields(reading, declared or DeclaredDocument())}
    return result[key].model_dump(exclude_none=True)


def said(**fields: Any) -> DeclaredDocument:
    """A declaration of fields."""
    return DeclaredDocument(extracted_fields=fields)


def test_a_field_of_the_zone_alone_has_one_source() -> None:
    assert field("surname", "DOE") == {
        "key": "surname", "zone": "DOE", "state": FieldState.ONE_SOURCE, "confidence": 0.9,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "page", "state"),
    [("MATCH", "DOE", "SAME"), ("MISMATCH", None, "DIFFERS"), ("NOT_FOUND", None, "ONE_SOURCE")],
)
def test_the_print_speaks_of_the_zone(printed: str, page: str | None, state: str) -> None:
    result = field("surname", "DOE", printed={"surname": printed})

    assert (result.get("page"), result["state"]) == (page, state)


def test_a_slip_has_no_zone() -> None:
    result = field("surname", "DOE", reader=SLIP)

    assert (result.get("zone"), result["page"]) == (None, "DOE")


@pytest.mark.parametrize(
    ("key", "read", "declared", "state"),
    [
        ("surname", "DOE", said(surname="doe"), "SAME"),
        ("surname", "DOE", said(surname="ROE"), "DIFFERS"),
        ("given_names", "JO ANN", said(first_name="Jo"), "SAME"),
        ("given_names", "JO ANN", said(first_name="Ada"), "DIFFERS"),
        ("sex", "F", said(gender="F"), "SAME"),
        ("expiry_date", "2031-01-02", DeclaredDocument(expires_at="2031-01-02"), "SAME"),
        ("expiry_date", "2031-01-02", DeclaredDocument(expires_at="2031-01-03"), "DIFFERS"),
        ("issuing_state", "NG", DeclaredDocument(issuing_country="NGA"), "SAME"),
        ("number_last4", "1234", DeclaredDocument(number_last4="1234"), "SAME"),
        ("number_last4", "1234", DeclaredDocument(number_last4="4321"), "DIFFERS"),
        ("mrz_checks", {"composite": True}, said(mrz_checks={"composite": False}), "DIFFERS"),
        ("mrz_checks", {"composite": True}, said(mrz_checks={"composite": True}), "SAME"),
    ],
)
def test_a_declared_value_is_compared_as_the_check_compares_it(
    key: str, read: Any, declared: DeclaredDocument, state: str
) -> None:
    assert field(key, read, declared=declared)["state"] == state


def test_the_number_is_as_sure_as_its_reading_and_only_its_end_is_reported() -> None:
    result = field("number_last4", "1234", printed={"document_number": "MATCH"})

    assert result == {
        "key": "number_last4", "zone": "1234", "page": "1234", "state": "SAME", "confidence": 0.5,
    }  # fmt: skip


def test_a_reading_shows_nothing_personal_by_itself() -> None:
    reading = Reading(PersonalFields(extracted_fields={"surname": "CANARY"}), ZONE)

    assert "CANARY" not in repr(reading)


QUAD = [[0.1, 0.2], [0.3, 0.2], [0.3, 0.25], [0.1, 0.25]]


def place(source: str, text: str = "", quad: Any = QUAD) -> dict[str, Any]:
    """A place as it is kept with the evidence."""
    return {"source": source, "quad": quad, "text": text}


def test_a_print_that_differs_is_reported_as_it_was_read() -> None:
    places = {"surname": [place("ZONE", "DOE"), place("PAGE", "ROE")]}
    result = field("surname", "DOE", printed={"surname": "MISMATCH"}, places=places)

    assert (result["zone"], result["page"], result["state"]) == ("DOE", "ROE", FieldState.DIFFERS)


def test_a_field_tells_where_it_was_read() -> None:
    result = field("surname", "DOE", places={"surname": [place("ZONE"), place("PAGE")]})

    corners = tuple(tuple(corner) for corner in QUAD)
    assert result["quads"] == (
        {"source": "ZONE", "corners": corners}, {"source": "PAGE", "corners": corners},
    )  # fmt: skip


def test_of_a_number_that_differs_only_its_end_is_reported() -> None:
    places = {"document_number": [place("PAGE", "L898 962C3")]}
    result = field("number_last4", "02C3", printed={"document_number": "MISMATCH"}, places=places)

    assert result["page"] == "62C3"


@pytest.mark.parametrize("quad", [[[2.0, 0], *QUAD[1:]], QUAD[:3], [[None, 0], *QUAD[1:]], "x", None])
def test_a_place_outside_the_picture_is_left_out(quad: Any) -> None:
    assert "quads" not in field("surname", "DOE", places={"surname": [place("ZONE", quad=quad)]})
