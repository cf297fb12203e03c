"""Read and change the catalogue; every change is audited in the platform's chain (G44, G93)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.catalog import Capability
from schemas.enums import ActorType
from schemas.ids import PLATFORM, derive_id
from schemas.problems import NotFound, ProblemCode, Refused
from streams.aggregate import key_reused
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.catalog.rules import first_catalogue, in_order, problems_of
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind, Records

ALL: Final = ("all", "capability")
"""Lists every entry."""

MOST_ENTRIES: Final = 5_000
"""Largest number of entries; lists are not paged (G107)."""

INSTALLED: Final = "first-catalogue"
"""The id of the record that marks the initial content as loaded."""

_SYSTEM: Final = Actor(actor_type=ActorType.SYSTEM)


class Catalogue:
    """The catalogue of the deployment."""

    def __init__(self, records: Records, commit: Commit, clock: Callable[[], datetime]) -> None:
        self._records = records
        self._commit = commit
        self._clock = clock

    async def all(self) -> Sequence[Capability]:
        """Return every entry, enabled or not, by country, then document type, then code."""
        found = await self._records.page(PLATFORM, RecordKind.CAPABILITY, ALL, limit=MOST_ENTRIES)
        return in_order(Capability.from_bytes(record.body) for record in found)

    async def read(self, code: str) -> Capability:
        """Return one entry, or raise `NotFound`."""
        return Capability.from_bytes((await self._find(code)).body)

    async def some(self, codes: Sequence[str]) -> dict[str, Capability]:
        """Return the current entries of those codes that are in the catalogue."""

        async def one(code: str) -> Capability | None:
            try:
                return await self.read(code)
            except NotFound:
                return None

        found = await asyncio.gather(*(one(code) for code in dict.fromkeys(codes)))
        return {entry.code: entry for entry in found if entry is not None}

    async def create(
        self, entry: Capability, actor: Actor, *, key: str | None, fingerprint: str
    ) -> tuple[Capability, bool]:
        """Add an entry; return it and whether the same key had added it before.

        `key` derives from the Idempotency-Key.

        Raises:
            Refused: VALIDATION_FAILED, CAPABILITY_EXISTS, IDEMPOTENCY_KEY_REUSED.
        """
        _require_valid(entry)
        if key is not None and (first := await self._first_of(key, fingerprint)) is not None:
            return first, True
        row = _row(entry, AuditAction.CATALOG_CREATED, actor, entry.created_at, {})
        records = [_record(entry)]
        if key is not None:
            records.append(
                Record(PLATFORM, RecordKind.TOKEN, key, entry.code.encode(), entry.created_at,
                       fingerprint=fingerprint)
            )  # fmt: skip
        committed = await self._commit(Change(PLATFORM, tuple(records), (row,)))
        if committed.won:
            return entry, False
        if key is not None and (first := await self._first_of(key, fingerprint)) is not None:
            return first, True
        message = "The catalogue has an entry of this code."
        raise Refused.at("/code", ProblemCode.CAPABILITY_EXISTS, message)

    async def _first_of(self, key: str, fingerprint: str) -> Capability | None:
        """Return the entry the key added, as first answered, or None."""
        try:
            used = await self._records.get(PLATFORM, RecordKind.TOKEN, key)
        except NotFound:
            return None
        if used.fingerprint != fingerprint:
            raise key_reused()
        return Capability.from_bytes((await self._find(used.body.decode())).first_body)

    async def change(
        self, code: str, changes: dict[str, Any], action: AuditAction, actor: Actor, seen: int | None
    ) -> Capability:
        """Change fields of an entry; without a difference nothing is written.

        Raises:
            NotFound: No such entry.
            Refused: VALIDATION_FAILED.
            Conflict: `seen` is not its revision, or it was changed concurrently.
        """
        record = await self._find(code)
        standing = Capability.from_bytes(record.body)
        if seen is not None and seen != standing.revision:
            raise Conflict(code)
        updated = standing.model_copy(update=changes)
        if updated == standing:
            return standing
        now = self._clock()
        entry = updated.model_copy(update={"revision": standing.revision + 1, "updated_at": now})
        entry = Capability.from_bytes(entry.to_bytes())
        _require_valid(entry)
        row = _row(entry, action, actor, now, {"revision": entry.revision, "fields": sorted(changes)})
        body = replace(record, body=entry.to_bytes(), version=record.version + 1)
        await self._commit(Change(PLATFORM, (body,), (row,)))
        return entry

    async def _find(self, code: str) -> Record:
        return await self._records.get(PLATFORM, RecordKind.CAPABILITY, code)

    async def install_first(self) -> int:
        """Load the initial content once; return the number of entries, 0 if it was loaded before (G72)."""
        try:
            await self._records.get(PLATFORM, RecordKind.SETTINGS, INSTALLED)
        except NotFound:
            pass
        else:
            return 0
        now = self._clock()
        entries = first_catalogue(now)
        marker = Record(PLATFORM, RecordKind.SETTINGS, INSTALLED, b"{}", now)
        row = write_row(
            derive_id("aud", INSTALLED),
            AuditAction.CATALOG_CREATED,
            _SYSTEM,
            INSTALLED,
            now,
            detail=f"The first catalogue of {len(entries)} entries was installed.",
        )
        committed = await self._commit(Change(PLATFORM, (marker, *map(_record, entries)), (row,)))
        return len(entries) if committed.won else 0


def _record(entry: Capability) -> Record:
    return Record(
        PLATFORM, RecordKind.CAPABILITY, entry.code, entry.to_bytes(), entry.created_at, indexes=(ALL,)
    )


def _require_valid(entry: Capability) -> None:
    errors = tuple(problems_of(entry))
    if errors:
        message = errors[0].message if len(errors) == 1 else "The entry is not valid."
        raise Refused.because(ProblemCode.VALIDATION_FAILED, message, *errors)


_VERB_OF: Final = {
    AuditAction.CATALOG_CREATED: "added",
    AuditAction.CATALOG_UPDATED: "changed",
    AuditAction.CATALOG_ENABLED: "enabled",
    AuditAction.CATALOG_DISABLED: "disabled",
}


def _row(
    entry: Capability, action: AuditAction, actor: Actor, now: datetime, changes: dict[str, Any]
) -> AuditEvent:
    detail = f"The catalogue entry {entry.code} was {_VERB_OF[action]}."
    event_id = derive_id("aud", entry.code, action, str(entry.revision))
    return write_row(event_id, action, actor, entry.code, now, detail=detail, changes=changes)
