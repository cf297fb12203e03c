"""The ZIP of a subject's export on its way out, and its manifest."""

import io
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from typing_extensions import Buffer, override

from schemas.base import Frozen, Timestamp
from schemas.ids import SubjectId
from schemas.problems import NotFound
from streams.ports.errors import Damaged, Erased

FORMAT: Final = 1
"""Version of the layout of the ZIP."""


class LeftOut(Frozen):
    """A document or image that the export names and does not hold."""

    id: str
    reason: Literal["REMOVED", "ERASED", "DAMAGED"]


class ExportManifest(Frozen):
    """What the ZIP holds; its last file."""

    format: int = FORMAT
    subject_id: SubjectId
    exported_at: Timestamp
    livemode: tuple[bool, ...]
    files: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


class _Unseekable(io.RawIOBase):
    """Takes what a ZIP is made of and gives it away in pieces."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    @override
    def write(self, data: Buffer) -> int:
        taken = bytes(data)
        self._waiting += taken
        return len(taken)

    def take(self) -> bytes:
        """Return what came since the last time."""
        taken = bytes(self._waiting)
        self._waiting.clear()
        return taken


@dataclass(slots=True)
class Archive:
    """A ZIP that is made piece by piece; nothing of it is read again, so it may be of any size."""

    at: datetime
    files: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    _sink: _Unseekable = field(default_factory=_Unseekable)
    _zip: ZipFile = field(init=False)

    def __post_init__(self) -> None:
        """Begin the ZIP."""
        self._zip = ZipFile(self._sink, "w", allowZip64=True)

    def add(self, name: str, content: bytes) -> bytes:
        """Add a file; returns what can be sent."""
        with self._zip.open(self._entry(name), "w") as file:
            file.write(content)
        return self._sink.take()

    async def add_shown(self, folder: str, about: str, shown: Awaitable[bytes]) -> bytes:
        """Add what a record shows as JSON, or note why it is left out; one that is not there adds nothing."""
        try:
            return self.add(f"{folder}/{about}.json", await shown)
        except NotFound:
            pass
        except Erased:
            self.left_out.append(LeftOut(id=about, reason="ERASED"))
        except Damaged:
            self.left_out.append(LeftOut(id=about, reason="DAMAGED"))
        return b""

    async def add_lines(self, name: str, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Add a file of lines as they come."""
        with self._zip.open(self._entry(name), "w", force_zip64=True) as file:
            async for line in lines:
                file.write(line + b"\n")
                yield self._sink.take()
        yield self._sink.take()

    def close(self) -> bytes:
        """End the ZIP; returns the rest of it."""
        self._zip.close()
        return self._sink.take()

    def _entry(self, name: str) -> ZipInfo:
        """Return the head of a file; images are compressed already."""
        self.files.append(name)
        info = ZipInfo(name, self.at.timetuple()[:6])
        info.compress_type = ZIP_DEFLATED if name.endswith(("json", "jsonl")) else ZIP_STORED
        info.external_attr = 0o600 << 16
        return info
