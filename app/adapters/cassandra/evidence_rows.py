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
"""A piece, for `to_stored`."""

_AT_HOME: Final = Statement(f"SELECT {_COLUMNS} FROM evidence WHERE tenant = ? AND home = ?")  # noqa: S608 - constants only
HOME_WRITTEN: Final = Statement(
    "SELECT WRITETIME(home) FROM evidence_homes WHERE tenant = ? AND evidence_id = ?"
)
TAKE_HOME: Final = Statement(
    "DELETE FROM evidence_homes USING TIMESTAMP ? WHERE tenant = ? AND evidence_id = ?"
)
_SET_HOME: Final = Statement("INSERT INTO evidence_homes (tenant, evidence_id, home) VALUES (?, ?, ?)")
_AGE: Final = Statement(
    "INSERT INTO evidence_ages (tenant, policy, day, created_at, evidence_id) VALUES (?, ?, ?, ?, ?)"
)
_AGE_DAY: Final = Statement("INSERT INTO evidence_days (tenant, policy, day) VALUES (?, ?, ?)")
EVERY: Final = Statement("SELECT tenant, retention_policy, created_at, evidence_id FROM evidence")
"""All there is, for a migration that lists it by age."""

DAY_MICROS: Final = 24 * 3600 * 1_000_000

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
class StoredEvidence:
    """A piece of evidence as it is stored."""

    row: EvidenceRow
    home: str
    file: BlobName


@cache
def _insert(count: int) -> Statement:
    """Return the statement that inserts so many rows into one partition, or none if one is there."""
    return Statement(f"BEGIN BATCH {_INSERT}; {(_INSERT + '; ') * (count - 1)}APPLY BATCH")


def insertion(pieces: Sequence[StoredEvidence]) -> Attempt:
    """Return what stores the pieces, all of one home; nothing is stored when one of them exists already."""
    first = pieces[0]
    values = [value for piece in pieces for value in _to_columns(piece)]
    standing: Write = _AT_HOME, (first.row.tenant_id, first.home)
    return Attempt((_insert(len(pieces)), values), standing, {"file": first.file.token})


def homing(pieces: Sequence[StoredEvidence]) -> Sequence[Write]:
    """Return what says where the pieces are to be found, by id and by age; it comes before them."""
    writes: list[Write] = []
    for row, home in ((piece.row, piece.home) for piece in pieces):
        writes.append((_SET_HOME, (row.tenant_id, row.evidence_id, home)))
        writes += age_writes(
            row.tenant_id, row.retention_policy.value, to_micros(row.created_at), row.evidence_id
        )
    return writes


def age_writes(tenant: str, policy: str, created_at: int, evidence_id: str) -> Sequence[Write]:
    """Return what lists a piece by age; it comes before the piece. `created_at` in microseconds."""
    day = (tenant, policy, created_at // DAY_MICROS)
    return [(_AGE_DAY, day), (_AGE, (*day, created_at, evidence_id))]


def age_of(row: EvidenceRow) -> tuple[str, str, int, int, str]:
    """Return under which tenant, policy, day, time and id a piece is listed by age."""
    micros = to_micros(row.created_at)
    return row.tenant_id, row.retention_policy.value, micros // DAY_MICROS, micros, row.evidence_id


def deletion(place: Place) -> Attempt:
    """Return what removes the piece while it has this very file."""
    key = (place.tenant_id, place.home, place.evidence_id)
    return Attempt((_DELETE, (*key, place.token)), (FILE, key), {"file": None})


def _to_columns(piece: StoredEvidence) -> tuple[object, ...]:
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


def to_stored(columns: Sequence[Any]) -> StoredEvidence:
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
    return StoredEvidence(row, home, BlobName(row.tenant_id, row.evidence_id, file))
