"""Rotating the root key in both stores: old and new open everything meanwhile, no kill changes the end."""

import hashlib
import importlib.util
import pkgutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.security.crypto import Purpose, RootKey, RootKeyRefused, SenderKey
from app.adapters.security.derived_keys import CARRIED, RENEWED, TABLES, KeySet, id_of, resolve
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
from schemas.ids import EndpointId, SubjectId, derive_id
from schemas.problems import StoreUnavailable
from streams.ports.errors import Erased
from streams.ports.stores import Stores
from streams.webhooks.signing import seal_secret
from tests.builders import ACME, GLOBEX, NOW
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
async def test_a_rotation_killed_at_any_write_ends_the_same(place: Place, *, unanswered: bool) -> None:
    """The first run dies after no write, one write, two writes and so on; the next one finishes the work."""
    async with place.keys() as store:
        lives = 0
        given, following = BOTH, NEW
        while True:
            dying = Dying(store, lives, unanswered=unanswered)
            try:
                await rotate(dying, given, following)
            except Killed:
                await rotate_on(store, given, following)
                died = True
            else:
                died = False
            keys = await read_root_keys(store, given)
            use = await count_use(store, keys)
            assert (id_of(keys.current), use.unreadable) == (id_of(following), 0)
            assert use.counted == {id_of(following): 2 * len(SUBJECTS) + 1, id_of(given): 0}
            assert await remove_retired(store, keys, no_file) == id_of(given)
            if not died:
                break
            lives += 1
            given, following = replace(keys.current, others=(given,)), replace(given, others=())

    assert lives > 2 * len(SUBJECTS) / 2


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


def test_every_table_of_the_agents_keeps_its_key() -> None:
    packages = [module.name for module in pkgutil.iter_modules(streams.__path__, "streams.") if module.ispkg]
    names = [f"{name}.agent" for name in packages if importlib.util.find_spec(f"{name}.agent")]
    agents = [importlib.import_module(name) for name in names]

    assert set(TABLES) == {agent.TABLE for agent in agents if hasattr(agent, "TABLE")}
