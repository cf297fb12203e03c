"""Open the stores of a deployment and derive its keys; every command and role starts here.

It is separate from `wiring`, whose broker, agents, models and front take seconds to import.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from uuid_utils.compat import uuid7

from app.adapters.files.data_dir import DATABASE_FILE, OURS, ROOT_KEY_FILE, make_private, tighten
from app.adapters.security.at_rest import seal_stores
from app.adapters.security.crypto import Keys, Purpose, RootKey, SenderKey, load_root_key, load_sender_key
from app.adapters.security.derived_keys import resolve
from app.adapters.security.passwords import Argon2Passwords
from app.adapters.security.root_key_store import RootKeyStore
from app.adapters.sqlite.root_keys import SqliteRootKeys
from app.adapters.sqlite.stores import open_sqlite_stores
from app.composition.existing_deployment import require_deployment, require_key
from app.composition.restore_marker import refuse_marked
from app.process.startup import CannotStart
from app.settings import Settings, SettingsRefused, blobs_dir_of
from schemas.ids import PLATFORM, TenantId, encode_id
from schemas.problems import NotFound, VeristreamError
from streams.audit.commit import Commit
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.reviewers.context import People
from streams.runtime.authentication import RecordKeys
from streams.tenants.handler import TENANTS_INDEX

if TYPE_CHECKING:
    from app.adapters.cassandra.connection import Address


def now() -> datetime:
    """The moment, in UTC."""
    return datetime.now(UTC)


def new_id(prefix: str) -> str:
    """A fresh identifier; later ones sort after earlier ones."""
    return encode_id(prefix, uuid7())


@dataclass(frozen=True, slots=True)
class Deployment:
    """The stores, opened, and the keys derived from the root key."""

    stores: Stores
    keys: Keys

    @property
    def root_key(self) -> RootKey:
        """The root key.

        Raises:
            CannotStart: The process was given the sender's key instead.
        """
        if isinstance(self.keys, SenderKey):
            raise CannotStart(
                "SERVICE_SENDER_KEY is for veristream worker --streams webhooks,deliveries alone; "
                "give this process SERVICE_ROOT_KEY"
            )
        return self.keys

    @property
    def record_keys(self) -> RecordKeys:
        """The keys that sign and check the records of the log."""
        return RecordKeys(self.keys.derive)


@asynccontextmanager
async def open_deployment(settings: Settings) -> AsyncIterator[Deployment]:
    """Open the stores of the data folder, which is made when it is not there: for a role that starts.

    Raises:
        CannotStart: The folder, the root key or the store cannot be used, or a backup rests in the folder.
    """
    await asyncio.to_thread(refuse_marked, settings.data_dir)
    await asyncio.to_thread(_make_folder, settings)
    async with _opened(settings) as deployment:
        yield deployment


@asynccontextmanager
async def open_existing(settings: Settings) -> AsyncIterator[Deployment]:
    """Open the stores of a deployment that was started before; makes no folder, store or key (R12).

    Raises:
        CannotStart: There is none, or the root key or the store cannot be used.
    """
    await asyncio.to_thread(require_deployment, settings)
    async with _opened(settings) as deployment:
        yield deployment


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Deployment]:
    async with AsyncExitStack() as stack:
        try:
            await asyncio.to_thread(_tighten, settings)
            keys = await keys_of(settings)
            stores = await stack.enter_async_context(await _open_stores(settings, keys))
        except (OSError, VeristreamError, SettingsRefused) as error:
            raise _cannot_open(settings, error) from error
        yield Deployment(seal_stores(stores, keys.derive), keys)


def _make_folder(settings: Settings) -> None:
    """Make the data folder for its owner alone. Blocking.

    It stays as it is when it was there: it may be one that holds other things as well.
    """
    try:
        make_private(settings.data_dir)
    except OSError as error:
        raise _cannot_open(settings, error) from error


def _tighten(settings: Settings) -> None:
    """Close to others what an older version left open in the data folder. Blocking."""
    tighten(settings.data_dir / name for name in OURS)


def _cannot_open(settings: Settings, error: Exception) -> CannotStart:
    return CannotStart(f"{error}; see: veristream doctor --data-dir {settings.data_dir}")


async def keys_of(settings: Settings) -> Keys:
    """Return the keys that were given, first the one that the store is sealed under, with those that stayed.

    Raises:
        RootKeyRefused: The key cannot be used, or it is not the store's.
        SettingsRefused: See `given_keys_of`.
        StoreUnavailable: The store cannot be read.
    """
    given = await given_keys_of(settings)
    async with open_root_keys(settings) as store:
        if store is None:
            return given
        state = await store.read()
        return resolve(given, state.check, state.keyset)


@asynccontextmanager
async def open_root_keys(settings: Settings) -> AsyncIterator[RootKeyStore | None]:
    """Open what the store says about root keys; None: there is no store yet. Makes none.

    Raises:
        StoreUnavailable: It cannot be reached.
        StoreRefused: See `open_cassandra_stores`.
        SettingsRefused: A setting is malformed.
    """
    if settings.cassandra_contact_points:
        async with await asyncio.to_thread(_cassandra_root_keys, settings) as opened:
            yield opened
        return
    file = settings.data_dir / DATABASE_FILE
    yield SqliteRootKeys(file) if await asyncio.to_thread(file.is_file) else None


def _cassandra_root_keys(settings: Settings) -> AbstractAsyncContextManager[RootKeyStore]:
    """Return what opens the configured Cassandra for its root keys; imports its driver. Blocking."""
    from app.adapters.cassandra.root_keys import open_cassandra_root_keys  # noqa: PLC0415 - see below

    return open_cassandra_root_keys(_address_of(settings), settings.cassandra_keyspace)


async def given_keys_of(settings: Settings) -> Keys:
    """Return the sender's key where it is configured, else the root key, which is made when there is none.

    Raises:
        RootKeyRefused: The key cannot be used.
        SettingsRefused: Both are configured: a process that has the root key needs no other.
    """
    if settings.sender_key is None:
        key_file = settings.data_dir / ROOT_KEY_FILE
        return await asyncio.to_thread(load_root_key, settings.root_key, key_file)
    if settings.root_key is not None:
        raise SettingsRefused(
            "SERVICE_ROOT_KEY and SERVICE_SENDER_KEY are both set; give a sender the latter alone"
        )
    return load_sender_key(settings.sender_key)


async def record_keys_of(settings: Settings) -> RecordKeys:
    """Return what signs and checks records, for a command that needs no store; makes no key (R12).

    Raises:
        CannotStart: There is no key, or it cannot be used.
    """
    await asyncio.to_thread(require_key, settings)
    try:
        return RecordKeys((await keys_of(settings)).derive)
    except (OSError, VeristreamError, SettingsRefused) as error:
        raise CannotStart(str(error)) from error


async def _open_stores(settings: Settings, keys: Keys) -> AbstractAsyncContextManager[Stores]:
    """Return the stores of the configured Cassandra, else those of the data folder."""
    if settings.cassandra_contact_points:
        return await asyncio.to_thread(_cassandra_stores, settings, keys)
    return open_sqlite_stores(settings.data_dir, keys, blobs_dir=blobs_dir_of(settings))


def _cassandra_stores(settings: Settings, keys: Keys) -> AbstractAsyncContextManager[Stores]:
    """Return the stores of the configured Cassandra; only here and above is its driver imported. Blocking."""
    from app.adapters.cassandra.stores import open_cassandra_stores  # noqa: PLC0415 - seconds, where it is used

    address = _address_of(settings)
    return open_cassandra_stores(address, settings.cassandra_keyspace, blobs_dir_of(settings), keys)


def _address_of(settings: Settings) -> "Address":
    from app.composition.cassandra import address_of  # noqa: PLC0415 - the same driver

    address = address_of(settings)
    if address is None:
        raise SettingsRefused("SERVICE_CASSANDRA_CONTACT_POINTS names no host")
    return address


def people_of(
    deployment: Deployment, commit: Commit, passwords: Argon2Passwords, settings: Settings
) -> People:
    """Return what the use cases about members work with; a command passes the journal's own `commit`."""
    return People(
        records=deployment.stores.records,
        commit=commit,
        vault=deployment.stores.vault,
        passwords=passwords,
        key=deployment.root_key.derive(Purpose.PEOPLE),
        cookie_pepper=deployment.root_key.derive(Purpose.SESSION_PEPPER),
        clock=now,
        new_id=new_id,
        session_idle=timedelta(minutes=settings.session_idle_minutes),
        session_lifetime=timedelta(hours=settings.session_hours),
        totp_drift_steps=settings.totp_drift_steps,
    )


PAGE: Final = 100
"""Records read at a time."""


async def known_tenant(deployment: Deployment, tenant: str) -> TenantId:
    """Return the tenant's id.

    Raises:
        CannotStart: No such tenant.
    """
    try:
        await deployment.stores.records.get(PLATFORM, RecordKind.TENANT, tenant)
    except NotFound as error:
        raise CannotStart(
            f"no such tenant: {tenant}; make one with: veristream tenant create NAME"
        ) from error
    return TenantId(tenant)


async def every_tenant(deployment: Deployment) -> list[TenantId]:
    """Return the ids of all tenants, newest first."""
    tenants = every_record(deployment, PLATFORM, RecordKind.TENANT, TENANTS_INDEX)
    return [TenantId(record.id) async for record in tenants]


async def every_record(
    deployment: Deployment, tenant_id: TenantId, kind: RecordKind, index: tuple[str, str]
) -> AsyncIterator[Record]:
    """Read all records under an index, newest first, a page at a time."""
    before: Position | None = None
    while page := await deployment.stores.records.page(tenant_id, kind, index, limit=PAGE, before=before):
        for record in page:
            yield record
        before = Position(page[-1].created_at, page[-1].id)
