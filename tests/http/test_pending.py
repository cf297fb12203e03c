"""A decision that is not there yet: what the caller is reported, and where it is found later (R8)."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from app.http.routes.verifications import PENDING, may_be_pending
from schemas.ids import ID_PATTERN, derive_id, drawn_at, encode_id, is_derived
from schemas.problems import DecisionPending, ProblemCode
from schemas.topics import Topic
from schemas.verifications import VerificationDecided
from tests.http.support import FOREIGN, PATH, Front, Response

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def drawn(at: datetime) -> str:
    """Return an id as it is drawn at a moment."""
    milliseconds = int(at.timestamp() * 1000)
    return encode_id("ver", UUID(int=milliseconds << 80 | 0x7 << 76 | 0x2 << 62 | 0xABCDEF))


async def pending(front: Front, idempotency_key: str | None = None) -> Response:
    """Submit while the answer does not come."""
    front.gateway.failing = DecisionPending()
    response = await front.submit(idempotency_key=idempotency_key)
    front.gateway.failing = None
    return response


async def arrive(front: Front) -> None:
    """Let what was asked last be decided."""
    command = front.gateway.asked[-1]
    await front.gateway.request(
        Topic.VERIFICATION_COMMANDS, command.verification_id, command, VerificationDecided, 10.0
    )


@pytest.mark.parametrize("key", [None, "order-1"])
async def test_a_pending_verification_is_named_and_read_once_it_is_decided(
    front: Front, key: str | None
) -> None:
    result = await pending(front, key)
    path = f"{PATH}/{result.json['verification_id']}"
    before = await front.ask("GET", path)
    await arrive(front)
    after = await front.ask("GET", path)

    assert (result.status, result.code) == (503, ProblemCode.DECISION_PENDING)
    assert (before.status, before.headers.get("Retry-After")) == (404, "2")
    assert (after.status, "Retry-After" in after.headers) == (200, False)
    assert after.json["verification_id"] == result.json["verification_id"]


async def test_a_request_without_a_key_is_advised_to_read(front: Front) -> None:
    answer = (await pending(front)).json

    assert f"read it at {PATH}/{answer['verification_id']}" in answer["detail"]


async def test_a_request_with_a_key_is_advised_to_be_sent_again(front: Front) -> None:
    answer = (await pending(front, "order-1")).json

    assert "send it again" in answer["detail"]
    assert "read it at" not in answer["detail"]


async def test_a_route_that_heeds_no_key_advises_nobody_to_send_again(front: Front) -> None:
    front.gateway.failing = DecisionPending()
    person = await front.sign_in()
    response = await person.ask(
        "POST",
        f"/v1/verification-flows/{encode_id('vf', uuid7())}/publish",
        headers={"Idempotency-Key": "k"},
        json={},
    )

    assert (response.status, response.code) == (503, ProblemCode.DECISION_PENDING)
    assert "send it again" not in response.json["detail"]
    assert "verification_id" not in response.json


async def test_another_tenant_learns_no_more_of_a_pending_verification_than_of_a_made_up_one(
    front: Front,
) -> None:
    result = await pending(front)
    await arrive(front)
    theirs = await front.ask("GET", f"{PATH}/{result.json['verification_id']}", FOREIGN)
    made_up = await front.ask("GET", f"{PATH}/{encode_id('ver', uuid7())}", FOREIGN)

    assert [(one.status, one.headers.get("Retry-After")) for one in (theirs, made_up)] == [(404, "2")] * 2


@pytest.mark.parametrize(
    ("verification_id", "expected"),
    [
        (drawn(NOW), True),
        (drawn(NOW - PENDING + timedelta(seconds=1)), True),
        (drawn(NOW - PENDING), False),
        (drawn(NOW + PENDING), False),
        (derive_id("ver", "ten", "order-1"), True),
        (f"ver_{'0' * 26}", False),
        (f"ver_{'z' * 26}", False),
    ],
)
def test_only_an_id_that_may_still_be_decided_is_worth_asking_again(
    verification_id: str,
    expected: bool,  # noqa: FBT001
) -> None:
    assert may_be_pending(verification_id, NOW) is expected


def test_the_time_of_an_id_is_when_it_was_drawn() -> None:
    assert drawn_at(drawn(NOW)) == NOW
    assert drawn_at(derive_id("ver", "a")) is None
    assert drawn_at(encode_id("ver", UUID(int=(1 << 128) - 1))) is None
    latest = (1 << 48) - 1 << 80 | 0x7 << 76 | 0x2 << 62
    assert drawn_at(encode_id("ver", UUID(int=latest))) is None  # later than a datetime can be


def test_a_derived_id_is_distinguished_from_a_drawn_one() -> None:
    assert is_derived(derive_id("ver", "a"))
    assert is_derived(derive_id("evt", "a", near=drawn(NOW)))
    assert not is_derived(drawn(NOW))


def test_derived_ids_lie_beside_the_id_they_are_near_and_differ_as_their_parts_do() -> None:
    before, own, after = (drawn(NOW + timedelta(milliseconds=shift)) for shift in (-1, 0, 1))
    near = {derive_id("ver", part, near=own) for part in ("a", "b")}

    assert len(near) == 2
    assert near == {derive_id("ver", part, near=own) for part in ("b", "a")}
    assert all(re.fullmatch(ID_PATTERN, one) for one in near)
    assert [*sorted({before, after} | near)] == [before, *sorted(near), after]
