"""Rotating the root key in both stores: old and new open everything meanwhile, no kill changes the end."""

import hashlib
import importlib.util
import pkgutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest
from typing_extensions import override

import streams
from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.root_keys import CassandraRootKeys
from app.adapters.cassandra.session import Statement
from app.adapters.cassandra.stores import open_cassandra_stores
from app.adapters.files.data_dir import DATABASE_FILE, ROOT_KEY_FILE
from app.adapters.security.crypto import (
    Purpose,
    RootKey,
    RootKeyRefused,
    SenderKey,
    load_root_key,
    replace_key_file,
)
from app.adapters.security.derived_keys import (
    CARRIED,
    RENEWED,
    TABLES,
    KeySet,
    chain_keys_of,
    check_of,
    entry_of,
    id_of,
    resolve,
)
from app.adapters.security.key_versions import CursorKeys
from app.adapters.security.root_key_store import KeyState, Rewrapped, RootKeyStore, WrappedKey
from app.adapters.sqlite.root_keys import SqliteRootKeys
from app.adapters.sqlite.stores import open_sqlite_stores
from app.root_keys.rotation import (
    RotationRefused,
    begin,
    count_use,
    finish,
    read_root_keys,
    remove_retired,
    rewrap,
)
from schemas.audit import SealAudit
from schemas.ids import AuditEventId, EndpointId, SubjectId, TenantId, derive_id
from schemas.problems import StoreUnavailable
from streams.audit.handler import SealChain, verify_chain
from streams.audit.rules import chain_key, link
from streams.ports.errors import Erased
from streams.ports.records import Change
from streams.ports.stores import Stores
from streams.webhooks.signing import seal_secret
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_record
from tests.contracts.cassandra_adapter import KEYSPACE
from tests.contracts.fixtures import CASSANDRA

OLD = RootKey(hashlib.sha256(b"the root key before").digest())
NEW = RootKey(hashlib.sha256(b"the root key that follows").digest())
THIRD = RootKey(hashlib.sha256(b"the one after that").digest())
BOTH = replace(OLD, others=(NEW,))
ENDPOINT = EndpointId(derive_id("whe", "of", "acme"))
SUBJECTS = [SubjectId(f"subject-{n}") for n in range(6)]
GONE = SubjectId("erased")

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Place:
    """One store, opened as often as a test asks for it."""

    open: Callable[[RootKey], AbstractAsyncContextManager[Stores]]
    keys: Callable[[], AbstractAsyncContextManager[RootKeyStore]]


class Killed(Exception):
    """The process ended here."""


class Dying(RootKeyStore):
    """Writes a number of times; the next write never leaves, or leaves and its answer never comes."""

    def __init__(self, inner: RootKeyStore, lives: int, *, unanswered: bool) -> None:
        self._inner = inner
        self._lives = lives
        self._unanswered = unanswered

    @override
    async def read(self) -> KeyState:
        return await self._inner.read()

    @override
    async def page(self, after: WrappedKey | None, limit: int) -> Sequence[WrappedKey]:
        return await self._inner.page(after, min(limit, 2))

    @override
    async def replace_keyset(self, old: KeySet, new: KeySet) -> None:
        await self._live(self._inner.replace_keyset(old, new))

    @override
    async def make_current(self, old: bytes, new: bytes) -> None:
        await self._live(self._inner.make_current(old, new))

    @override
    async def rewrap(self, changes: Sequence[Rewrapped]) -> None:
        await self._live(self._inner.rewrap(changes))

    async def _live(self, write: Awaitable[None]) -> None:
        self._lives -= 1
        if self._lives < 0 and not self._unanswered:
            write.close()  # type: ignore[attr-defined]  # a coroutine that is never awaited
            raise Killed
        await write
        if self._lives < 0:
            raise Killed


@pytest.fixture(params=["sqlite", CASSANDRA])
def address(request: pytest.FixtureRequest) -> Address | None:
    """Where the Cassandra is; None: the store is a file."""
    if request.param == "sqlite":
        return None
    found: Address = request.getfixturevalue("contracts_keyspace")
    return found


@pytest.fixture
async def place(address: Address | None, tmp_path: Path) -> AsyncIterator[Place]:
    """A store of either kind, with some keys under the old root key."""
    made = _in_folder(tmp_path) if address is None else _in_keyspace(address, tmp_path)
    if address is not None:
        await _empty(address)
    async with made.open(OLD) as stores:
        await fill(stores)
    yield made
    if address is not None:
        await _empty(address)


