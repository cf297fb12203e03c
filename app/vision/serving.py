"""Serve requests in a vision child: one job on untrusted pixels, and a plain answer."""

import errno
import mmap
import os
import socket
from array import array
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from typing_extensions import override

from app.vision import images, jobs, measures, sandbox
from app.vision.faces.parallax import parallax
from app.vision.jobs import Gives, Job, Reply, Request, framed, parted
from app.vision.memory import Layout, packed, pixels_in
from schemas.problems import EngineFailed, ImageNotEvaluable, ImageUndecodable, VeristreamError
from streams.verification.document_reader import read_findings
from streams.verification.engines import measure_faces
from streams.verification.observations import DocumentFindings
from streams.vision_ports import (
    Box,
    Detail,
    Embedding,
    Face,
    FaceEngine,
    LivenessEngine,
    Picture,
    Pixels,
    Quad,
    Sharpness,
    SharpnessMeter,
    TextLine,
    TextReader,
)

R = TypeVar("R")

_FDS_MAX: Final = 3

IDLE_S: Final = 5
"""A child without a job for so long gives unused memory back; under load it keeps it.

A page leaves 130 MiB in a child that reads and 20 MiB in one that decodes. Given back after each job, they
cost a verification 80 ms of processor time: taken again they are partly in small pages, with a fault
for each.
"""


class ChipCutter(FaceEngine, Protocol):
    """A face engine where its models are."""

    def chip(self, picture: Picture, face: Face) -> Pixels:
        """Return the aligned square of a face `find` returned for this picture."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """The engines of a child; None in one that only decodes."""

    text: TextReader | None = None
    faces: ChipCutter | None = None
    liveness: LivenessEngine | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with its parts unpacked."""

    engines: Loaded
    picture: Picture | None
    second: Picture | None
    file: bytes
    args: tuple[Any, ...]

    @property
    def seen(self) -> Picture:
        """The picture, which the job must have."""
        return _present(self.picture)


_Work = Callable[[_Asked], Any]


def serve(link: socket.socket, engines: Loaded) -> None:
    """Answer messages one after the other until the other side closes, or memory ran out.

    When a receive timeout is set on the socket, unused memory is given back after it.
    """
    room, descriptors = bytearray(jobs.PACKET_BYTES), socket.CMSG_LEN(_FDS_MAX * array("i").itemsize)
    idle = False
    while True:
        try:
            length, ancillary, _, _ = link.recvmsg_into([room], descriptors)
        except BlockingIOError:
            if not idle:
                sandbox.give_back_memory()
            idle = True
            continue
        if not length:
            return
        idle = False
        packet, fds = bytes(memoryview(room)[:length]), array("i")
        for _, _, sent in ancillary:
            fds.frombytes(sent[: len(sent) - len(sent) % fds.itemsize])
        try:
            reply, value = _answer(packet, fds, engines)
        finally:
            for fd in fds:
                os.close(fd)
        link.send(framed(reply, value))
        if reply.ends:
            return


def finished(coroutine: Coroutine[Any, Any, R]) -> R:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: R = stop.value
        return value
    raise EngineFailed("an engine waits in a child")


def _answer(packet: bytes, fds: Sequence[int], engines: Loaded) -> tuple[Reply, bytes]:
    """Execute one request; any failure becomes a named condition without the input's contents."""
    try:
        head, rest = parted(packet)
        request = Request.model_validate_json(head)
        sandbox.allow_cpu(request.cpu_s)
        job, work = _WORK[request.job]
        answer = _carry_out(job, work, request, rest, fds, engines)
    except VeristreamError as error:
        return Reply(error=type(error).__name__, detail=str(error)[:300]), b""
    except Exception as error:  # noqa: BLE001 - the one place where a child's job may fail in any way
        detail = jobs.OUT_OF_MEMORY if _is_out_of_memory(error) else type(error).__name__
        return Reply(error="EngineFailed", detail=detail, ends=True), b""
    return answer


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether memory was refused: to the allocator, or to a mapping of shared memory."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _carry_out(
    job: Job[Any], work: _Work, request: Request, rest: memoryview, fds: Sequence[int], engines: Loaded
) -> tuple[Reply, bytes]:
    waiting = iter(fds)
    picture = _mapped(request.picture, request.picture_bytes, waiting)
    second = _mapped(request.second, request.second_bytes, waiting)
    file = bytes(rest[request.args :])
    if not request.inline:
        with mmap.mmap(next(waiting), request.file_bytes, access=mmap.ACCESS_READ) as sent:
            file = sent[:]
    args = job.args.validate_json(bytes(rest[: request.args])) if job.args else ()
    found = work(_Asked(engines, picture, second, file, args))
    if job.gives is Gives.VALUE:
        value = _present(job.result).dump_json(found)
        if len(value) > jobs.PACKET_BYTES // 2:
            raise EngineFailed("an answer is too long")
        return Reply(value=len(value)), value
    with mmap.mmap(next(waiting), jobs.RESULT_BYTES) as room:
        return _put(room, found), b""


