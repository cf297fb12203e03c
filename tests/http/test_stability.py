"""What was derived once is derived again by every later release: kept records depend on it (G2)."""

from app.http.cursors import Cursors
from app.intake.body import SubmitBody
from app.intake.images import unpack
from app.intake.verifications import ROUTE, fingerprint_of
from schemas.ids import TenantId, derive_id
from streams.ports.records import Position
from streams.verification.records import mode
from tests.builders import NOW
from tests.http.support import build_body, encoded


def build(**changes: object) -> SubmitBody:
    """A body of fixed bytes."""
    declared = {"number_last4": "1234", "extracted_fields": {"tracking_id": 1, "surname": "x"}}
    document = {"image_base64": encoded(b"document"), **declared}
    body = build_body("customer-1", document=document, selfie_image_base64=encoded(b"selfie"))
    return SubmitBody.model_validate(body | changes)


def fingerprint(body: SubmitBody) -> str:
    """Its fingerprint."""
    return fingerprint_of(body, *unpack(body))


def test_a_fingerprint_stays() -> None:
    assert fingerprint(build()) == "c86f496f5506741eb467fdd539e44179922b624ef2319a6f7bd426c72e24dc6b"


def test_a_verification_id_stays() -> None:
    made = derive_id("ver", TenantId("ten_" + "0" * 26), mode(livemode=True), ROUTE, "order-1")

    assert made == "ver_3m2m618ep3g6saxsnd8semjxkr"


def test_a_cursor_of_before_there_were_versions_is_still_read() -> None:
    cursors = Cursors(lambda: {"b" * 16: b"j" * 32, "a" * 16: b"k" * 32})

    assert cursors.read("JHzVaekw2zY0E-CbqvGZRgAGYMbYqrw4dmVyX3g", {"list": "x"}) == Position(NOW, "ver_x")


def test_a_cursor_stays() -> None:
    cursors = Cursors(lambda: {"a" * 16: b"k" * 32})

    assert (
        cursors.write(Position(NOW, "ver_x"), {"list": "x"})
        == f"{'a' * 16}.sLtR3OU1pI2FtR-GhNUaFgAGYMbYqrw4dmVyX3g"
    )


def test_the_order_of_declared_fields_does_not_count() -> None:
    declared = {"extracted_fields": {"surname": "x", "tracking_id": 1}, "number_last4": "1234"}
    document = {"image_base64": encoded(b"document"), **declared}

    assert fingerprint(build(document=document)) == fingerprint(build())


def test_an_absent_value_is_a_null_value() -> None:
    document = {**build().document.model_dump(), "issuing_country": None}

    assert fingerprint(build(document=document)) == fingerprint(build())
