"""Rows of evidence, with the content beside them or in a file."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from app.adapters.files.blobs import BlobFiles, BlobName
from app.adapters.shared.columns import from_micros, to_micros
from app.adapters.sqlite.batching import read_rows, write_rows
from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.ids import EvidenceId, SubjectId, TenantId, VerificationId
from schemas.problems import NotFound
from streams.ports.evidence import EvidenceRow

_INSERT: Final = """
INSERT OR IGNORE INTO evidence (tenant, evidence_id, subject_id, verification_id, kind, retention_policy,
    media_type, created_at, file, sealed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_COLUMNS: Final = (
    "e.tenant, e.evidence_id, e.subject_id, e.verification_id, e.kind, e.retention_policy, e.media_type, "
    "e.created_at, e.file"
)
_ROW: Final = f"SELECT {_COLUMNS} FROM evidence e WHERE e.tenant = ? AND e.evidence_id = ?"  # noqa: S608 - constants only
_WHOLE: Final = f"""
SELECT {_COLUMNS}, e.sealed, k.wrapped FROM evidence e
LEFT JOIN subject_keys k ON k.tenant = e.tenant AND k.subject_id = e.subject_id
WHERE (e.tenant, e.evidence_id) IN (SELECT * FROM (VALUES (?, ?)) asked)"""  # noqa: S608 - constants only
_FILE: Final = "SELECT file FROM evidence WHERE tenant = ? AND evidence_id = ?"
_DELETE: Final = "DELETE FROM evidence WHERE (tenant, evidence_id) IN (SELECT * FROM (VALUES (?, ?)) asked)"

EvidenceKey: TypeAlias = tuple[TenantId, EvidenceId]

Piece: TypeAlias = tuple[EvidenceRow, bytes | BlobName]
"""A row with its sealed content, or the name of its file."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A piece of evidence as it is stored."""

    row: EvidenceRow
    content: bytes | BlobName | None
    """Sealed, or the name of its file; None: the row was altered."""
    wrapped: bytes | None
    """The subject's wrapped key, None when there is none."""


def insert(connection: sqlite3.Connection, pieces: Sequence[Piece]) -> bool:
    """Write the rows with their contents or files; False when the id of one is stored already."""
    return write_rows(connection, _INSERT, [_to_columns(*piece) for piece in pieces]) == len(pieces)


def _to_columns(row: EvidenceRow, content: bytes | BlobName) -> tuple[Any, ...]:
    return (
        row.tenant_id,
        row.evidence_id,
        row.subject_id,
        row.verification_id,
        row.kind.value,
        row.retention_policy.value,
        row.media_type,
        to_micros(row.created_at),
        content.token if isinstance(content, BlobName) else None,
        None if isinstance(content, BlobName) else content,
    )


def _to_row(columns: Sequence[Any]) -> EvidenceRow:
    tenant, evidence_id, subject_id, verification_id, kind, retention_policy, media_type, created_at = columns
    return EvidenceRow(
        tenant_id=TenantId(tenant),
        subject_id=SubjectId(subject_id),
        verification_id=VerificationId(verification_id),
        evidence_id=EvidenceId(evidence_id),
        kind=EvidenceKind(kind),
        retention_policy=RetentionPolicy(retention_policy),
        media_type=media_type,
        created_at=from_micros(created_at),
    )


def describe(connection: sqlite3.Connection, tenant_id: TenantId, evidence_id: EvidenceId) -> EvidenceRow:
    """Return the row, or raise `NotFound`."""
    for found in connection.execute(_ROW, (tenant_id, evidence_id)).fetchall():
        return _to_row(found[:8])
    raise NotFound(evidence_id)


def find_whole(connection: sqlite3.Connection, keys: Sequence[EvidenceKey]) -> dict[EvidenceKey, Whole]:
    """Return the rows of those keys that exist."""
    return {
        (found[0], found[1]): Whole(_to_row(found[:8]), _to_content(found), found[10])
        for found in read_rows(connection, _WHOLE, keys)
    }


def _to_content(found: Sequence[Any]) -> bytes | BlobName | None:
    token, sealed = found[8:10]
    return sealed if token is None else BlobName(found[0], found[1], token)


def remove(connection: sqlite3.Connection, keys: Sequence[EvidenceKey]) -> list[BlobName]:
    """Delete the rows; return their files, which nothing names once this is committed."""
    files = [file for key in keys if (file := _find_file(connection, key)) is not None]
    write_rows(connection, _DELETE, keys)
    return files


def _find_file(connection: sqlite3.Connection, key: EvidenceKey) -> BlobName | None:
    found = connection.execute(_FILE, key).fetchall()
    return BlobName(*key, found[0][0]) if found and found[0][0] is not None else None


def clear_files(connection: sqlite3.Connection, blobs: BlobFiles, files: Iterable[BlobName]) -> int:
    """Remove those files that no row names, and return how many."""
    removed = 0
    for file in files:
        if _find_file(connection, (file.tenant_id, file.evidence_id)) != file:
            blobs.remove(file)
            removed += 1
    return removed
