"""What is sent, and how it is signed: held against the independent library."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from schemas.webhooks import Attempt, DeliveryStatus
from streams.webhooks.records import fresh, rearmed
from streams.webhooks.signing import secret_bytes, signatures, timestamp
from tests.builders import NOW, build_decision_event, build_endpoint

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of the published example
EVENT = "msg_p5jXN8AQM9LWM0D4loKWxJek"
THEN = datetime.fromtimestamp(1614265330, UTC)


def test_the_specifications_own_example_comes_out() -> None:
    """The example that Standard Webhooks publish."""
    signed = signatures(EVENT, THEN, b'{"test": 2432232314}', [secret_bytes(SECRET)])

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(body=st.text(), secrets=st.lists(st.binary(min_size=24, max_size=64), min_size=1, max_size=2))
def test_what_is_signed_verifies_with_every_secret(body: str, secrets: list[bytes]) -> None:
    """During a rotation a receiver that knows either secret accepts it."""
    now = datetime.now(UTC)
    said = {
        "webhook-id": EVENT,
        "webhook-timestamp": timestamp(now),
        "webhook-signature": signatures(EVENT, now, body.encode(), secrets),
    }

    for secret in secrets:
        try:
            Webhook(secret).verify(body, said)
        except ValueError:
            continue  # the library verifies first and parses the body then; no text is JSON by itself


def test_a_changed_byte_does_not_verify() -> None:
    """The signature is over the body as it is sent."""
    now, secret = datetime.now(UTC), secret_bytes(SECRET)
    said = {
        "webhook-id": EVENT,
        "webhook-timestamp": timestamp(now),
        "webhook-signature": signatures(EVENT, now, b'{"a":1}', [secret]),
    }

    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify('{"a":2}', said)


@given(secret=st.binary(min_size=24, max_size=64))
def test_a_secret_in_base64_is_decoded(secret: bytes) -> None:
    """G54: the `whsec_` form."""
    assert secret_bytes("whsec_" + base64.b64encode(secret).decode()) == secret


def test_any_other_secret_is_its_utf8_bytes() -> None:
    """G54: what opens with nothing known is no base64."""
    assert secret_bytes("é" * 12) == ("é" * 12).encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x" * 23,
        "x" * 65,
        "whsec_",
        "whsec_!!!!MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_é",
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
        "\ud800" * 24,
    ],
)
def test_an_unfit_secret_is_refused(text: str) -> None:
    """S39: 24 to 64 bytes, after decoding."""
    with pytest.raises(ValueError, match="secret"):
        secret_bytes(text)


def test_a_delivery_sends_what_the_topic_carries() -> None:
    """Fields that are None are left out, here as there."""
    event = build_decision_event()

    assert fresh(event, build_endpoint(), NOW).payload.encode() == event.to_bytes()


def test_an_event_has_one_delivery_per_endpoint_however_often_it_is_made() -> None:
    """The id derives from tenant, endpoint and event."""
    event, endpoint = build_decision_event(), build_endpoint()
    later = fresh(event, endpoint, NOW + timedelta(days=1))

    assert later.delivery.delivery_id == fresh(event, endpoint, NOW).delivery.delivery_id


def test_a_replay_begins_the_schedule_anew_and_keeps_what_was_tried() -> None:
    """G38."""
    first = fresh(build_decision_event(), build_endpoint(), NOW)
    tried = (Attempt(number=1, at=NOW, latency_ms=5, status=500),)
    failed = first.delivery.model_copy(
        update={"status": DeliveryStatus.FAILED, "next_attempt_at": None, "attempts": tried}
    )
    later = NOW + timedelta(days=3)

    again = rearmed(first.model_copy(update={"delivery": failed, "step": 10}), later)

    assert again.step == 0
    assert again.delivery == first.delivery.model_copy(update={"next_attempt_at": later, "attempts": tried})
