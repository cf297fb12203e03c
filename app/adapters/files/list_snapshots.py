"""Snapshots of the deployment's lists in the data folder: files named by hash, and which are current."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pydantic import ValidationError

from app.adapters.files.data_dir import LISTS_FOLDER, PRIVATE_FILE, make_private
from schemas.base import Frozen, Timestamp
from schemas.enums import CheckKind
from schemas.lists import NameEntry
from schemas.problems import VeristreamError
from streams.lists.guard import Census, Contents

_CURRENT: Final = "current.json"
_HASH_CHARS: Final = 8
_PART_BYTES: Final = 256 * 1024


class SnapshotDamaged(VeristreamError):
    """A snapshot does not have the hash it is named by, or cannot be read."""


class Snapshot(Frozen):
    """A version of a list on disk."""

    name: str
    check: CheckKind
    sha256: str
    source_date: date
    loaded_at: Timestamp
    entries: int
    failed: int
    filled: dict[str, int]
    problem: str | None = None
    """Why the last attempt to replace it failed; None when it was replaced or confirmed."""

    @property
    def version(self) -> str:
        """`<date>#<8 hex of the sha256>` (G116)."""
        return f"{self.source_date.isoformat()}#{self.sha256[:_HASH_CHARS]}"

    def contents(self) -> Contents:
        """Return what the next version is compared with."""
        return Contents(self.entries, self.filled, self.source_date, self.failed)


class Written(Frozen):
    """Entries written to disk that are no version of a list yet."""

    path: Path
    sha256: str
    entries: int
    filled: dict[str, int]


class SnapshotDraft:
    """A version of a list that is copied part by part; every method is blocking."""

    def __init__(self, snapshots: "ListSnapshots", path: Path) -> None:
        self._snapshots = snapshots
        self._path = path
        self._digest = hashlib.sha256()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb"):
            pass

    def append(self, lines: Iterable[bytes]) -> None:
        """Write entries, each a line of JSON without its end."""
        text = b"".join(line + b"\n" for line in lines)
        self._digest.update(text)
        with self._path.open("ab") as file:
            file.write(text)

    def activate(self, snapshot: Snapshot) -> None:
        """Make the copy the current version.

        Raises:
            SnapshotDamaged: It does not have the hash of the version.
        """
        if self._digest.hexdigest() != snapshot.sha256:
            self._path.unlink(missing_ok=True)
            raise SnapshotDamaged(snapshot.name)
        written = Written(path=self._path, sha256=snapshot.sha256, entries=snapshot.entries, filled={})
        self._snapshots.activate(written, snapshot)


class ListSnapshots:
    """The snapshots of the deployment's lists. Every method is blocking."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / LISTS_FOLDER

    def current(self) -> dict[str, Snapshot]:
        """Return the current snapshot of each list by name.

        Raises:
            SnapshotDamaged: The file that names them cannot be read.
        """
        try:
            text = (self._folder / _CURRENT).read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        try:
            return {name: Snapshot.model_validate(one) for name, one in json.loads(text).items()}
        except (ValueError, ValidationError, AttributeError) as error:
            raise SnapshotDamaged(f"{LISTS_FOLDER}/{_CURRENT}") from error

    def changed_at_ns(self) -> int:
        """Return a number that changes when another snapshot becomes current; 0 before the first."""
        with suppress(FileNotFoundError):
            return (self._folder / _CURRENT).stat().st_mtime_ns
        return 0

    def write(self, name: str, entries: Iterable[NameEntry]) -> Written:
        """Write entries beside the current ones, one JSON object a line; nothing reads them yet."""
        make_private(self._folder / name)
        draft = self._folder / name / f"draft-{os.getpid()}"
        digest, census = hashlib.sha256(), Census()
        with ExitStack() as unless_whole:
            unless_whole.callback(draft.unlink, missing_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as file:
                for entry in entries:
                    line = entry.to_bytes() + b"\n"
                    digest.update(line)
                    census.add(entry)
                    file.write(line)
                file.flush()
                os.fsync(file.fileno())
            unless_whole.pop_all()
        sha256 = digest.hexdigest()
        return Written(path=draft, sha256=sha256, entries=census.entries, filled=census.filled)

    def temporary(self) -> TemporaryDirectory[str]:
        """Return a folder beside the lists, removed with its content at its end."""
        make_private(self._folder)
        return TemporaryDirectory(prefix="upload-", dir=self._folder)

    def open_draft(self, name: str) -> SnapshotDraft:
        """Begin to copy a version; nothing reads it before it is activated."""
        make_private(self._folder / name)
        return SnapshotDraft(self, self._folder / name / f"draft-{os.getpid()}-copy")

    def discard(self, written: Written) -> None:
        """Remove what was written and may not become current."""
        written.path.unlink(missing_ok=True)

    def activate(self, written: Written, snapshot: Snapshot) -> None:
        """Make what was written the current version; a reader finds either the old one or this one."""
        written.path.replace(self._path(snapshot))
        self.describe(snapshot)
        for path in self._path(snapshot).parent.glob("*.ndjson"):
            if path != self._path(snapshot):
                path.unlink(missing_ok=True)

    def describe(self, snapshot: Snapshot) -> None:
        """Replace what is known of a list, in one step."""
        described = {**self.current(), snapshot.name: snapshot}
        text = json.dumps(
            {name: one.model_dump(mode="json") for name, one in sorted(described.items())}, indent=1
        )
        draft = self._folder / f"{_CURRENT}-{os.getpid()}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._folder / _CURRENT)

    def entries(self, snapshot: Snapshot) -> Iterator[NameEntry]:
        """Yield the entries of a snapshot; raises as `parts` does."""
        try:
            for lines in self.parts(snapshot):
                yield from map(NameEntry.from_bytes, lines)
        except ValidationError as error:
            raise SnapshotDamaged(snapshot.name) from error

    def parts(self, snapshot: Snapshot) -> Iterator[list[bytes]]:
        """Yield the entries of a snapshot part after part, each entry a line of JSON.

        Raises:
            SnapshotDamaged: The file is gone, or does not have its hash; known at the end.
        """
        digest = hashlib.sha256()
        try:
            with self._path(snapshot).open("rb") as file:
                while lines := file.readlines(_PART_BYTES):
                    digest.update(b"".join(lines))
                    yield lines
        except OSError as error:
            raise SnapshotDamaged(snapshot.name) from error
        if digest.hexdigest() != snapshot.sha256:
            raise SnapshotDamaged(snapshot.name)

    def _path(self, snapshot: Snapshot) -> Path:
        return self._folder / snapshot.name / f"{snapshot.sha256}.ndjson"
