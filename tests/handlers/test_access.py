"""Tenants and keys: made, revoked, distinguished, and every change of them audited."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_network
from itertools import count
from pathlib import Path

import pytest
from typing_extensions import override

from schemas.access import ApiKey, Tenant
from schemas.audit import Actor, AuditEvent, AuditFilter
from schemas.enums import ActorType, Scope
from schemas.ids import PLATFORM, KeyId, TenantId, derive_id
from schemas.problems import NotFound, Unauthenticated
from streams.ports.records import Found, Position, Record, RecordKind, Records
from streams.ports.stores import Stores
from streams.tenants.handler import KEY_INDEX, TENANT_INDEX, Authenticate, CreateKey, CreateTenant, RevokeKey
from tests.builders import ACME, GLOBEX, NOW
from tests.contracts.adapters import Opened, open_memory

PEPPER = b"pepper of a test"


@dataclass
class Office:
    """The use cases over one store, with a clock that stands and ids that count."""

    stores: Stores
    now: datetime = NOW
    numbers: Iterator[int] = field(default_factory=count)

    def clock(self) -> datetime:
        """The time."""
        return self.now

    def new_id(self, prefix: str) -> str:
        """The next id."""
        return derive_id(prefix, str(next(self.numbers)))

    async def create_key(self, tenant_id: TenantId = ACME, **changes: object) -> tuple[ApiKey, str]:
        """A live key for ever."""
        create = CreateKey(self.stores.journal.commit, PEPPER, self.clock, self.new_id)
        values = {"name": "first", "livemode": True, "expires_at": None} | changes
        return await create(tenant_id, **values)  # type: ignore[arg-type]  # changes name its arguments

    async def revoke(self, tenant_id: TenantId, key_id: KeyId) -> ApiKey:
        """Revoke a key."""
        return await RevokeKey(self.stores.records, self.stores.journal.commit, self.clock)(tenant_id, key_id)

    @property
    def authenticate(self) -> Authenticate:
        """Who presents a key."""
        return Authenticate(self.stores.records, PEPPER, self.clock)

    async def audit(self, tenant_id: TenantId) -> list[AuditEvent]:
        """A tenant's rows, newest first."""
        return list(await self.stores.audit_log.page(tenant_id, AuditFilter(), limit=50))


@pytest.fixture
def office(opened: Opened) -> Office:
    """The use cases over every adapter in turn."""
    return Office(opened.stores)


async def test_a_created_tenant_is_kept(office: Office) -> None:
    tenant = await CreateTenant(office.stores.journal.commit, office.clock, office.new_id)("Acme")

    record = await office.stores.records.get(PLATFORM, RecordKind.TENANT, tenant.tenant_id)
    assert (
        Tenant.from_bytes(record.body)
        == tenant
        == Tenant(tenant_id=TenantId(derive_id("ten", "0")), name="Acme", created_at=NOW)
    )


async def test_a_new_tenant_is_reported_in_the_platforms_chain_alone(office: Office) -> None:
    tenant = await CreateTenant(office.stores.journal.commit, office.clock, office.new_id)("Acme")

    (row,) = await office.audit(PLATFORM)
    assert (row.action, row.subject_id) == ("tenant.created", tenant.tenant_id)
    assert await office.audit(tenant.tenant_id) == []


async def test_no_row_holds_the_tenants_name(office: Office) -> None:
    await CreateTenant(office.stores.journal.commit, office.clock, office.new_id)("Jane Doe Ltd")

    assert "Jane" not in (await office.audit(PLATFORM))[0].model_dump_json()


async def test_a_created_key_is_let_in_as_its_tenant(office: Office) -> None:
    key, shown = await office.create_key(livemode=False, scopes=(Scope.AUDIT_READ,))

    caller = await office.authenticate(shown)

    assert (caller.tenant_id, caller.key_id, caller.livemode) == (ACME, key.key_id, False)
    assert caller.scopes == {Scope.AUDIT_READ}


async def test_a_key_has_every_scope_unless_set_otherwise(office: Office) -> None:
    key, _ = await office.create_key()

    assert set(key.scopes) == set(Scope)


async def test_s29_the_key_itself_is_kept_nowhere(office: Office) -> None:
    key, shown = await office.create_key()

    record = await office.stores.records.get(PLATFORM, RecordKind.API_KEY, key.prefix)
    rows = [row.model_dump_json() for row in await office.audit(ACME)]
    secret = shown.rpartition("_")[2]
    assert [stored for stored in (record.body.decode(), *rows) if secret in stored] == []


async def test_a_new_key_is_reported_in_its_tenants_chain(office: Office) -> None:
    actor = Actor(actor_type=ActorType.REVIEWER, actor_id="usr_1", request_id="req-1", ip="203.0.113.7")

    key, _ = await office.create_key(actor=actor, livemode=False)

    (row,) = await office.audit(ACME)
    assert (row.action, row.subject_id, row.livemode) == ("api_key.created", key.key_id, False)
    assert (row.actor_type, row.actor_id, row.correlation_id) == (ActorType.REVIEWER, "usr_1", "req-1")
    assert row.context == {"request_id": "req-1", "ip": "203.0.113.7"}