@pytest.fixture
def tenant(tmp_path: Path) -> TenantId:
    """A tenant of this test alone, whose chain is empty."""
    return TenantId(derive_id("ten", str(tmp_path)))


def _in_folder(folder: Path) -> Place:
    @asynccontextmanager
    async def keys() -> AsyncIterator[RootKeyStore]:
        yield SqliteRootKeys(folder / DATABASE_FILE)

    return Place(lambda key: open_sqlite_stores(folder, key, durable=False), keys)


def _in_keyspace(address: Address, folder: Path) -> Place:
    @asynccontextmanager
    async def keys() -> AsyncIterator[RootKeyStore]:
        async with open_session(address, KEYSPACE) as session:
            yield CassandraRootKeys(session)

    return Place(
        lambda key: open_cassandra_stores(address, KEYSPACE, folder / "blobs", key, durable=False), keys
    )


async def _empty(address: Address) -> None:
    """Take away what the tests of this page leave, by lightweight transactions like every write of it."""
    forget = Statement("DELETE FROM settings WHERE name = ? IF EXISTS")
    async with open_session(address, KEYSPACE) as session:
        for name in ("key_check", "root_keys", "store_id"):
            await session.execute(forget, (name,))
        for table in ("subject_keys", "erasures"):
            await session.define(f"TRUNCATE {table}")


async def fill(stores: Stores) -> None:
    """Make keys of two tenants' subjects and of an endpoint, one of them destroyed."""
    for subject in SUBJECTS:
        for tenant in (ACME, GLOBEX):
            await stores.vault.seal(tenant, subject, "name", b"x")
    await stores.vault.seal(ACME, GONE, "name", b"x")
    await stores.vault.destroy(ACME, GONE)
    await seal_secret(stores.vault, ACME, ENDPOINT, "a secret of the tenant's receiver")


async def rotate(store: RootKeyStore, given: RootKey, following: RootKey) -> int:
    """Do what the command does."""
    keys = await begin(store, await read_root_keys(store, given), following, NOW)
    count = await rewrap(store, keys, unseen)
    await finish(store, await read_root_keys(store, keys.current), NOW)
    return count


def unseen(looked_at: int) -> None:
    """Progress nobody watches."""


async def seal_row(stores: Stores, tenant_id: TenantId, number: int) -> None:
    """Write an audit row of the tenant, and seal it into the chain."""
    row = build_audit_event(
        event_id=AuditEventId(derive_id("aud", tenant_id, str(number))), detail=f"Row {number}."
    )
    record = build_record(tenant_id=tenant_id, id=f"ver_{number}")
    await stores.journal.commit(Change(tenant_id, (record,), (row,)))
    await SealChain(stores.audit_log)(SealAudit(tenant_id=tenant_id))


async def versions_of_links(stores: Stores, tenant_id: TenantId) -> list[str]:
    """Return the version of the key under which each link of the chain is, in its order."""
    keys, last, found = await stores.audit_log.keys(), None, list[str]()
    for row in await stores.audit_log.walk(tenant_id, 0, 100):
        assert row.event is not None
        made = [one for one in keys.versions if link(last, row.event, chain_key(one, tenant_id)) == row.link]
        found += [one.version for one in made]
        last = row.link
    return found


async def no_file(current: RootKey, retired: str) -> None:
    """Nothing to forget: the keys are configured."""


async def test_every_key_is_wrapped_anew_and_opens_what_it_opened(place: Place) -> None:
    async with place.open(OLD) as stores:
        sealed = await stores.vault.seal(ACME, SUBJECTS[0], "address", b"1 Marina, Lagos")

    async with place.keys() as store:
        count = await rotate(store, BOTH, NEW)
        keys = await read_root_keys(store, BOTH)
        use = await count_use(store, keys)

    assert count == 2 * len(SUBJECTS) + 1
    assert (use.counted, use.unreadable) == ({id_of(NEW): count, id_of(OLD): 0}, 0)
    async with place.open(keys.current) as stores:
        assert await stores.vault.open(ACME, SUBJECTS[0], "address", sealed) == b"1 Marina, Lagos"
        with pytest.raises(Erased):
            await stores.vault.seal(ACME, GONE, "name", b"x")


