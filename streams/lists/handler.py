"""Replace, change and delete the lists of a tenant; each change is whole, decided by one record (G116)."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.audit import Actor, AuditAction
from schemas.base import to_milliseconds
from schemas.enums import CheckKind
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import PLATFORM, AuditEventId, EventId, TenantId, derive_id
from schemas.lists import ENTRY_MODEL, PUBLISHED_LIST_CHECKS, SANDBOX, ListEntry, ListKind, entry_key
from schemas.problems import FieldProblem, NotFound, ProblemCode, Refused, StoreUnavailable
from schemas.tenant_lists import (
    DISPOSABLE_DOMAINS,
    MOST_LIST_ENTRIES,
    MOST_LISTS,
    KeyedChange,
    ListChanged,
    StoredList,
    StoredLists,
)
from streams.aggregate import key_reused, retry_conflicts
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.lists.storage import LISTS_ID, EntriesDamaged, ListStorage, Written, lists_record
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind

NamedLists = Callable[[TenantId], Awaitable[frozenset[str]]]
"""Return the names of lists that a tenant's published policy depends on."""

Announce = Callable[[ListChanged], Awaitable[None]]
"""Tell every process that a list changed; it does not fail, for they find out within a second anyway."""


@dataclass(frozen=True, slots=True)
class ListForm:
    """What a list is, without its entries."""

    kind: ListKind
    check: CheckKind | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """A list after a change, and whether the change created it."""

    stored: StoredList
    created: bool = False
    replayed: bool = False
    """The request's key had been used: nothing was changed now."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """An Idempotency-Key, as the id of the record that has the answer, and what it was used for (G2)."""

    id: str
    fingerprint: str


class ChangeLists:
    """The use cases of a tenant's own lists; two changes at the same moment come one after the other."""

    def __init__(
        self,
        storage: ListStorage,
        commit: Commit,
        clock: Callable[[], datetime],
        new_id: Callable[[str], str],
        named: NamedLists,
        announce: Announce,
    ) -> None:
        self.storage = storage
        self._commit = commit
        self._clock = clock
        self._new_id = new_id
        self._named = named
        self._announce = announce

    async def replace(
        self,
        tenant_id: TenantId,
        name: str,
        form: ListForm,
        entries: Sequence[ListEntry],
        actor: Actor,
        key: str | None = None,
    ) -> Changed:
        """Make the entries the whole list; it is made if there was none. A key changes it once.

        Raises:
            Refused: LIST_NAME_TAKEN, VALIDATION_FAILED, IDEMPOTENCY_KEY_REUSED.
            StoreUnavailable: The outcome is unknown; the same request may be sent again.
        """
        lines = [_line(entry) for entry in entries]
        use = use_of(key, f"{form.kind}|{form.check}|{form.category}".encode(), *lines)
        first = await self.answered(tenant_id, use)
        if first is not None:
            return first
        await self.require_free(tenant_id, name, form.kind)
        written = await self._write(tenant_id, lines)
        return await retry_conflicts(lambda: self._replace(tenant_id, name, form, written, actor, use))

    async def patch(
        self,
        tenant_id: TenantId,
        name: str,
        add: Sequence[ListEntry],
        remove: frozenset[str],
        actor: Actor,
        key: str | None = None,
    ) -> Changed:
        """Add entries, each in the place of one with its key, and remove those with the keys.

        Raises:
            NotFound: The tenant has no such list.
            Refused: LIST_INVALID, IDEMPOTENCY_KEY_REUSED.
            StoreUnavailable: The outcome is unknown; the same request may be sent again.
        """
        removed = "\n".join(sorted(remove)).encode()
        use = use_of(key, removed, *(_line(entry) for entry in add))
        return await retry_conflicts(lambda: self._patch(tenant_id, name, add, remove, actor, use))

    async def delete(self, tenant_id: TenantId, name: str, actor: Actor) -> None:
        """Delete a list.

        Raises:
            NotFound: The tenant has no such list.
            Refused: LIST_IN_USE; the tenant's published policy names it.
            StoreUnavailable: The outcome is unknown; the same request may be sent again.
        """
        lists, _ = await self.storage.load(tenant_id)
        if lists.named(name) is not None and name in await self._named(tenant_id):
            detail = "The published policy names the list; publish one that does not, then delete it."
            raise Refused.because(ProblemCode.LIST_IN_USE, detail)
        await retry_conflicts(lambda: self._delete(tenant_id, name, actor))

    async def require_free(self, tenant_id: TenantId, name: str, kind: ListKind) -> None:
        """Raise `Refused` if a tenant may not have a list of the name and kind."""
        deployment, _ = await self.storage.load(PLATFORM)
        if name == SANDBOX or name in PUBLISHED_LIST_CHECKS or deployment.named(name):
            message = "The deployment has a list of this name; choose another."
            raise Refused.because(ProblemCode.LIST_NAME_TAKEN, message)
        if name == DISPOSABLE_DOMAINS and kind is not ListKind.VALUES:
            raise _invalid("kind", f"{DISPOSABLE_DOMAINS} is a list of VALUES.")
        lists, _ = await self.storage.load(tenant_id)
        if lists.named(name) is None and len(lists.lists) >= MOST_LISTS:
            detail = f"A tenant has at most {MOST_LISTS} lists; delete one first."
            raise Refused.because(ProblemCode.VALIDATION_FAILED, detail)

    async def _write(self, tenant_id: TenantId, lines: Sequence[bytes]) -> Written:
        place = self._new_id("lst")
        return await self.storage.write(tenant_id, place, lines, to_milliseconds(self._clock()))

    async def answered(self, tenant_id: TenantId, use: KeyUse | None) -> Changed | None:
        """Return what the key's first request was answered with, or None before its first use.

        Raises:
            Refused: IDEMPOTENCY_KEY_REUSED.
        """
        if use is None:
            return None
        try:
            record = await self.storage.records.get(tenant_id, RecordKind.TOKEN, use.id)
        except NotFound:
            return None
        if record.fingerprint != use.fingerprint:
            raise key_reused()
        return Changed(KeyedChange.from_bytes(record.body).stored, replayed=True)

    async def _replace(
        self,
        tenant_id: TenantId,
        name: str,
        form: ListForm,
        written: Written,
        actor: Actor,
        use: KeyUse | None,
    ) -> Changed:
        first = await self.answered(tenant_id, use)
        if first is not None:
            return first
        lists, version = await self.storage.load(tenant_id)
        return await self._become(tenant_id, lists, version, name, form, written, actor, use)

    async def _patch(
        self,
        tenant_id: TenantId,
        name: str,
        add: Sequence[ListEntry],
        remove: frozenset[str],
        actor: Actor,
        use: KeyUse | None,
    ) -> Changed:
        first = await self.answered(tenant_id, use)
        if first is not None:
            return first
        lists, version = await self.storage.load(tenant_id)
        found = lists.named(name)
        if found is None:
            raise NotFound(name)
        try:
            lines = await self.storage.lines(tenant_id, found)
        except EntriesDamaged:
            raise StoreUnavailable("the entries of the list are damaged; replace the whole list") from None
        merged = _merged(found.kind, lines, add, remove)
        if len(merged) > MOST_LIST_ENTRIES:
            message = f"There would be more than {MOST_LIST_ENTRIES} entries."
            raise Refused.at("/add", ProblemCode.LIST_INVALID, message)
        written = await self._write(tenant_id, merged)
        form = ListForm(found.kind, found.check, found.category)
        return await self._become(tenant_id, lists, version, name, form, written, actor, use)

    async def _delete(self, tenant_id: TenantId, name: str, actor: Actor) -> None:
        lists, version = await self.storage.load(tenant_id)
        if lists.named(name) is None:
            raise NotFound(name)
        await self._store(tenant_id, lists.without(name), version, name, None, actor)

    async def _become(
        self,
        tenant_id: TenantId,
        lists: StoredLists,
        version: int,
        name: str,
        form: ListForm,
        written: Written,
        actor: Actor,
        use: KeyUse | None,
    ) -> Changed:
        now = to_milliseconds(self._clock())
        stored = StoredList(
            name=name,
            kind=form.kind,
            check=form.check,
            category=form.category,
            entries=written.entries,
            sha256=written.sha256,
            source_date=now.date(),
            loaded_at=now,
            place=written.place,
            parts=written.parts,
        )
        created = lists.named(name) is None
        await self._store(tenant_id, lists.with_list(stored), version, name, stored, actor, use)
        return Changed(stored, created)

    async def _store(
        self,
        tenant_id: TenantId,
        after: StoredLists,
        version: int,
        name: str,
        stored: StoredList | None,
        actor: Actor,
        use: KeyUse | None = None,
    ) -> None:
        now = to_milliseconds(self._clock())
        action = AuditAction.LIST_DELETED if stored is None else AuditAction.LIST_UPDATED
        row = write_row(
            AuditEventId(self._new_id("aud")),
            action,
            actor,
            name,
            now,
            detail=f"The list {name} was {action.partition('.')[2]}.",
            changes={} if stored is None else {"version": stored.version, "entries": stored.entries},
        )
        record = lists_record(tenant_id, after, version + 1, now)
        events = () if stored is None else (_event(tenant_id, stored, now, version + 1),)
        records = (record, *answer_records(tenant_id, use, stored, now))
        committed = await self._commit(Change(tenant_id, records, (row,), events))
        if not committed.won:
            raise Conflict(LISTS_ID)
        version_now = None if stored is None else stored.version
        await self._announce(ListChanged(tenant_id=tenant_id, list=name, version=version_now))