async def test_keys_are_listed_by_tenant_and_found_by_id(office: Office) -> None:
    mine, _ = await office.create_key()
    await office.create_key(GLOBEX)

    for index in ((TENANT_INDEX, ACME), (KEY_INDEX, mine.key_id)):
        found = await office.stores.records.page(PLATFORM, RecordKind.API_KEY, index, limit=9)
        assert [ApiKey.from_bytes(record.body) for record in found] == [mine]


async def test_a_look_up_prefix_that_is_taken_is_drawn_again(office: Office) -> None:
    draws = iter([bytes(10), bytes(32), bytes(10), b"\1" * 32, b"\1" * 10, b"\2" * 32])
    create = CreateKey(
        office.stores.journal.commit, PEPPER, office.clock, office.new_id, lambda _: next(draws)
    )

    keys = [await create(ACME, name=name, livemode=True, expires_at=None) for name in ("first", "second")]

    callers = [await office.authenticate(shown) for _, shown in keys]
    assert [caller.key_id for caller in callers] == [key.key_id for key, _ in keys]


async def test_a_revoked_key_is_refused_at_the_next_request(office: Office) -> None:
    key, shown = await office.create_key()
    await office.authenticate(shown)

    await office.revoke(ACME, key.key_id)

    with pytest.raises(Unauthenticated):
        await office.authenticate(shown)


async def test_a_revocation_is_reported_in_the_tenants_chain(office: Office) -> None:
    key, _ = await office.create_key()
    office.now += timedelta(seconds=1)

    await office.revoke(ACME, key.key_id)

    row = (await office.audit(ACME))[0]
    assert (row.action, row.subject_id) == ("api_key.revoked", key.key_id)


async def test_revoking_again_changes_nothing(office: Office) -> None:
    key, _ = await office.create_key()
    first = await office.revoke(ACME, key.key_id)
    office.now += timedelta(hours=1)

    assert await office.revoke(ACME, key.key_id) == first

    assert len(await office.audit(ACME)) == 2


async def test_many_revocations_at_once_are_one(office: Office) -> None:
    key, _ = await office.create_key()

    revoked = await asyncio.gather(*(office.revoke(ACME, key.key_id) for _ in range(10)))

    assert {one.revoked_at for one in revoked} == {NOW}
    assert len(await office.audit(ACME)) == 2


async def test_nobody_revokes_another_tenants_key(office: Office) -> None:
    key, shown = await office.create_key()

    with pytest.raises(NotFound):
        await office.revoke(GLOBEX, key.key_id)

    assert (await office.authenticate(shown)).key_id == key.key_id


async def test_an_unknown_key_id_is_not_found(office: Office) -> None:
    with pytest.raises(NotFound):
        await office.revoke(ACME, KeyId(derive_id("key", "unknown")))


async def test_revoking_one_key_spares_the_others(office: Office) -> None:
    key, _ = await office.create_key()
    _, other = await office.create_key(name="second")

    await office.revoke(ACME, key.key_id)

    assert (await office.authenticate(other)).tenant_id == ACME


async def test_a_key_made_elsewhere_is_refused(office: Office, tmp_path: Path) -> None:
    async with open_memory(tmp_path) as elsewhere:
        _, shown = await Office(elsewhere.stores).create_key()

    with pytest.raises(Unauthenticated):
        await office.authenticate(shown)


async def test_a_key_under_another_pepper_is_refused(office: Office) -> None:
    _, shown = await office.create_key()

    with pytest.raises(Unauthenticated):
        await Authenticate(office.stores.records, b"another pepper", office.clock)(shown)


async def test_an_expired_key_is_refused(office: Office) -> None:
    _, shown = await office.create_key(expires_at=NOW + timedelta(days=1))
    await office.authenticate(shown)

    office.now += timedelta(days=1)

    with pytest.raises(Unauthenticated):
        await office.authenticate(shown)


async def test_a_bound_key_is_refused_from_elsewhere(office: Office) -> None:
    _, shown = await office.create_key(allowed_cidrs=(ip_network("203.0.113.0/24"),))

    await office.authenticate(shown, "203.0.113.7")
    with pytest.raises(Unauthenticated):
        await office.authenticate(shown, "198.51.100.1")


@dataclass
class CountingRecords(Records):
    """Records that know how often they were read."""

    inner: Records
    reads: int = 0

    @override
    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        self.reads += 1
        return await self.inner.get(tenant_id, kind, record_id)

    @override
    async def page(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        *,
        limit: int,
        before: Position | None = None,
    ) -> list[Record]:
        self.reads += 1
        return list(await self.inner.page(tenant_id, kind, index, limit=limit, before=before))

    @override
    async def search(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        fragment: str,
        *,
        limit: int,
        before: Position | None = None,
    ) -> Found:
        self.reads += 1
        return await self.inner.search(tenant_id, kind, index, fragment, limit=limit, before=before)


async def test_authentication_is_one_read(office: Office) -> None:
    _, shown = await office.create_key()
    records = CountingRecords(office.stores.records)

    await Authenticate(records, PEPPER, office.clock)(shown)

    assert records.reads == 1


async def test_s29_a_mistyped_key_is_refused_without_a_read(office: Office) -> None:
    _, shown = await office.create_key()
    records = CountingRecords(office.stores.records)

    with pytest.raises(Unauthenticated):
        await Authenticate(records, PEPPER, office.clock)(shown[:-1] + ("1" if shown[-1] == "0" else "0"))

    assert records.reads == 0
