"""What kio can write passes the frame check, changed it is refused or read; answers are what kio writes."""

import dataclasses
import io
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_writer

from app.broker.answers import answer_writer
from app.broker.frames import MAX_ELEMENTS, Malformed, frame_check
from app.broker.wire import UNREADABLE, codec
from tests.broker.builders import one
from tests.broker.frames import SERVED, entities, every_frame, requests, written
from tests.broker.requests import fetch_request, produce_request
from tests.broker.test_versions import smallest, spoken

READ_METADATA = frame_check(RequestHeader, MetadataRequest)
ANSWERS: Final = [
    words for words in map(load_response_schema, *zip(*SERVED, strict=True)) if not words.__flexible__
]
"""The class of every answer without tagged fields, in every version served; kio writes the others."""


def read(frame: bytes) -> Any:
    """Read a frame as a connection does."""
    return codec(int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")).read(frame)


@given(requests(), st.none() | st.text(max_size=40))
def test_every_request_kio_can_write_is_read_as_it_was_written(request: Any, client_id: str | None) -> None:
    assert read(written(request, client_id)) == (client_id or "", request)


@settings(max_examples=400)
@given(requests().map(written), st.data())
def test_a_changed_frame_is_refused_or_read(frame: bytes, data: st.DataObject) -> None:
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(8, len(changed)))
        end = start + data.draw(st.integers(0, 6))
        changed[start:end] = data.draw(st.binary(max_size=6) | st.sampled_from([b"\x7f" + b"\xff" * 3]))
    try:
        read(bytes(changed))
    except UNREADABLE:
        return


@pytest.mark.parametrize("frame", list(every_frame()), ids=lambda frame: f"{frame[1]}.{frame[3]}")
def test_a_frame_cut_anywhere_or_continued_is_refused(frame: bytes) -> None:
    assert read(frame)
    for wrong in (*(frame[:end] for end in range(8, len(frame))), frame + b"\0"):
        with pytest.raises(UNREADABLE):
            read(wrong)


def tagged(*fields: bytes) -> bytes:
    """Return a Metadata request of version 12 with these tagged fields at its end."""
    frame = written(smallest(MetadataRequest))
    assert frame[-1] == 0
    return frame[:-1] + bytes([len(fields)]) + b"".join(fields)


def test_tagged_fields_the_schema_does_not_know_are_skipped() -> None:
    frame = tagged(b"\x05\x02ab", b"\x07\x00", b"\xff\x01\x01z")
    assert read(frame)[1] == smallest(MetadataRequest)


def test_an_unknown_tagged_field_leaves_a_known_one_beside_it() -> None:
    frame = written(dataclasses.replace(spoken(fetch_request("t", 0), 12), cluster_id="c"))
    known = b"\x00\x02\x02c"
    assert frame.endswith(b"\x01" + known)
    assert read(frame[: -len(known) - 1] + b"\x02" + known + b"\x09\x01z")[1].cluster_id == "c"


@pytest.mark.parametrize(
    "fields",
    [
        (b"\x05\x7f",),
        (b"\x05\x01a", b"\x05\x01a"),
        (b"\x07\x00", b"\x05\x00"),
        (b"\x05\xff\xff\xff\xff\x07",),
        (b"\xff\xff\xff\xff\xff\x01\x00",),
    ],
)
def test_tagged_fields_that_are_too_long_repeated_or_out_of_order_are_refused(fields: tuple[bytes]) -> None:
    with pytest.raises(Malformed):
        READ_METADATA(tagged(*fields))


def test_a_request_may_hold_only_so_many_items() -> None:
    frame = written(smallest(MetadataRequest))
    items = MAX_ELEMENTS + 1
    count = bytes([(items + 1) & 0x7F | 0x80, (items + 1) >> 7 & 0x7F | 0x80, (items + 1) >> 14])
    start = frame.index(b"talk") + 5
    topics = (bytes(16) + b"\x02a\x00") * items
    with pytest.raises(Malformed, match="more than"):
        READ_METADATA(frame[:start] + count + topics + frame[start + 1 :])


def test_a_frame_without_surprises_reaches_kio_without_a_copy() -> None:
    frame = written(produce_request("t", one(b"v")))
    assert codec(0, 8).check(frame) is frame


def answers() -> st.SearchStrategy[Any]:
    """Any answer of any version served."""
    return st.sampled_from(ANSWERS).flatmap(entities)


@given(answers())
def test_every_answer_is_written_as_kio_writes_it(answer: Any) -> None:
    ours, kios = io.BytesIO(), io.BytesIO()
    answer_writer(type(answer))(ours, answer)
    entity_writer(type(answer))(kios, answer)
    assert ours.getvalue() == kios.getvalue()
