"""Parse requests and serialise responses with kio, in every supported version."""

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Final, NamedTuple, get_args

from kio.index import load_request_schema, load_response_schema
from kio.schema.request_header.v1 import RequestHeader as PlainHeader
from kio.schema.request_header.v2 import RequestHeader as FlexibleHeader
from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.static.primitive import i32Timedelta, i64Timedelta

from app.broker.answers import answer_writer
from app.broker.frames import frame_check

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))
"""This broker has no quotas."""

NO_LIFETIME: Final = i64Timedelta.parse(timedelta(0))
"""A sign-in is good for as long as its connection."""

UNREADABLE: Final = (SerialError, ValueError, OverflowError, struct.error)
"""What the frame check and kio raise for bytes that are not the request they claim to be."""

HEAD: Final = struct.Struct(">hhi")
"""API key, API version, correlation id: how every request begins."""

LARGE_BYTES: Final = 32 * 1024
"""From here on records are written to the socket on their own instead of being copied once more."""

_FRAME: Final = struct.Struct(">ii")
_FLEXIBLE_FRAME: Final = struct.Struct(">iiB")


class Head(NamedTuple):
    """The part of a request that can be read before its API and version are known to be served."""

    api_key: int
    version: int
    correlation_id: int


@dataclass(frozen=True, slots=True)
class Codec:
    """Reads one API's requests and writes its answers in one version."""

    check: Callable[[bytes], bytes]
    read_header: Callable[[bytes, int], tuple[Any, int]]
    read_body: Callable[[bytes, int], tuple[Any, int]]
    write_body: Callable[["_Parts", Any], object]
    flexible_answer: bool

    def read(self, frame: bytes) -> tuple[str, Any]:
        """Return the client's id and the request; raises one of `UNREADABLE`."""
        frame = self.check(frame)
        header, length = self.read_header(frame, 0)
        request, _ = self.read_body(frame, length)
        return header.client_id or "", request

    def write(self, correlation_id: int, answer: object) -> list[bytes]:
        """Return the framed answer, in pieces where joining them would cost a copy.

        Any object with the fields of kio's class for this version will do, so that handlers answer in the
        words of the newest version and older clients get what their version knows of it.
        """
        parts = _Parts()
        self.write_body(parts, answer)
        length = sum(map(len, parts.chunks))
        if self.flexible_answer:
            parts.chunks[0] = _FLEXIBLE_FRAME.pack(length + 5, correlation_id, 0)
        else:
            parts.chunks[0] = _FRAME.pack(length + 4, correlation_id)
        return [b"".join(parts.chunks)] if length < LARGE_BYTES else _pieces(parts.chunks)


class _Parts:
    """Collects what kio's writers write; one join is cheaper than a growing buffer."""

    __slots__ = ("chunks", "write")

    def __init__(self) -> None:
        self.chunks: list[bytes] = [b""]  # the first place is the frame's own
        self.write = self.chunks.append


def _pieces(chunks: list[bytes]) -> list[bytes]:
    pieces: list[bytes] = []
    small: list[bytes] = []
    for chunk in chunks:
        if len(chunk) < LARGE_BYTES:
            small.append(chunk)
            continue
        pieces += [b"".join(small), chunk]
        small = []
    return [*pieces, b"".join(small)] if small else pieces


@cache
def codec(api_key: int, version: int) -> Codec:
    """Return the codec; the caller knows that kio has this version."""
    request = load_request_schema(api_key, version)
    response = load_response_schema(api_key, version)
    header: Any = FlexibleHeader if request.__flexible__ else PlainHeader
    return Codec(
        check=frame_check(header, request),
        read_header=entity_reader(header),
        read_body=entity_reader(request),
        write_body=answer_writer(response),
        flexible_answer=response.__header_schema__.__flexible__,
    )


def read_head(frame: bytes) -> Head:
    """Read what every request begins with; raises struct.error when the frame is too short."""
    return Head._make(HEAD.unpack_from(frame))


def reword(entity: Any, words: type[Any]) -> Any:
    """Return a request of an older version in the class of a newer one, what it lacks being the default."""
    if type(entity) is words:
        return entity
    plan = _plan(words)  # type: ignore[arg-type] # classes are hashable, which mypy cannot see of type[Any]
    return words(**{name: _reworded(entity, name, default, nested) for name, default, nested in plan})


def _reworded(entity: Any, name: str, default: object, nested: type[Any] | None) -> object:
    value = getattr(entity, name, default)
    if nested is None or not isinstance(value, tuple):
        return value
    return tuple(reword(item, nested) for item in value)


@cache
def _plan(words: type[Any]) -> tuple[tuple[str, object, type[Any] | None], ...]:
    return tuple((field.name, _default(field), _nested(field)) for field in dataclasses.fields(words))


def _default(field: "dataclasses.Field[Any]") -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    text = str(field.type)
    if "tuple" in text:
        return ()
    return False if field.type is bool else None


def _nested(field: "dataclasses.Field[Any]") -> type[Any] | None:
    for argument in get_args(field.type):
        inner = get_args(argument) or (argument,)
        if dataclasses.is_dataclass(inner[0]) and isinstance(inner[0], type):
            return inner[0]
    return None
