"""Store sealed evidence as files, written once under fresh names; metadata names the valid ones.

A file is complete and flushed before the row that names it is committed, and nothing reads a file
that no row names; so there is neither a half-written nor an overwritten piece of evidence, and no
rename is needed. What an interruption leaves behind is an orphan, found by the store's sweep.

Each call of the system lets go of the interpreter, which a thread beside a busy event loop is then given
back up to 5 ms later: so there are three of them for a file written and four for one that is read.
"""

import os
import re
import secrets
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from app.adapters.files.data_dir import make_private
from app.adapters.security.crypto import sync_folder
from schemas.ids import ID_PATTERN, PLATFORM, EvidenceId, TenantId

_ID = re.compile(ID_PATTERN)
_TOKEN_BYTES: Final = 8
_SHELVES: Final = 256
"""Folders under the root, so that none grows without bound."""


@dataclass(frozen=True, slots=True)
class BlobName:
    """Name of one file: `token` distinguishes attempts to store the same evidence."""

    tenant_id: TenantId
    evidence_id: EvidenceId
    token: str


class BlobFiles:
    """Files under `<root>/<2 hex>/<tenant>/<evidence id>.<token>`; methods block and may raise `OSError`.

    With `durable` a file and any new folder is flushed to the disk before `write` returns; that file
    systems then keep the new name too (ext4, XFS, Btrfs do) is relied upon.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self._root = root
        self._durable = durable

    def write(self, tenant_id: TenantId, evidence_id: EvidenceId, sealed: bytes) -> BlobName:
        """Keep the bytes under a fresh name; after an error nothing of them is left."""
        name = BlobName(tenant_id, evidence_id, secrets.token_hex(_TOKEN_BYTES))
        path = self.path(name)
        try:
            file = self._create(path)
        except FileNotFoundError:
            self._make_folder(path.parent)
            file = self._create(path)
        try:
            remaining = memoryview(sealed)
            while remaining:
                remaining = remaining[os.write(file, remaining) :]
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(file)
        return name

    def read(self, name: BlobName) -> bytes:
        """Return the bytes, or raise `FileNotFoundError`."""
        file = os.open(self.path(name), os.O_RDONLY)
        try:
            left, parts = os.fstat(file).st_size, list[bytes]()
            while left and (part := os.read(file, left)):
                parts.append(part)
                left -= len(part)
            return b"".join(parts)
        finally:
            os.close(file)

    def remove(self, *names: BlobName) -> None:
        """Remove the files; a missing one is no error."""
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def written_before(self, moment: datetime) -> Iterator[BlobName]:
        """Return the names of all files written before the moment."""
        for path in self._root.glob("??/*/*.*"):
            with suppress(FileNotFoundError):
                if datetime.fromtimestamp(path.stat().st_mtime, UTC) < moment:
                    evidence_id, _, token = path.name.partition(".")
                    yield BlobName(TenantId(path.parent.name), EvidenceId(evidence_id), token)

    def path(self, name: BlobName) -> Path:
        """Return the path of the file."""
        if name.tenant_id != PLATFORM and not _ID.fullmatch(name.tenant_id):
            raise ValueError("a tenant id has another form")
        if not _ID.fullmatch(name.evidence_id) or not name.token.isalnum():
            raise ValueError("an evidence id has another form")
        shelf = zlib.crc32(name.evidence_id.encode()) % _SHELVES
        return self._root / f"{shelf:02x}/{name.tenant_id}/{name.evidence_id}.{name.token}"

    def _create(self, path: Path) -> int:
        """Open a new file, each write to which is flushed before it returns, if that is wanted."""
        flushed = os.O_SYNC if self._durable else 0
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flushed, 0o600)

    def _make_folder(self, folder: Path) -> None:
        make_private(folder)
        if self._durable:
            for parent in (folder.parent, self._root, self._root.parent):
                sync_folder(parent)