def _mapped(layout: Layout | None, size: int, fds: Iterator[int]) -> Picture | None:
    """Return the picture behind the next descriptor, None if the request has none."""
    if layout is None:
        return None
    return Picture(pixels_in(mmap.mmap(next(fds), size, access=mmap.ACCESS_READ), layout))


def _put(room: mmap.mmap, found: Picture | bytes) -> Reply:
    """Lay a picture or a file into the room."""
    if isinstance(found, bytes):
        if len(found) > len(room):
            raise EngineFailed("a file is too long")
        room[: len(found)] = found
        return Reply(length=len(found))
    place = pixels_in(room, packed(found.height, found.width))
    place[...] = found.pixels
    return Reply(shape=(found.height, found.width), digest=found.digest)


def _present(part: R | None) -> R:
    if part is None:
        raise EngineFailed("the child has no such engine")
    return part


def _text(asked: _Asked) -> TextReader:
    return _present(asked.engines.text)


class _WithoutCodes(TextReader):
    """A reader that leaves QR codes to a job of their own, which has a limit of its own."""

    def __init__(self, reader: TextReader) -> None:
        self.model_version = reader.model_version
        self._reader = reader

    @override
    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        return await self._reader.find_lines(picture, detail)

    @override
    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        return await self._reader.read_lines(picture, quads, detail)

    @override
    async def read_codes(self, picture: Picture) -> tuple[str, ...]:
        return ()


def _examine(asked: _Asked) -> Iterator[str]:
    start = 0
    for length in asked.args:
        try:
            images.examine(asked.file[start : start + length])
        except (ImageUndecodable, ImageNotEvaluable) as condition:
            yield type(condition).__name__
        else:
            yield ""
        start += length


def _read_document(asked: _Asked) -> DocumentFindings:
    (today,) = asked.args
    return finished(read_findings(_WithoutCodes(_text(asked)), asked.seen, today))


def _embed(asked: _Asked) -> tuple[float, ...]:
    (face,) = asked.args
    return _plain(finished(_present(asked.engines.faces).embed(asked.seen, face)))


class _Meter(SharpnessMeter):
    """Measures here."""

    @override
    async def sharpness(self, picture: Picture, box: Box | None = None) -> Sharpness:
        return measures.measure_sharpness(picture, box)


def _measure_faces(asked: _Asked) -> tuple[tuple[Face, ...], Sharpness | None, tuple[float, ...] | None]:
    (turn,) = asked.args
    found = finished(measure_faces(_present(asked.engines.faces), _Meter(), asked.seen, turn))
    vector = None if found.embedding is None else _plain(found.embedding)
    return found.faces, found.sharpness, vector


def _plain(vector: Embedding) -> tuple[float, ...]:
    return tuple(np.asarray(vector, np.float64).tolist())


def _parallax(asked: _Asked) -> float:
    engine, faces = _present(asked.engines.faces), asked.args
    pictures = asked.seen, _present(asked.second)
    return parallax(*(engine.chip(picture, face) for picture, face in zip(pictures, faces, strict=True)))


def _score(asked: _Asked) -> float:
    (face,) = asked.args
    return finished(_present(asked.engines.liveness).score(asked.seen, face))


_WORK: Final[Mapping[str, tuple[Job[Any], _Work]]] = {
    job.name: (job, work)
    for job, work in (
        (jobs.PING, lambda _: True),
        (jobs.STRIP, lambda asked: images.strip_metadata(asked.file)),
        (jobs.DECODE, lambda asked: images.with_digest(images.decode(asked.file))),
        (jobs.EXAMINE, lambda asked: tuple(_examine(asked))),
        (jobs.SHARPNESS, lambda asked: measures.measure_sharpness(asked.seen, *asked.args)),
        (jobs.ENCODE, lambda asked: images.encode_box(asked.seen, *asked.args)),
        (jobs.FIND_LINES, lambda asked: finished(_text(asked).find_lines(asked.seen, *asked.args))),
        (jobs.READ_LINES, lambda asked: finished(_text(asked).read_lines(asked.seen, *asked.args))),
        (jobs.READ_CODES, lambda asked: finished(_text(asked).read_codes(asked.seen))),
        (jobs.READ_DOCUMENT, _read_document),
        (
            jobs.FIND_FACES,
            lambda asked: finished(_present(asked.engines.faces).find(asked.seen, *asked.args)),
        ),
        (jobs.EMBED, _embed),
        (jobs.MEASURE_FACES, _measure_faces),
        (jobs.PARALLAX, _parallax),
        (jobs.PRINT_ROWS, lambda asked: measures.print_rows(asked.seen)),
        (jobs.LIVENESS, _score),
    )
}
