"""Lists in the store: one record names a tenant's lists, and records of bounded size hold their entries."""

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from schemas.base import Frozen
from schemas.ids import SubjectId, TenantId
from schemas.problems import NotFound, VeristreamError
from schemas.tenant_lists import StoredList, StoredLists
from streams.ports.errors import Damaged, Erased
from streams.ports.evidence import Vault
from streams.ports.records import BY_AGE, Change, Journal, Record, RecordKind, Records

LISTS_ID: Final = "lists"
"""The id of the one record that names all lists of a tenant."""

PART_BYTES: Final = 256 * 1024
"""Entries in one record before they are compressed and sealed."""

_HOLDER: Final = SubjectId("tenant/lists")
"""Whose key seals entries; no subject can have an id with a slash (G30)."""


class EntriesDamaged(VeristreamError):
    """The entries of a list are not those that were stored, or not all there."""


class _Part(Frozen):
    sealed: str


@dataclass(frozen=True, slots=True)
class Written:
    """Entries that are stored, and belong to no list before its record names their place."""

    place: str
    parts: int
    entries: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ListStorage:
    """Reads and writes lists of tenants; those of the deployment are the platform's."""

    records: Records
    journal: Journal
    vault: Vault

    async def load(self, tenant_id: TenantId) -> tuple[StoredLists, int]:
        """Return all lists of a tenant and the version of the record that names them; 0: there is none."""
        try:
            record = await self.records.get(tenant_id, RecordKind.LISTS, LISTS_ID)
        except NotFound:
            return StoredLists(), 0
        return StoredLists.from_bytes(record.body), record.version

    async def write(self, tenant_id: TenantId, place: str, lines: Iterable[bytes], now: datetime) -> Written:
        """Store entries, each a line of JSON without its end; nothing reads them yet."""
        digest, entries, parts = hashlib.sha256(), 0, 0
        pending = iter(_parts(lines))
        while (part := await asyncio.to_thread(next, pending, None)) is not None:
            for line in part:
                digest.update(line + b"\n")
            entries += len(part)
            await self._write_part(tenant_id, f"{place}.{parts}", part, now)
            parts += 1
        return Written(place, parts, entries, digest.hexdigest())

    async def _write_part(self, tenant_id: TenantId, part_id: str, lines: list[bytes], now: datetime) -> None:
        packed = await asyncio.to_thread(zlib.compress, b"\n".join(lines))
        sealed = await self.vault.seal(tenant_id, _HOLDER, part_id, packed)
        body, index = _Part(sealed=sealed).to_bytes(), (BY_AGE,)
        record = Record(tenant_id, RecordKind.LIST_ENTRIES, part_id, body, now, indexes=index)
        await self.journal.commit(Change(tenant_id, (record,)))

    async def parts(
        self, tenant_id: TenantId, stored: StoredList, first: int = 0
    ) -> AsyncIterator[list[bytes]]:
        """Yield the entries part after part, each a line of JSON.

        Raises:
            EntriesDamaged: A part is missing or altered; seen when it is reached.
        """
        for number in range(first, stored.parts):
            part_id = f"{stored.place}.{number}"
            try:
                record = await self.records.get(tenant_id, RecordKind.LIST_ENTRIES, part_id)
                sealed = _Part.from_bytes(record.body).sealed
                packed = await self.vault.open(tenant_id, _HOLDER, part_id, sealed)
                plain = await asyncio.to_thread(zlib.decompress, packed)
            except (NotFound, Damaged, Erased, ValueError, zlib.error) as error:
                raise EntriesDamaged(stored.name) from error
            yield plain.split(b"\n")

    async def lines(self, tenant_id: TenantId, stored: StoredList) -> list[bytes]:
        """Return all entries, which have the hash they were stored with.

        Raises:
            EntriesDamaged: They have not.
        """
        return [line async for part in self.checked_parts(tenant_id, stored) for line in part]

    async def checked_parts(self, tenant_id: TenantId, stored: StoredList) -> AsyncIterator[list[bytes]]:
        """Yield the entries part after part; behind the last they are known to have their hash.

        Raises:
            EntriesDamaged: They have not, or a part cannot be read.
        """
        digest = hashlib.sha256()
        async for part in self.parts(tenant_id, stored):
            await asyncio.to_thread(digest.update, b"".join(line + b"\n" for line in part))
            yield part
        if digest.hexdigest() != stored.sha256:
            raise EntriesDamaged(stored.name)


def lists_record(tenant_id: TenantId, lists: StoredLists, version: int, now: datetime) -> Record:
    """Return the record that names all lists of a tenant."""
    return Record(tenant_id, RecordKind.LISTS, LISTS_ID, lists.to_bytes(), now, version=version)


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line) + 1
        if size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
