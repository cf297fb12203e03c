"""Convert evidence metadata to statements and from columns. Pure.

A piece of evidence lives in the partition of its home, the verification of what it was put with; a row of
its own says under which home to look. The row of the home comes first and may lead to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from app.adapters.cassandra.session import Attempt, Statement, Write
from app.adapters.files.blobs import BlobName
from app.adapters.shared.columns import from_micros, to_micros
from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.ids import EvidenceId, SubjectId, TenantId, VerificationId
from streams.ports.errors import Damaged
from streams.ports.evidence import EvidenceRow

_COLUMNS: Final = (
    "tenant, home, evidence_id, subject_id, verification_id, kind, retention_policy, media_type, "
    "created_at, file"
)

HOME: Final = Statement("SELECT home FROM evidence_homes WHERE tenant = ? AND evidence_id = ?")
"""Where to look for a piece; never removed, so that no writer finds an outdated one."""

FILE: Final = Statement("SELECT file FROM evidence WHERE tenant = ? AND home = ? AND evidence_id = ?")
"""What names the blob of a piece."""

ROW: Final = Statement(
    f"SELECT {_COLUMNS} FROM evidence WHERE tenant = ? AND home = ? AND evidence_id = ?"  # noqa: S608 - constants only
)
"""A piece, for `to_kept`."""

_AT_HOME: Final = Statement(f"SELECT {_COLUMNS} FROM evidence WHERE tenant = ? AND home = ?")  # noqa: S608 - constants only
_SET_HOME: Final = Statement("INSERT INTO evidence_homes (tenant, evidence_id, home) VALUES (?, ?, ?)")
_INSERT: Final = f"INSERT INTO evidence ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"  # noqa: S608 - constants only
_DELETE: Final = Statement(
    "DELETE FROM evidence WHERE tenant = ? AND home = ? AND evidence_id = ? IF file = ?"
)


@dataclass(frozen=True, slots=True)
class Place:
    """The partition of a piece of evidence."""

    tenant_id: TenantId
    home: str
    evidence_id: EvidenceId
    token: str | None
    """None: the row was altered."""

    @property
    def file(self) -> BlobName | None:
        """Its blob."""
        return None if self.token is None else BlobName(self.tenant_id, self.evidence_id, self.token)


@dataclass(frozen=True, slots=True)
class Kept:
    """A piece of evidence as it is stored."""

    row: EvidenceRow
    home: str
    file: BlobName


@cache
def _insert(count: int) -> Statement:
    """Return the statement that inserts so many rows into one partition, or none if one is there."""
    return Statement(f"BEGIN BATCH {_INSERT}; {(_INSERT + '; ') * (count - 1)}APPLY BATCH")


def insertion(pieces: Sequence[Kept]) -> Attempt:
    """Return what stores the pieces, all of one home; nothing is stored when one of them exists already."""
    first = pieces[0]
    values = [value for piece in pieces for value in _to_columns(piece)]
    standing: Write = _AT_HOME, (first.row.tenant_id, first.home)
    return Attempt((_insert(len(pieces)), values), standing, {"file": first.file.token})


def homing(pieces: Sequence[Kept]) -> Sequence[Write]:
    """Return what says where the pieces are to be found; it comes before them."""
    return [(_SET_HOME, (piece.row.tenant_id, piece.row.evidence_id, piece.home)) for piece in pieces]


def deletion(place: Place) -> Attempt:
    """Return what removes the piece while it has this very file."""
    key = (place.tenant_id, place.home, place.evidence_id)
    return Attempt((_DELETE, (*key, place.token)), (FILE, key), {"file": None})


def _to_columns(piece: Kept) -> tuple[object, ...]:
    row = piece.row
    return (
        row.tenant_id,
        piece.home,
        row.evidence_id,
        row.subject_id,
        row.verification_id,
        row.kind.value,
        row.retention_policy.value,
        row.media_type,
        to_micros(row.created_at),
        piece.file.token,
    )


def to_kept(columns: Sequence[Any]) -> Kept:
    """Return the piece of the columns.

    Raises:
        Damaged: The columns are none that `insertion` wrote.
    """
    tenant, home, evidence_id, subject_id, verification_id, kind, policy, media_type, created_at, file = (
        columns
    )
    if any(column is None for column in columns):
        raise Damaged("a row of evidence was altered")
    try:
        row = EvidenceRow(
            tenant_id=TenantId(tenant),
            subject_id=SubjectId(subject_id),
            verification_id=VerificationId(verification_id),
            evidence_id=EvidenceId(evidence_id),
            kind=EvidenceKind(kind),
            retention_policy=RetentionPolicy(policy),
            media_type=media_type,
            created_at=from_micros(created_at),
        )
    except (ValueError, OverflowError) as error:
        raise Damaged("a row of evidence was altered") from error
    return Kept(row, home, BlobName(row.tenant_id, row.evidence_id, file))
