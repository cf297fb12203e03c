"""Requests as the bytes of a frame: every value a schema allows, written by kio."""

import dataclasses
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_args, get_origin

from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i32, i32Timedelta, i64Timedelta

from app.broker.apis.table import build_table

SERVED = sorted(build_table().by_version)
"""Every API key and version."""

INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
"""Kafka's types of whole numbers, with their bits."""


def written(request: Any, client_id: str | None = "talk") -> bytes:
    """Return the frame of a request, without the length before it."""
    frame = io.BytesIO()
    header = request.__header_schema__
    named = header(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(1),
        client_id=client_id,
    )
    entity_writer(header)(frame, named)
    entity_writer(type(request))(frame, request)
    return frame.getvalue()


def requests() -> st.SearchStrategy[Any]:
    """Any request of any version served."""
    return st.sampled_from(SERVED).flatmap(lambda served: entities(load_request_schema(*served)))


@cache
def entities(words: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of a class of kio's."""
    return st.builds(words, **{field.name: _values(field) for field in dataclasses.fields(words)})


def _values(field: "dataclasses.Field[Any]") -> st.SearchStrategy[Any]:
    kind, options = field.type, get_args(field.type)
    nullable = type(None) in options
    if nullable:
        (kind,) = (option for option in options if option is not type(None))
    if get_origin(kind) is tuple:
        inner: Any = get_args(kind)[0]
        items = entities(inner) if hasattr(inner, "__flexible__") else _primitives(field)
        values: st.SearchStrategy[Any] = st.lists(items, max_size=3).map(tuple)
    else:
        values = _primitives(field)
    return st.none() | values if nullable else values


def _primitives(field: "dataclasses.Field[Any]") -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one per type
    match field.metadata["kafka_type"]:
        case "string":
            return st.text(max_size=200)
        case "bytes" | "records":
            return st.binary(max_size=200)
        case "bool":
            return st.booleans()
        case "uuid":
            return st.uuids()
        case "timedelta_i32":
            return st.integers(-(2**31), 2**31 - 1).map(_duration).map(i32Timedelta.parse)
        case "timedelta_i64":
            return st.integers(-(2**40), 2**40).map(_duration).map(i64Timedelta.parse)
        case "datetime_i64":
            return st.integers(0, 2**40).map(_moment)
        case "error_code":
            return st.sampled_from(ErrorCode)
        case kafka_type:
            half = 1 << (INTEGERS[kafka_type] - 1)
            return st.integers(-half, half - 1)


def _moment(number: int) -> datetime:
    return datetime.fromtimestamp(number / 1000, UTC)


def _duration(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def fullest(words: type[Any]) -> Any:
    """Return a request with an item in every array, so that its frame has every length and count."""
    return words(**{field.name: _full(field) for field in dataclasses.fields(words)})


def _full(field: "dataclasses.Field[Any]") -> object:
    kind, options = field.type, get_args(field.type)
    if type(None) in options:
        (kind,) = (option for option in options if option is not type(None))
    if get_origin(kind) is tuple:
        inner: Any = get_args(kind)[0]
        return (fullest(inner) if hasattr(inner, "__flexible__") else _example(field),)
    return _example(field)


def _example(field: "dataclasses.Field[Any]") -> object:
    examples = {
        "string": "name",
        "bytes": b"bytes",
        "records": b"bytes",
        "bool": True,
        "uuid": None,
        "timedelta_i32": i32Timedelta.parse(timedelta(seconds=1)),
        "timedelta_i64": i64Timedelta.parse(timedelta(seconds=1)),
    }
    return examples.get(field.metadata["kafka_type"], 1)


def every_frame() -> Iterator[bytes]:
    """Yield one full frame for every API and version."""
    return (written(fullest(load_request_schema(*served))) for served in SERVED)
