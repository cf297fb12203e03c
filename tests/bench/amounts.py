"""What a store holds, counted by kind of record and by table, for the bench of a year."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from app.adapters.cassandra.schema import TABLES
from app.adapters.cassandra.session import Session, Statement
from app.adapters.files.data_dir import BLOBS_FOLDER
from app.adapters.sqlite.engine import Engine


@dataclass(slots=True)
class Amount:
    """Rows and bytes of one kind or table; bytes are those of the values, without indexes and pages."""

    rows: int = 0
    size: int = 0
    oldest: int = 1 << 62
    """The earliest creation, in microseconds."""

    def add(self, size: int, created_at: int = 1 << 62) -> None:
        """Count a row."""
        self.rows += 1
        self.size += size
        self.oldest = min(self.oldest, created_at)


Amounts = dict[str, Amount]
"""By `record.KIND`, the name of a table, or `blobs`."""


class Counter(Protocol):
    """Counts what one store holds."""

    async def count(self) -> Amounts:
        """Return everything, by looking through all of it."""
        ...


_KINDS: Final = """
SELECT kind, count(*), sum(length(id) + length(indexes) + length(body) + ifnull(length(first_body), 0)),
    min(created_at) FROM records GROUP BY kind"""
_TABLES: Final = {
    "record_places": "length(value) + length(id)",
    "events": "length(body)",
    "events_waiting": "8",
    "audit": "length(context) + length(detail)",
    "audit_chain": "length(hash)",
    "evidence": "ifnull(length(sealed), 0)",
    "subject_keys": "length(wrapped)",
}


@dataclass(frozen=True, slots=True)
class SqliteCounter:
    """Reads the file, and how much of it is in use."""

    engine: Engine
    folder: Path

    async def count(self) -> Amounts:
        """Return everything."""
        amounts: Amounts = defaultdict(Amount)
        for kind, rows, size, oldest in await self._ask(_KINDS):
            amounts[f"record.{kind}"] = Amount(rows, size, oldest)
        for table, length in _TABLES.items():
            ((rows, size),) = await self._ask(f"SELECT count(*), sum({length}) FROM {table}")  # noqa: S608
            amounts[table] = Amount(rows, size or 0)
        amounts["events"].oldest = (await self._ask("SELECT min(seen_at) FROM events"))[0][0] * 1_000
        ((pages,),), ((free,),) = [await self._ask(f"PRAGMA {it}") for it in ("page_count", "freelist_count")]
        amounts["file"] = Amount(pages - free, (pages - free) * 4_096)
        _count_blobs(amounts, self.folder / BLOBS_FOLDER)
        return amounts

    async def _ask(self, statement: str) -> Sequence[tuple[int, ...]]:
        rows: Sequence[tuple[int, ...]] = await self.engine.read(
            lambda reader: reader.execute(statement).fetchall()
        )
        return rows


@dataclass(frozen=True, slots=True)
class CassandraCounter:
    """Reads every live row; what deletions leave on the disk until compaction is not counted."""

    session: Session
    blobs: Path

    async def count(self) -> Amounts:
        """Return everything."""
        amounts: Amounts = defaultdict(Amount)
        statement = Statement("SELECT kind, part, id, created_at, indexes, body, first_body FROM records")
        async for page in self.session.pages(statement):
            for kind, part, record_id, created_at, *values in page:
                if part == 0 and created_at is not None:
                    size = len(record_id) + sum(len(value or "") for value in values)
                    amounts[f"record.{kind}"].add(size, created_at)
        for table in TABLES:
            if table not in {"records", "settings"}:
                async for page in self.session.pages(Statement(f"SELECT * FROM {table}")):  # noqa: S608
                    for row in page:
                        amounts[table].add(sum(len(value) for value in row if isinstance(value, bytes | str)))
        _count_blobs(amounts, self.blobs)
        return amounts


def _count_blobs(amounts: Amounts, folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            amounts["blobs"].add(file.stat().st_size)
