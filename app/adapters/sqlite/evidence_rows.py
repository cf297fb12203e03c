"""A piece of evidence as a row, with its content beside it or in a file."""

import sqlite3
from collections.abc import Iterable
from typing import Final

from app.adapters.blobs import BlobFiles, BlobName
from app.adapters.sqlite.columns import from_micros, to_micros
from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.ids import EvidenceId, SubjectId, TenantId, VerificationId
from schemas.problems import NotFound
from streams.ports import Damaged, EvidenceRow

_INSERT: Final = """
INSERT OR IGNORE INTO evidence (tenant, evidence_id, subject_id, verification_id, kind, retention_policy,
    media_type, created_at, content, file)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_ROW: Final = """
SELECT e.subject_id, e.verification_id, e.kind, e.retention_policy, e.media_type, e.created_at, e.file,
    c.sealed
FROM evidence e LEFT JOIN contents c ON c.seq = e.content WHERE e.tenant = ? AND e.evidence_id = ?"""
_PLACE: Final = "SELECT content, file FROM evidence WHERE tenant = ? AND evidence_id = ?"
_DELETE: Final = "DELETE FROM evidence WHERE tenant = ? AND evidence_id = ?"
_INSERT_CONTENT: Final = "INSERT INTO contents (sealed) VALUES (?)"
_DELETE_CONTENT: Final = "DELETE FROM contents WHERE seq = ?"


def insert(connection: sqlite3.Connection, row: EvidenceRow, content: bytes | BlobName) -> bool:
    """Write the row with its content or the name of its file; False when the id is kept already."""
    seq: int | None = None
    file: str | None = None
    if isinstance(content, BlobName):
        file = content.token
    else:
        seq = connection.execute(_INSERT_CONTENT, (content,)).lastrowid
    columns = (
        row.tenant_id,
        row.evidence_id,
        row.subject_id,
        row.verification_id,
        row.kind.value,
        row.retention_policy.value,
        row.media_type,
        to_micros(row.created_at),
        seq,
        file,
    )
    if connection.execute(_INSERT, columns).rowcount:
        return True
    connection.execute(_DELETE_CONTENT, (seq,))
    return False


def find(
    connection: sqlite3.Connection, tenant_id: TenantId, evidence_id: EvidenceId
) -> tuple[EvidenceRow, bytes | BlobName]:
    """Return the row with its sealed content or the name of its file.

    Raises:
        NotFound: No such evidence of this tenant.
        Damaged: The row has neither content nor file.
    """
    found = connection.execute(_ROW, (tenant_id, evidence_id)).fetchone()
    if found is None:
        raise NotFound(evidence_id)
    subject_id, verification_id, kind, retention_policy, media_type, created_at, token, sealed = found
    row = EvidenceRow(
        tenant_id=tenant_id,
        subject_id=SubjectId(subject_id),
        verification_id=VerificationId(verification_id),
        evidence_id=evidence_id,
        kind=EvidenceKind(kind),
        retention_policy=RetentionPolicy(retention_policy),
        media_type=media_type,
        created_at=from_micros(created_at),
    )
    content = sealed if token is None else BlobName(tenant_id, evidence_id, token)
    if content is None:
        raise Damaged("the content is gone")
    return row, content


def remove(connection: sqlite3.Connection, tenant_id: TenantId, evidence_id: EvidenceId) -> BlobName | None:
    """Delete the row and its content; return its file, which nothing names once this is committed."""
    place = connection.execute(_PLACE, (tenant_id, evidence_id)).fetchone()
    if place is None:
        return None
    seq, token = place
    connection.execute(_DELETE, (tenant_id, evidence_id))
    connection.execute(_DELETE_CONTENT, (seq,))
    return None if token is None else BlobName(tenant_id, evidence_id, token)


def clear_files(connection: sqlite3.Connection, blobs: BlobFiles, files: Iterable[BlobName]) -> int:
    """Remove those files that no row names, and return how many."""
    removed = 0
    for file in files:
        place = connection.execute(_PLACE, (file.tenant_id, file.evidence_id)).fetchone()
        if place is None or place[1] != file.token:
            blobs.remove(file)
            removed += 1
    return removed