async def test_old_and_new_are_readable_while_it_is_under_way(place: Place) -> None:
    """A process that was started with both keys before the rotation reads and writes through all of it."""
    async with place.open(BOTH) as stores, place.keys() as store:
        first = await stores.vault.seal(ACME, SUBJECTS[0], "address", b"before")
        keys = await begin(store, await read_root_keys(store, BOTH), NEW, NOW)
        late = await stores.vault.seal(ACME, SubjectId("late"), "address", b"meanwhile")
        under = await count_use(store, keys)
        await rewrap(store, keys, unseen)

        assert under.counted == {id_of(NEW): 1, id_of(OLD): 2 * len(SUBJECTS) + 1}
        assert await stores.vault.open(ACME, SUBJECTS[0], "address", first) == b"before"
        assert await stores.vault.open(ACME, SubjectId("late"), "address", late) == b"meanwhile"


async def test_a_process_without_the_new_key_makes_no_key_under_the_old_one(place: Place) -> None:
    async with place.open(OLD) as stores, place.keys() as store:
        await begin(store, await read_root_keys(store, BOTH), NEW, NOW)

        with pytest.raises(StoreUnavailable, match="the root key was rotated"):
            await stores.vault.seal(ACME, SubjectId("late"), "address", b"x")


@pytest.mark.parametrize("unanswered", [False, True])
async def test_a_rotation_killed_at_any_write_ends_the_same(
    place: Place, tenant: TenantId, *, unanswered: bool
) -> None:
    """The first run dies after no write, one write, two writes and so on; the next one finishes the work."""
    async with AsyncExitStack() as stack, place.keys() as store:
        lives = 0
        given, following = BOTH, NEW
        stores = await stack.enter_async_context(place.open(BOTH))  # it runs on through all of it
        while True:
            dying = Dying(store, lives, unanswered=unanswered)
            try:
                await rotate(dying, given, following)
            except Killed:
                await seal_row(stores, tenant, 2 * lives)
                await rotate_on(store, given, following)
                died = True
            else:
                died = False
            keys = await read_root_keys(store, given)
            use = await count_use(store, keys)
            assert (id_of(keys.current), use.unreadable) == (id_of(following), 0)
            assert use.counted == {id_of(following): 2 * len(SUBJECTS) + 1, id_of(given): 0}
            assert await remove_retired(store, keys, no_file) == id_of(given)
            await seal_row(stores, tenant, 2 * lives + 1)
            if not died:
                break
            lives += 1
            given, following = replace(keys.current, others=(given,)), replace(given, others=())
        report = await verify_chain(stores.audit_log, tenant)
        versions = await versions_of_links(stores, tenant)

    assert lives > 2 * len(SUBJECTS) / 2
    assert (report.fault, report.rows) == (None, 2 * lives + 1)
    assert {id_of(OLD), id_of(NEW)} == set(versions)


async def rotate_on(store: RootKeyStore, given: RootKey, following: RootKey) -> None:
    """Run the rotation again; one that died behind its last write has nothing left to do."""
    keys = await read_root_keys(store, given)
    if keys.retired() is None or keys.is_rotating:
        await rotate(store, given, following)


async def test_the_old_key_is_not_removed_while_a_data_key_needs_it(place: Place) -> None:
    async with place.keys() as store:
        keys = await begin(store, await read_root_keys(store, BOTH), NEW, NOW)
        with pytest.raises(RotationRefused, match="has not ended"):
            await remove_retired(store, keys, no_file)
        with pytest.raises(RotationRefused, match="data keys are still under root key"):
            await finish(store, keys, NOW)


async def test_the_old_key_is_not_removed_unseen(place: Place) -> None:
    """Who gives only the new key cannot tell what the old one wraps."""
    async with place.keys() as store:
        keys = await begin(store, await read_root_keys(store, BOTH), NEW, NOW)
        alone = await read_root_keys(store, NEW)
        await rewrap(store, alone, unseen)

        with pytest.raises(RotationRefused, match=f"give {id_of(OLD)} as well"):
            await finish(store, alone, NOW)
        assert (await count_use(store, keys)).counted[id_of(OLD)] == 2 * len(SUBJECTS) + 1


async def test_the_old_key_alone_is_refused_with_what_to_do(place: Place) -> None:
    async with place.keys() as store:
        await rotate(store, BOTH, NEW)

        with pytest.raises(RootKeyRefused, match=f"{id_of(NEW)} since .* was given {id_of(OLD)}.*ROOT_KEY"):
            await read_root_keys(store, OLD)
    with pytest.raises(RootKeyRefused):
        async with place.open(OLD):
            pass


