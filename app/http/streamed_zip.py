"""Make a ZIP piece by piece, of which nothing is read again."""

import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from typing_extensions import Buffer, override


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
class StreamedZip:
    """A ZIP on its way out; each call returns what can be sent."""

    at: datetime
    files: list[str] = field(default_factory=list)
    _sink: _Unseekable = field(default_factory=_Unseekable)
    _zip: ZipFile = field(init=False)

    def __post_init__(self) -> None:
        """Begin the ZIP; nothing of it is read again, so it may be of any size."""
        self._zip = ZipFile(self._sink, "w", allowZip64=True)

    def add(self, name: str, content: bytes) -> bytes:
        """Add a file; returns what can be sent."""
        with self._zip.open(self.entry(name), "w") as file:
            file.write(content)
        return self._sink.take()

    def entry(self, name: str) -> ZipInfo:
        """Return the head of a file; images are compressed already."""
        self.files.append(name)
        info = ZipInfo(name, self.at.timetuple()[:6])
        info.compress_type = ZIP_DEFLATED if name.endswith(("json", "jsonl")) else ZIP_STORED
        info.external_attr = 0o600 << 16
        return info

    async def add_lines(self, name: str, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Add a file of lines as they come."""
        with self._zip.open(self.entry(name), "w", force_zip64=True) as file:
            async for line in lines:
                file.write(line + b"\n")
                yield self._sink.take()
        yield self._sink.take()

    def close(self) -> bytes:
        """End the ZIP; returns the rest of it."""
        self._zip.close()
        return self._sink.take()
