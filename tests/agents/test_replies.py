"""Return addresses and replies: what is written is read again, and nothing an outsider writes does harm."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.ids import SessionId
from schemas.problems import ProblemCode, Refusal
from schemas.sessions import SessionChanged
from schemas.topics import Topic
from streams.runtime.replies import Reply, ReturnAddress, bytes_of

TEXTS = st.binary() | st.integers().map(lambda number: str(number).encode())
PLACES = TEXTS | st.tuples(st.sampled_from(list(Topic)), st.integers()).map(
    lambda p: f"{p[0]}/{p[1]}".encode()
)


@given(st.text(), st.integers(0, 15), st.datetimes(timezones=st.just(UTC), min_value=datetime(1971, 1, 1)))  # noqa: DTZ001
def test_an_address_survives_its_headers(correlation_id: str, partition: int, deadline: datetime) -> None:
    whole = deadline.replace(microsecond=deadline.microsecond // 1000 * 1000)
    address = ReturnAddress(correlation_id, Topic.REPLIES, partition, whole)

    assert ReturnAddress.read(dict(address.headers())) == address


@given(st.fixed_dictionaries({}, optional={"cid": TEXTS, "reply-to": PLACES, "deadline": TEXTS}))
def test_a_strange_address_is_none_or_one_a_front_reads(headers: dict[str, bytes]) -> None:
    address = ReturnAddress.read(headers)

    assert address is None or (address.topic == Topic.REPLIES and 0 <= address.partition < 16)


def test_a_reply_is_an_answer_or_a_refusal() -> None:
    refusal = Refusal(code=ProblemCode.STORE_FAILED, detail="No.")

    with pytest.raises(ValidationError):
        Reply()
    with pytest.raises(ValidationError):
        Reply(answer="VerificationDecided", refusal=refusal)


@given(st.text(), st.booleans())
def test_an_answer_written_once_is_the_reply_that_carries_it(session_id: str, created: bool) -> None:  # noqa: FBT001
    event = SessionChanged(session_id=SessionId(session_id), created=created)

    assert bytes_of(event) == Reply.of(event).to_bytes()
