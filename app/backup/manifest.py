"""The manifest of a backup: its moment, the key it needs, and the digest of every file."""

import hashlib
import hmac
import json
from pathlib import PurePosixPath
from typing import Final, Literal

from pydantic import Field, ValidationError

from app.adapters.security.crypto import Purpose, RootKey
from app.process.startup import CannotStart
from schemas.base import Frozen, Timestamp

MANIFEST_FILE: Final = "manifest.json"
"""Written last: a folder without it is no backup."""

FORMAT: Final = 1
"""The form of the manifest that this version writes and reads."""


class FileEntry(Frozen):
    """One file of the backup, by its name in the data folder."""

    name: str
    size: int = Field(ge=0)
    sha256: str

    @property
    def is_inside(self) -> bool:
        """Whether the name leads to a place below the folder that it is restored into."""
        path = PurePosixPath(self.name)
        return not path.is_absolute() and ".." not in path.parts and str(path) == self.name != "."


class Manifest(Frozen):
    """The contents of a backup."""

    format: Literal[1] = FORMAT
    backup_id: str
    taken_at: Timestamp
    """Every command answered before is in the backup."""
    version: str
    """The version of the program that took it."""
    store_schema: int
    key_check: str
    """Derived from the root key, in hexadecimal: recognises the key the data is sealed under."""
    missing_evidence: tuple[str, ...] = ()
    """Evidence whose file was gone from the deployment itself."""
    files: tuple[FileEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files)


class Envelope(Frozen):
    """The file: the manifest as text, its digest, and its signature under the root key."""

    manifest: str
    sha256: str
    hmac: str


class ManifestRefused(CannotStart):
    """The manifest is missing, was altered, or is of another form."""


def write_manifest(manifest: Manifest, root_key: RootKey) -> bytes:
    """Return the bytes of the manifest's file."""
    text = manifest.model_dump_json()
    envelope = Envelope(manifest=text, sha256=_digest(text), hmac=_signature(text, root_key))
    return json.dumps(envelope.model_dump(), indent=1).encode() + b"\n"


def read_manifest(raw: bytes) -> tuple[Manifest, Envelope]:
    """Return the manifest and what it was wrapped in; its digest holds.

    Raises:
        ManifestRefused: It was altered or cut short, or a newer version wrote it.
    """
    try:
        envelope = Envelope.model_validate_json(raw)
    except ValidationError as error:
        raise ManifestRefused(f"{MANIFEST_FILE} was altered: it has another form") from error
    if not hmac.compare_digest(envelope.sha256.encode(), _digest(envelope.manifest).encode()):
        raise ManifestRefused(f"{MANIFEST_FILE} was altered: its digest does not hold")
    try:
        return Manifest.model_validate_json(envelope.manifest), envelope
    except ValidationError as error:
        raise ManifestRefused(
            f"{MANIFEST_FILE} is of another format than {FORMAT}, which this version reads; use the "
            "version of veristream that took the backup, or a newer one"
        ) from error


def is_signed(envelope: Envelope, root_key: RootKey) -> bool:
    """Return whether a deployment with this root key, or one of those beside it, wrote the manifest."""
    given = envelope.hmac.encode()
    return any(
        hmac.compare_digest(given, _signature(envelope.manifest, key).encode())
        for key in (root_key, *root_key.others)
    )


def fits(manifest: Manifest, root_key: RootKey) -> bool:
    """Return whether this is the root key that the data is sealed under, or one beside it is."""
    return any(
        hmac.compare_digest(manifest.key_check, key.derive(Purpose.KEY_CHECK).hex())
        for key in (root_key, *root_key.others)
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _signature(text: str, root_key: RootKey) -> str:
    return hmac.new(root_key.derive(Purpose.BACKUPS), text.encode(), "sha256").hexdigest()
