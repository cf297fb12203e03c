"""Write answers of versions without tagged fields, neighbouring numbers in one call.

Kio writes each number with a call of its own. A Fetch answer names every partition its reader has, mostly
without records, and a verification causes seven such answers.
"""

import dataclasses
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Protocol, get_args, get_origin

from kio.serial import entity_writer

_NUMBERS: Final = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "error_code": "h",
    "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
}  # fmt: skip
_DURATIONS: Final = {"timedelta_i32": struct.Struct(">i"), "timedelta_i64": struct.Struct(">q")}
"""Whole milliseconds."""
_BYTES: Final = {"string": struct.Struct(">h"), "bytes": struct.Struct(">i"), "records": struct.Struct(">i")}
"""What the length before them is."""
_COUNT: Final = struct.Struct(">i").pack
_NULL: Final = -1


_Write = Callable[[bytes], object]


class Sink(Protocol):
    """Takes the pieces of an answer in order."""

    @property
    def write(self) -> _Write:
        """Take a piece."""
        ...


_Field = dataclasses.Field[Any]
_Writer = Callable[[_Write, Any], object]
"""Calls its first argument with each piece of the second."""


def answer_writer(words: type[Any]) -> Callable[[Sink, Any], object]:
    """Return what writes an object with the fields of a class of kio's, in the very bytes kio writes.

    What has tagged fields, or a field of a type that is rare in answers, is left to kio.
    """
    if words.__flexible__:
        return entity_writer(words)  # type: ignore[return-value] # kio only calls `write` of the buffer
    write = _entity(words)  # type: ignore[arg-type] # classes are hashable, unseen by mypy
    return lambda sink, answer: write(sink.write, answer)


@cache
def _entity(words: type[Any]) -> _Writer:
    try:
        steps = tuple(_steps(words))
    except KeyError:
        kios = entity_writer(words)
        return lambda write, answer: kios(_Writable(write), answer)  # type: ignore[arg-type] # as above

    def write_all(write: _Write, answer: Any) -> None:
        for step in steps:
            step(write, answer)

    return steps[0] if len(steps) == 1 else write_all


@dataclasses.dataclass(frozen=True, slots=True)
class _Writable:
    """What kio writes to."""

    write: _Write


def _steps(words: type[Any]) -> Iterator[_Writer]:
    """Yield what writes the fields in order; raises KeyError for a type that is left to kio."""
    for numbers, run in groupby(dataclasses.fields(words), _is_number):
        if numbers:
            yield _numbers([*run])
        else:
            yield from (_of_field(field) for field in run)


def _is_number(field: _Field) -> bool:
    return get_origin(field.type) is not tuple and field.metadata.get("kafka_type") in _NUMBERS


def _numbers(fields: Sequence[_Field]) -> _Writer:
    pack = struct.Struct(">" + "".join(_NUMBERS[field.metadata["kafka_type"]] for field in fields)).pack
    values = attrgetter(*(field.name for field in fields))
    if len(fields) == 1:
        return lambda write, answer: write(pack(values(answer)))
    return lambda write, answer: write(pack(*values(answer)))


def _of_field(field: _Field) -> _Writer:
    kinds = [kind for kind in (get_args(field.type) or (field.type,)) if kind is not type(None)]
    is_array = get_origin(field.type) is tuple or get_origin(kinds[0]) is tuple
    one = get_args(kinds[0])[0] if get_origin(kinds[0]) is tuple else kinds[0]
    entity = dataclasses.is_dataclass(one) and isinstance(one, type)
    if entity and not is_array:
        raise KeyError(field.name)
    nullable = not is_array and type(None) in get_args(field.type)
    item = _entity(one) if entity else _value(field.metadata["kafka_type"], nullable=nullable)
    take = attrgetter(field.name)
    if not is_array:
        return lambda write, answer: item(write, take(answer))

    def write_array(write: _Write, answer: Any) -> None:
        items = take(answer)
        write(_COUNT(_NULL if items is None else len(items)))
        for each in items or ():
            item(write, each)

    return write_array


def _value(kafka_type: str, *, nullable: bool) -> _Writer:
    """Return what writes one value; raises KeyError for a type that is left to kio."""
    if kafka_type in _NUMBERS:
        pack = struct.Struct(">" + _NUMBERS[kafka_type]).pack
        return lambda write, value: write(pack(value))
    if kafka_type in _DURATIONS:
        return _duration(_DURATIONS[kafka_type].pack)
    return _bytes(_BYTES[kafka_type].pack, nullable=nullable)


def _duration(pack: Callable[[int], bytes]) -> _Writer:
    def write_duration(write: _Write, value: timedelta) -> None:
        write(pack(round(value.total_seconds() * 1000)))

    return write_duration


def _bytes(pack: Callable[[int], bytes], *, nullable: bool) -> _Writer:
    def write_bytes(write: _Write, value: str | bytes | None) -> None:
        if value is None and nullable:
            write(pack(_NULL))
            return
        content = value.encode() if isinstance(value, str) else bytes(value or b"")
        write(pack(len(content)))
        write(content)

    return write_bytes
