"""Check a request's bytes against its schema before kio parses them.

Kio's reader allocates what a length or a count announces, and one that the frame cannot hold ends the
process. Here each is compared with the bytes that are left. Tagged fields that the schema does not know
(KIP-482) are cut out, because kio has no way to skip them.
"""

import dataclasses
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final, NamedTuple, get_args, get_origin

MAX_ELEMENTS: Final = 20_000
"""Array items in one request; each costs the broker a Python object and often an answer of its own."""

_MAX_LENGTH: Final = 2**31 - 1
_VARINT_BYTES: Final = 5
_SHORT: Final = struct.Struct(">h").unpack_from
_INT: Final = struct.Struct(">i").unpack_from

_FIXED_BYTES: Final[Mapping[str, int]] = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "error_code": 2,
    "int32": 4, "uint32": 4, "timedelta_i32": 4,
    "int64": 8, "uint64": 8, "float64": 8, "timedelta_i64": 8, "datetime_i64": 8, "uuid": 16,
}  # fmt: skip


class Malformed(ValueError):
    """The bytes are not a request of the version they claim to be."""


class Edit(NamedTuple):
    """A part of the frame that kio is given differently."""

    start: int
    end: int
    replacement: bytes


class _Walk:
    """The frame being checked, and what may still be used of it."""

    __slots__ = ("edits", "elements", "end", "frame")

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.end = len(frame)
        self.elements = MAX_ELEMENTS
        self.edits: list[Edit] = []

    def take(self, count: int, least: int, position: int) -> None:
        """Raise `Malformed` unless `count` items of at least `least` bytes fit from `position` on."""
        self.elements -= count
        if self.elements < 0:
            raise Malformed(f"more than {MAX_ELEMENTS} items in one request")
        if count * least > self.end - position:
            raise Malformed(f"{count} items announced, {self.end - position} bytes left")


_Step = Callable[[_Walk, int], int]
"""Checks what begins at a position and returns where it ends."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The layout of a field in a frame."""

    least: int
    """The fewest bytes it takes; all of them when `fixed`."""
    step: _Step
    fixed: bool = False


def frame_check(header: type[Any], request: type[Any]) -> Callable[[bytes], bytes]:
    """Return the check of frames with this header and body.

    It returns the frame as kio can read it and raises `Malformed` or struct.error where bytes are missing, a
    length or count exceeds what is left, a value that must be there is null, or bytes are left over.
    """
    shapes = (_entity(header), _entity(request))  # type: ignore[arg-type] # classes are hashable, unseen by mypy
    step = _sequence(shapes).step

    def check(frame: bytes) -> bytes:
        walk = _Walk(frame)
        try:
            end = step(walk, 0)
        except IndexError as error:
            raise Malformed("the frame ends within a length") from error
        if end != walk.end:
            raise Malformed(f"the request ends at {end} of {walk.end} bytes")
        return _edited(frame, walk.edits) if walk.edits else frame

    return check


def _edited(frame: bytes, edits: Iterable[Edit]) -> bytes:
    parts, position = [], 0
    for start, end, replacement in sorted(edits):
        parts += [frame[position:start], replacement]
        position = end
    return b"".join((*parts, frame[position:]))


@cache
def _entity(words: type[Any]) -> _Shape:
    fields = dataclasses.fields(words)
    plain = [_field(words, field) for field in fields if "tag" not in field.metadata]
    if not words.__flexible__:
        return _sequence(plain)
    tagged = {field.metadata["tag"]: _field(words, field) for field in fields if "tag" in field.metadata}
    return _sequence((*plain, _tags(tagged)))


def _field(words: type[Any], field: "dataclasses.Field[Any]") -> _Shape:
    # the header's client id is never compact (RequestHeader.json), so that any broker can read it
    flexible = words.__flexible__ and (words.__name__, field.name) != ("RequestHeader", "client_id")
    kind, nullable = _without_none(field.type)
    is_array = get_origin(kind) is tuple
    inner = get_args(kind)[0] if is_array else kind
    if dataclasses.is_dataclass(inner) and isinstance(inner, type):
        if "tag" in field.metadata or (nullable and not is_array):
            raise TypeError(f"{words.__name__}.{field.name}: structures as tags or null are not checked here")
        item = _entity(inner)
    else:
        item = _value(field.metadata["kafka_type"], compact=flexible, nullable=nullable and not is_array)
    return _array(item, compact=flexible, nullable=nullable) if is_array else item


