"""One request to a vision child and its answer, which is validated as untrusted input."""

import asyncio
import socket
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from app.vision import jobs
from app.vision.forker import Child
from app.vision.jobs import Gives, Job, Reply, Request, framed, parted
from app.vision.memory import SharedMemory, packed, pixels_in, shared
from schemas.problems import EngineFailed, ImageNotEvaluable, ImageUndecodable, VeristreamError
from streams.vision_ports import Picture

R = TypeVar("R")

_CONDITIONS: Final = {kind.__name__: kind for kind in (EngineFailed, ImageNotEvaluable, ImageUndecodable)}
"""What a child may say; anything else is a failed engine."""


class ChildDied(Exception):
    """The child ended or sent an invalid message; the error message is the cause."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """The answer of a child."""

    said: R | VeristreamError
    """What the job gives, or the condition it ended in."""
    lives: bool
    """The child can be asked again."""

    def unwrap(self) -> R:
        """Return what the job gives, or raise its condition."""
        if isinstance(self.said, VeristreamError):
            raise self.said
        return self.said


class Exchange(Generic[R]):
    """One job's messages."""

    def __init__(
        self,
        job: Job[R],
        args: tuple[object, ...],
        picture: Picture | None,
        file: bytes | None,
        second: Picture | None = None,
    ) -> None:
        """Word the question.

        Raises:
            EngineFailed: It is too long.
        """
        self._job = job
        self._retained: list[SharedMemory] = []
        described: dict[str, Any] = {}
        for name, seen in (("picture", picture), ("second", second)):
            if seen is not None:
                memory, layout = shared(seen)
                self._retained.append(memory)
                described |= {name: layout, f"{name}_bytes": len(memory)}
        inline = file or b""
        if len(inline) > jobs.INLINE_BYTES:
            sent = SharedMemory(len(inline))
            sent[:] = inline
            self._retained.append(sent)
            described |= {"inline": False, "file_bytes": len(inline)}
            inline = b""
        self._room = None if job.gives is Gives.VALUE else SharedMemory(jobs.RESULT_BYTES)
        json = job.args.dump_json(args) if job.args else b""
        head = Request(job=job.name, cpu_s=job.cpu_s, args=len(json), **described)
        self._packet = framed(head, json, inline)

        if len(self._packet) > jobs.PACKET_BYTES:
            raise EngineFailed("a question is too long")

    async def ask(self, child: Child) -> Answer[R]:
        """Put the question and return the answer.

        Raises:
            ChildDied: The child ended, or its answer is not one.
        """
        fds = [memory.fd for memory in (*self._retained, self._room) if memory is not None]
        try:
            socket.send_fds(child.link, [self._packet], fds)
        except OSError as error:
            raise ChildDied("not there") from error
        return self._read(await receive(child))

    def _read(self, packet: bytes) -> Answer[R]:
        try:
            head, rest = parted(packet)
            reply = Reply.model_validate_json(head)
            if reply.error:
                return Answer(_CONDITIONS.get(reply.error, EngineFailed)(reply.detail), not reply.ends)
            return Answer(self._result(reply, rest), not reply.ends)
        except (ValidationError, ValueError) as error:
            raise ChildDied("nonsense") from error

    def _result(self, reply: Reply, rest: memoryview) -> Any:
        if self._job.result is not None:
            return self._job.result.validate_json(bytes(rest[: reply.value]))
        if self._room is None:
            raise ValueError("no room for an answer")
        if self._job.gives is Gives.FILE:
            if reply.length > len(self._room):
                raise ValueError("a length beyond the room")
            return self._room[: reply.length]
        height, width = reply.shape or (0, 0)
        if min(height, width) < 1:
            raise ValueError("a picture without pixels")
        self._room.forbid_writing()
        pixels = pixels_in(self._room, packed(height, width))
        pixels.flags.writeable = False
        return Picture(pixels, reply.digest)


async def receive(child: Child) -> bytes:
    """Return the next answer.

    Raises:
        ChildDied: There will be none.
    """
    try:
        length = await asyncio.get_running_loop().sock_recv_into(child.link, child.room)
    except OSError as error:
        raise ChildDied("not there") from error
    if not length:
        raise ChildDied("ended")
    return bytes(memoryview(child.room)[:length])
