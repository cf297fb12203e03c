"""The rows of evidence: their columns and statements, and look-ups of many pieces in one request.

A piece of evidence lives in the partition of its home, the verification of what it was put with; a row of
its own says under which home to look, and may lead to nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from app.adapters.cassandra.coalescing import Coalescer
from app.adapters.cassandra.session import Row, Session, Statement, Write
from app.adapters.files.blobs import BlobName
from app.adapters.shared.columns import from_micros, to_micros
from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.ids import EvidenceId, SubjectId, TenantId, VerificationId
from streams.ports.errors import Damaged
from streams.ports.evidence import EvidenceRow

COLUMNS: Final = (
    "tenant, home, evidence_id, subject_id, verification_id, kind, retention_policy, media_type, "
    "created_at, file"
)

ID: Final = COLUMNS.split(", ").index("evidence_id")
"""Up to this column goes the key of a row."""

_WRITTEN: Final = ", ".join(f"WRITETIME({name})" for name in COLUMNS.split(", ")[ID + 1 :])

HOMES: Final = Statement("SELECT evidence_id, home FROM evidence_homes WHERE tenant = ? AND evidence_id IN ?")
"""Where to look for pieces; never removed, so that no writer finds an outdated one."""

ROWS: Final = Statement(
    f"SELECT {COLUMNS} FROM evidence WHERE tenant = ? AND home IN ? AND evidence_id IN ?"  # noqa: S608 - constants only
)
"""Pieces, for `to_stored`."""

STANDING: Final = Statement(
    f"SELECT file, {_WRITTEN} FROM evidence WHERE tenant = ? AND home = ? AND evidence_id = ?"  # noqa: S608 - constants only
)
"""What names the blob of a piece, and when each of its columns was written."""

_SET_HOME: Final = Statement(
    "INSERT INTO evidence_homes (tenant, evidence_id, home) VALUES (?, ?, ?) USING TIMESTAMP ?"
)
_AGE: Final = Statement(
    "INSERT INTO evidence_ages (tenant, policy, day, created_at, evidence_id) VALUES (?, ?, ?, ?, ?)"
)
AGE_DAY: Final = Statement("INSERT INTO evidence_days (tenant, policy, day) VALUES (?, ?, ?)")
EVERY: Final = Statement("SELECT tenant, retention_policy, created_at, evidence_id FROM evidence")
"""All there is, for a migration that lists it by age."""

DAY_MICROS: Final = 24 * 3600 * 1_000_000

_INSERT: Final = Statement(
    f"INSERT INTO evidence ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"  # noqa: S608 - constants only
)
_DELETE: Final = Statement(
    "DELETE FROM evidence USING TIMESTAMP ? WHERE tenant = ? AND home = ? AND evidence_id = ?"
)
AT_ONCE: Final = 25
"""Pieces asked for in one request at most; a coordinator asks their replicas side by side."""

Name: TypeAlias = tuple[TenantId, EvidenceId]
_Homed: TypeAlias = tuple[TenantId, str, EvidenceId]


@dataclass(frozen=True, slots=True)
class Place:
    """The partition of a piece of evidence."""

    tenant_id: TenantId
    home: str
    evidence_id: EvidenceId
    token: str | None
    """None: the row was altered."""
    written_at: int
    """The timestamp of its columns, the latest of them; 0: it has none left."""

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


def insertion(pieces: Sequence[StoredEvidence], at: int) -> list[Write]:
    """Return what stores the pieces, all of one home, as of a moment in microseconds; for a logged batch.

    With them goes what says where they are to be found, by id and by age.
    """
    writes: list[Write] = []
    for piece in pieces:
        row = piece.row
        policy, created_at = row.retention_policy.value, to_micros(row.created_at)
        writes.append((_SET_HOME, (row.tenant_id, row.evidence_id, piece.home, at)))
        writes += age_writes(row.tenant_id, policy, created_at, row.evidence_id)
        writes.append((_INSERT, (*_to_columns(piece), at)))
    return list(dict.fromkeys(writes))


def age_writes(tenant: str, policy: str, created_at: int, evidence_id: str) -> Sequence[Write]:
    """Return what lists a piece by age; it comes before the piece. `created_at` in microseconds."""
    day = (tenant, policy, created_at // DAY_MICROS)
    return [(AGE_DAY, day), (_AGE, (*day, created_at, evidence_id))]


def age_of(row: EvidenceRow) -> tuple[str, str, int, int, str]:
    """Return under which tenant, policy, day, time and id a piece is listed by age."""
    micros = to_micros(row.created_at)
    return row.tenant_id, row.retention_policy.value, micros // DAY_MICROS, micros, row.evidence_id


def standing(tenant_id: TenantId, home: str, evidence_id: EvidenceId, columns: Row) -> Place:
    """Return the place of a piece, of the columns of `STANDING`."""
    token, *written = columns
    return Place(
        tenant_id, home, evidence_id, token, max((at for at in written if at is not None), default=0)
    )


def deletion(place: Place, at: int) -> Write:
    """Return what removes the piece as it was written up to a timestamp; one that was put later stays."""
    return _DELETE, (at, place.tenant_id, place.home, place.evidence_id)


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


class EvidenceLookup:
    """Every look-up reads what is stored after it was asked."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._homes = Coalescer(self._homes_of, most=AT_ONCE, group_of=lambda name: name[0])
        self._rows = Coalescer(self._rows_of, most=AT_ONCE, group_of=lambda name: name[0])

    def home(self, tenant_id: TenantId, evidence_id: EvidenceId) -> "asyncio.Future[str | None]":
        """Return under which home a piece is to be found, if it is stored."""
        return self._homes((tenant_id, evidence_id))

    async def row(self, tenant_id: TenantId, evidence_id: EvidenceId) -> Row | None:
        """Return the columns of a piece, for `to_stored`; None when there is none."""
        home = await self.home(tenant_id, evidence_id)
        return None if home is None else await self.row_at(tenant_id, home, evidence_id)

    def row_at(self, tenant_id: TenantId, home: str, evidence_id: EvidenceId) -> "asyncio.Future[Row | None]":
        """Return the columns of a piece under this home; None when there is none."""
        return self._rows((tenant_id, home, evidence_id))

    async def _homes_of(self, names: Sequence[Name]) -> Sequence[str | None]:
        """Return the homes of pieces of one tenant."""
        ids = list(dict.fromkeys(evidence_id for _, evidence_id in names))
        found: dict[str, str] = dict(await self._session.execute(HOMES, (names[0][0], ids)))
        return [found.get(evidence_id) for _, evidence_id in names]

    async def _rows_of(self, names: Sequence[_Homed]) -> Sequence[Row | None]:
        """Return the rows of pieces of one tenant."""
        homes = list(dict.fromkeys(home for _, home, _ in names))
        ids = list(dict.fromkeys(evidence_id for _, _, evidence_id in names))
        rows = await self._session.execute(ROWS, (names[0][0], homes, ids))
        found = {tuple(row[: ID + 1]): row for row in rows}
        return [found.get(name) for name in names]