def _without_none(kind: Any) -> tuple[Any, bool]:
    options = get_args(kind)
    if type(None) not in options:
        return kind, False
    (kind,) = (option for option in options if option is not type(None))
    return kind, True


def _value(kafka_type: str, *, compact: bool, nullable: bool) -> _Shape:
    match kafka_type:
        case "string" | "bytes" | "records" if compact:
            return _compact_bytes(nullable=nullable)
        case "string":
            return _bytes(_SHORT, 2, nullable=nullable)
        case "bytes" | "records":
            return _bytes(_INT, 4, nullable=nullable)
        case _:
            return _fixed(_FIXED_BYTES[kafka_type])


def _fixed(size: int) -> _Shape:
    return _Shape(size, lambda _walk, position: position + size, fixed=True)


def _sequence(shapes: Iterable[_Shape]) -> _Shape:
    """Return one shape for several, neighbours of fixed size being one step."""
    merged: list[_Shape] = []
    for fixed, group in groupby(shapes, lambda shape: shape.fixed):
        run = list(group)
        merged += [_fixed(sum(shape.least for shape in run))] if fixed else run
    if len(merged) == 1:
        return merged[0]
    steps = tuple(shape.step for shape in merged)

    def step(walk: _Walk, position: int) -> int:
        for one in steps:
            position = one(walk, position)
        return position

    return _Shape(sum(shape.least for shape in merged), step)


def _bytes(read: Callable[[bytes, int], tuple[Any, ...]], size: int, *, nullable: bool) -> _Shape:
    least = -1 if nullable else 0

    def step(walk: _Walk, position: int) -> int:
        (length,) = read(walk.frame, position)
        if length < least:
            raise Malformed(f"a length of {length}")
        position += size + max(length, 0)
        if position > walk.end:
            raise Malformed(f"{length} bytes announced, {position - walk.end} too many")
        return position

    return _Shape(size, step)


def _compact_bytes(*, nullable: bool) -> _Shape:
    least = 0 if nullable else 1

    def step(walk: _Walk, position: int) -> int:
        announced, position = _varint(walk.frame, position)
        if announced < least:
            raise Malformed("null where a value must be")
        position += max(announced - 1, 0)
        if position > walk.end:
            raise Malformed(f"{announced - 1} bytes announced, {position - walk.end} too many")
        return position

    return _Shape(1, step)


def _array(item: _Shape, *, compact: bool, nullable: bool) -> _Shape:
    if item.least < 1:
        raise TypeError("items without bytes could be announced without end")
    least, one, lowest = item.least, item.step, (-1 if nullable else 0)

    def step(walk: _Walk, position: int) -> int:
        if compact:
            announced, position = _varint(walk.frame, position)
            count = announced - 1
        else:
            (count,) = _INT(walk.frame, position)
            position += 4
        if count < lowest:
            raise Malformed(f"a count of {count}")
        if count > 0:
            walk.take(count, least, position)
            if item.fixed:
                return position + count * least
            for _ in range(count):
                position = one(walk, position)
        return position

    return _Shape(1 if compact else 4, step)


def _tags(known: Mapping[int, _Shape]) -> _Shape:
    """Check the tagged fields of a structure (KIP-482): ascending, each of its declared length."""

    def step(walk: _Walk, start: int) -> int:
        count, position = _varint(walk.frame, start)
        if not count:
            return position
        walk.take(count, 2, position)
        cuts, edit = 0, (start, position)
        previous = -1
        for _ in range(count):
            begin = position
            tag, position = _varint(walk.frame, position)
            size, position = _varint(walk.frame, position)
            if tag <= previous or size > walk.end - position:
                raise Malformed(f"tag {tag} after {previous}, {size} bytes announced")
            shape = known.get(tag)
            if shape is None:
                walk.edits.append(Edit(begin, position + size, b""))
                cuts += 1
            elif shape.step(walk, position) != position + size:
                raise Malformed(f"tag {tag} is not {size} bytes long")
            previous, position = tag, position + size
        if cuts:
            walk.edits.append(Edit(*edit, _varint_of(count - cuts)))
        return position

    return _Shape(1, step)


def _varint(frame: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned varint and where it ends; IndexError at the end of the frame."""
    byte = frame[position]
    if byte < 0x80:  # noqa: PLR2004 - the bit that says another byte follows
        return byte, position + 1
    value = shift = 0
    for place in range(position, position + _VARINT_BYTES):
        byte = frame[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            if value > _MAX_LENGTH:
                break
            return value, place + 1
        shift += 7
    raise Malformed("a varint of more than 31 bits")


def _varint_of(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:  # noqa: PLR2004
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))