async def test_what_nobody_can_make_again_keeps_its_key_through_two_rotations(place: Place) -> None:
    async with place.keys() as store:
        await rotate(store, BOTH, NEW)
        await remove_retired(store, await read_root_keys(store, BOTH), no_file)
        await rotate(store, replace(NEW, others=(THIRD,)), THIRD)
        keys = await read_root_keys(store, replace(THIRD, others=(NEW,)))
        await remove_retired(store, keys, no_file)
        state = await store.read()

    last = resolve(THIRD, state.check, state.keyset)
    sender = resolve(SenderKey(THIRD.sender_key().secret), state.check, state.keyset)
    assert {label: last.derive(label) for label in CARRIED} == {label: OLD.derive(label) for label in CARRIED}
    assert all(last.derive(label) != OLD.derive(label) for label in RENEWED if label is not Purpose.SENDER)
    assert sender.derive("records/table.deliveries") == OLD.derive("records/table.deliveries")
    assert sender.derive(Purpose.WEBHOOK_SECRETS) == THIRD.derive(Purpose.WEBHOOK_SECRETS)


async def test_a_chain_verifies_over_two_rotations_each_of_which_begins_a_version(
    place: Place, tenant: TenantId
) -> None:
    """The keys that were replaced are removed each time; what was sealed under them stays verifiable."""
    current = OLD
    async with place.keys() as store:
        for number, following in enumerate((NEW, THIRD, None)):
            async with place.open(current) as stores:
                await seal_row(stores, tenant, 2 * number)
                await seal_row(stores, tenant, 2 * number + 1)
                report = await verify_chain(stores.audit_log, tenant)
                versions = await versions_of_links(stores, tenant)
            if following is not None:
                both = replace(current, others=(following,))
                await rotate(store, both, following)
                await remove_retired(store, await read_root_keys(store, both), no_file)
                current = (await read_root_keys(store, following)).current

    assert (report.fault, report.rows) == (None, 6)
    assert versions == [id_of(key) for key in (OLD, OLD, NEW, NEW, THIRD, THIRD)]


async def test_rows_are_sealed_under_the_new_version_by_a_process_that_runs_on(
    place: Place, tenant: TenantId
) -> None:
    """One that was not given the new root key seals nothing, names the key, and loses no row."""
    async with place.open(BOTH) as stores, place.open(OLD) as left_behind, place.keys() as store:
        await seal_row(stores, tenant, 1)
        await begin(store, await read_root_keys(store, BOTH), NEW, NOW)
        with pytest.raises(StoreUnavailable, match=f"{id_of(NEW)} since .* was given {id_of(OLD)}"):
            await seal_row(left_behind, tenant, 2)
        await seal_row(stores, tenant, 3)

        assert (await verify_chain(stores.audit_log, tenant)).fault is None
        assert await versions_of_links(stores, tenant) == [id_of(key) for key in (OLD, NEW, NEW)]


def test_a_deployment_rotated_before_there_were_versions_has_its_first_without_a_name() -> None:
    first = OLD.derive(Purpose.AUDIT_CHAIN)
    rotated = replace(NEW, carried={Purpose.AUDIT_CHAIN: first})
    entry = entry_of(THIRD, rotated, NOW)

    again = resolve(THIRD, check_of(THIRD), KeySet(keys=(entry,)))

    known, later = chain_keys_of(rotated), chain_keys_of(again)
    assert [one.version for one in later.versions] == ["", id_of(NEW), id_of(THIRD)]
    assert (later.versions[:2], known.versions[0].secret) == (known.versions, first)


def test_cursors_follow_the_file_of_the_root_key(tmp_path: Path) -> None:
    """What a process that runs on writes under, and reads, is what lies in the file by then."""
    file = tmp_path / ROOT_KEY_FILE
    replace_key_file(file, [OLD])
    versions = CursorKeys(load_root_key(None, file))
    seen = [list(versions())]
    for keys in ([OLD, NEW], [NEW, OLD], [NEW]):
        replace_key_file(file, keys)
        seen.append(list(versions()))
    file.unlink()

    assert seen == [[id_of(key) for key in keys] for keys in ([OLD], [OLD, NEW], [NEW, OLD], [NEW])]
    assert list(versions()) == [id_of(NEW)]


def test_every_table_of_the_agents_keeps_its_key() -> None:
    packages = [module.name for module in pkgutil.iter_modules(streams.__path__, "streams.") if module.ispkg]
    names = [f"{name}.agent" for name in packages if importlib.util.find_spec(f"{name}.agent")]
    agents = [importlib.import_module(name) for name in names]

    assert set(TABLES) == {agent.TABLE for agent in agents if hasattr(agent, "TABLE")}
