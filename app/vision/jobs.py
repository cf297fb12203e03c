"""Jobs of a vision child, and their request and answer messages.

The child has handled untrusted pixels, so its answer is only plain values of a declared type:
JSON that must validate, and bytes in memory whose size this side has fixed.
"""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Final, Generic, TypeVar

import numpy as np
from pydantic import Field, TypeAdapter

from app.vision.memory import Layout
from schemas.base import Frozen
from schemas.enums import TextEnum
from streams.verification.observations import DocumentFindings
from streams.vision_ports import Box, Detail, Embedding, Face, Picture, Quad, Sharpness, TextLine, Turn


class Metric(TextEnum):
    """The metric of an embedder."""

    EUCLIDEAN = "euclidean"
    COSINE = "cosine"
    """One minus the cosine of vectors of unit length, 0-2."""

    def distance(self, one: Embedding, other: Embedding) -> float:
        """Return how far apart two vectors are, never below 0."""
        if self is Metric.EUCLIDEAN:
            return float(np.linalg.norm(one - other))
        return max(0.0, 1.0 - float(one.astype(np.float64) @ other.astype(np.float64)))


R = TypeVar("R")

PACKET_BYTES: Final = 192 * 1024
"""The largest message; 200 lines of text with their places take 50 KB."""
INLINE_BYTES: Final = 96 * 1024
"""Images up to here travel in the message itself, larger ones in shared memory."""
RESULT_BYTES: Final = 64 * 2**20
"""Room for a file, or a picture at its largest, 37.5 MB (`images.MAX_WORK_PIXELS`); unused it is free."""

OUT_OF_MEMORY: Final = "MemoryError"
"""What a child says of a job for which it had too little memory."""

_VECTOR_MAX: Final = 4096


class Gives(TextEnum):
    """The kinds of a job's answer."""

    VALUE = "value"
    """A plain value of the declared type."""
    PICTURE = "picture"
    FILE = "file"
    """Bytes."""


CPU_S: Final = 20
"""Limit for work that bounds itself, by the size of a picture or by the numbers of lines, codes and faces it
looks at: tenths of a second, a hostile page twenty times as much. Far away, because on a virtual machine
waiting can count as processor time: 4 s ended a comparison of honest faces, 8 s the reading of a slip."""


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """One kind of job, with its cost limits."""

    name: str
    args: TypeAdapter[Any] | None = None
    """The tuple of plain arguments."""
    result: TypeAdapter[R] | None = None
    gives: Gives = Gives.VALUE
    cpu_s: int = CPU_S
    """Processor seconds after which the kernel ends the child; whole ones, the limit's own unit."""
    wall_s: float = 40.0
    """Seconds without any processor time after which the child is ended: while it works, however slowly, only
    `cpu_s` ends it."""


Vector = Annotated[tuple[float, ...], Field(max_length=_VECTOR_MAX)]

PING: Final = Job("ping", result=TypeAdapter(bool))
"""Answers true: the child lives."""
STRIP: Final[Job[bytes]] = Job("strip", gives=Gives.FILE)
DECODE: Final[Job[Picture]] = Job("decode", gives=Gives.PICTURE)
EXAMINE: Final = Job("examine", TypeAdapter(tuple[int, ...]), TypeAdapter(tuple[str, ...]))
"""Arguments are the lengths of files that follow one another; answers the condition of each, or nothing."""
SHARPNESS: Final = Job("sharpness", TypeAdapter(tuple[Box | None]), TypeAdapter(Sharpness))
ENCODE: Final[Job[bytes]] = Job("encode", TypeAdapter(tuple[Box]), gives=Gives.FILE)
FIND_LINES: Final = Job("find_lines", TypeAdapter(tuple[Detail]), TypeAdapter(tuple[Quad, ...]))
READ_LINES: Final = Job(
    "read_lines",
    TypeAdapter(tuple[tuple[Quad, ...], Detail]),
    TypeAdapter(tuple[TextLine, ...]),
)
READ_CODES: Final = Job("read_codes", result=TypeAdapter(tuple[str, ...]), cpu_s=2)
"""QR codes are only compared with the printed number, and OpenCV's search has no bound of its own."""
READ_DOCUMENT: Final = Job("read_document", TypeAdapter(tuple[date]), TypeAdapter(DocumentFindings))
FIND_FACES: Final = Job("find_faces", TypeAdapter(tuple[Turn | None]), TypeAdapter(tuple[Face, ...]))
EMBED: Final = Job("embed", TypeAdapter(tuple[Face]), TypeAdapter(Vector))
MEASURE_FACES: Final = Job(
    "measure_faces",
    TypeAdapter(tuple[Turn | None]),
    TypeAdapter(tuple[tuple[Face, ...], Sharpness | None, Vector | None]),
)
"""Finds faces and measures the best one, in one exchange instead of three."""
PARALLAX: Final = Job("parallax", TypeAdapter(tuple[Face, Face]), TypeAdapter(float))
"""The faces are of the picture and of the second one."""
PRINT_ROWS: Final = Job("print_rows", result=TypeAdapter(int))
LIVENESS: Final = Job("liveness", TypeAdapter(tuple[Face]), TypeAdapter(float))


class EngineFacts(Frozen):
    """Version and thresholds of a loaded engine."""

    model_version: str
    pass_at: float
    fail_at: float


class FaceFacts(EngineFacts):
    """Version, thresholds and metric of a face engine; vectors are compared in this process."""

    copy_at: float

    metric: Metric
    eye_corners: bool = True
    """Landmarks begin with the corners of the eyes, as the default engine's; else with their middles."""


class Facts(Frozen):
    """Facts of the loaded engines."""

    text_version: str
    faces: FaceFacts
    liveness: EngineFacts | None = None


class Request(Frozen):
    """The head of a message to a child; the arguments and the inline image follow it.

    Descriptors come with it in this order: the picture, the second one, the image file, the room for the
    result; at most three of them.
    """

    job: str
    cpu_s: int
    args: int
    """Bytes of JSON that follow."""
    picture: Layout | None = None
    picture_bytes: int = 0
    """Size of the picture's memory."""
    second: Layout | None = None
    """Another picture, which the first one is compared with."""
    second_bytes: int = 0
    file_bytes: int = 0
    inline: bool = True
    """The image follows the arguments; else it is in shared memory."""
    room: bool = False


class Reply(Frozen):
    """The head of a child's answer; the value's JSON follows it."""

    error: str = ""
    """The name of a condition of `schemas.problems`, empty when all went well."""
    detail: str = Field(default="", max_length=300)
    value: int = 0
    """Bytes of JSON that follow."""
    shape: tuple[int, int] | None = None
    """Height and width of a picture in the room."""
    digest: str = Field(default="", max_length=64)
    """Of that picture's pixels."""
    length: int = 0
    """Bytes of a file in the room."""
    ends: bool = False
    """The child ends after this answer and must be replaced."""


def framed(head: Frozen, *parts: bytes) -> bytes:
    """Return a message: two bytes of the head's length, the head, the parts."""
    json = head.model_dump_json(exclude_defaults=True).encode()
    return b"".join((len(json).to_bytes(2, "big"), json, *parts))


def parted(packet: bytes) -> tuple[bytes, memoryview]:
    """Return the head's JSON and what follows it."""
    end = 2 + int.from_bytes(packet[:2], "big")
    return packet[2:end], memoryview(packet)[end:]