def use_of(key: str | None, *parts: bytes) -> KeyUse | None:
    """Return the use of a key for a request of these parts."""
    if key is None:
        return None
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return KeyUse(key, digest.hexdigest())


def answer_records(
    tenant_id: TenantId, use: KeyUse | None, stored: StoredList | None, now: datetime
) -> tuple[Record, ...]:
    """Return the record by which a repeated request finds its answer; none without a key."""
    if use is None or stored is None:
        return ()
    body = KeyedChange(stored=stored).to_bytes()
    return (Record(tenant_id, RecordKind.TOKEN, use.id, body, now, fingerprint=use.fingerprint),)


def _line(entry: ListEntry) -> bytes:
    """Return an entry without what its uploader left out."""
    return entry.model_dump_json(exclude_defaults=True).encode()


def _merged(
    kind: ListKind, lines: Sequence[bytes], add: Sequence[ListEntry], remove: frozenset[str]
) -> list[bytes]:
    model = ENTRY_MODEL[kind]
    entries: dict[str, bytes] = {entry_key(model.from_bytes(line)): line for line in lines}
    for key in remove:
        entries.pop(key, None)
    added: Mapping[str, bytes] = {entry_key(entry): _line(entry) for entry in add}
    return list({**entries, **added}.values())


def _event(tenant_id: TenantId, stored: StoredList, now: datetime, version: int) -> DecisionEvent:
    event_id = derive_id("evt", tenant_id, stored.place, EventType.LIST_UPDATED)
    return DecisionEvent(
        id=EventId(event_id),
        type=EventType.LIST_UPDATED,
        timestamp=now,
        tenant_id=tenant_id,
        livemode=True,
        sequence=version,
        data=EventData(list=stored.name, list_version=stored.version),
    )


def _invalid(parameter: str, message: str) -> Refused:
    code = ProblemCode.VALIDATION_FAILED
    return Refused.because(code, message, FieldProblem(code=code, message=message, parameter=parameter))
