"""Root keys and wrapped keys in Cassandra, for the rotation; works while the service runs."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final

from cassandra import InvalidRequest
from typing_extensions import override

from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.keys import added_key, stored_keys
from app.adapters.cassandra.keyspace import KEY_CHECK, change_setting, read_setting
from app.adapters.cassandra.session import Attempt, Session, Statement, Write
from app.adapters.security.derived_keys import KeySet
from app.adapters.security.root_key_store import KeyState, Rewrapped, RootKeyStore, WrappedKey
from schemas.ids import SubjectId, TenantId
from schemas.problems import StoreUnavailable

AT_ONCE: Final = 32
"""Rows rewrapped side by side; each is a lightweight transaction."""

_ROOT_KEYS: Final = "root_keys"
_FIRST: Final = Statement("SELECT tenant, subject_id, wrapped, made FROM subject_keys LIMIT ?")
_FURTHER: Final = Statement(
    "SELECT tenant, subject_id, wrapped, made FROM subject_keys"
    " WHERE token(tenant, subject_id) > token(?, ?) LIMIT ?"
)
_SELECT: Final = Statement("SELECT wrapped FROM subject_keys WHERE tenant = ? AND subject_id = ?")
_REWRAP: Final = Statement(
    "UPDATE subject_keys SET wrapped = ? WHERE tenant = ? AND subject_id = ? IF wrapped = ?"
)
_DROP: Final = Statement("UPDATE subject_keys SET made = made - ? WHERE tenant = ? AND subject_id = ?")


class _MadeKey(WrappedKey):
    """A key that stands in `made`."""


async def read_keyset(session: Session) -> KeySet:
    """Return the set of root keys as it stands."""
    text = await read_setting(session, _ROOT_KEYS)
    return KeySet() if text is None else KeySet.model_validate_json(text)


class CassandraRootKeys(RootKeyStore):
    """Changes `wrapped` by lightweight transactions, and replaces what is in `made` by one write."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @override
    async def read(self) -> KeyState:
        try:
            check = await read_setting(self._session, KEY_CHECK)
        except InvalidRequest:  # no such table: nobody migrated the keyspace yet
            return KeyState(None, KeySet())
        return KeyState(check, await read_keyset(self._session))

    @override
    async def replace_keyset(self, old: KeySet, new: KeySet) -> None:
        text = await read_setting(self._session, _ROOT_KEYS)
        standing = KeySet() if text is None else KeySet.model_validate_json(text)
        written = standing == old and await change_setting(
            self._session, _ROOT_KEYS, text, new.model_dump_json().encode()
        )
        if not written:
            raise StoreUnavailable("another rotation of the root key is under way; run it again")

    @override
    async def make_current(self, old: bytes, new: bytes) -> None:
        if await change_setting(self._session, KEY_CHECK, old, new):
            return
        if await read_setting(self._session, KEY_CHECK) != new:
            raise StoreUnavailable("the root key was rotated to another one meanwhile")

    @override
    async def page(self, after: WrappedKey | None, limit: int) -> Sequence[WrappedKey]:
        if after is None:
            rows = await self._session.execute(_FIRST, (limit,))
        else:
            rows = await self._session.execute(_FURTHER, (after.tenant_id, after.subject_id, limit))
        return [key for row in rows for key in _keys_of(*row)]

    @override
    async def rewrap(self, changes: Sequence[Rewrapped]) -> None:
        for start in range(0, len(changes), AT_ONCE):
            await asyncio.gather(*map(self._rewrap, changes[start : start + AT_ONCE]))

    async def _rewrap(self, change: Rewrapped) -> None:
        owner = change.row.tenant_id, change.row.subject_id
        if isinstance(change.row, _MadeKey):  # one partition: either both writes are seen or none
            await self._session.batch(
                [added_key(*owner, change.wrapped), (_DROP, ({change.row.wrapped}, *owner))]
            )
            return
        write: Write = _REWRAP, (change.wrapped, *owner, change.row.wrapped)
        await self._session.lwt(Attempt(write, (_SELECT, owner), {"wrapped": change.wrapped}))


def _keys_of(
    tenant: str, subject: str, wrapped: bytes | None, made: Collection[bytes] | None
) -> list[WrappedKey]:
    owner = TenantId(tenant), SubjectId(subject)
    return [
        (_MadeKey if made and one in made else WrappedKey)(*owner, one) for one in stored_keys(wrapped, made)
    ]


@asynccontextmanager
async def open_cassandra_root_keys(address: Address, keyspace: str) -> AsyncIterator[RootKeyStore]:
    """Open a keyspace for its root keys alone; makes and checks nothing; raises what `open_session` does."""
    async with open_session(address, keyspace) as session:
        yield CassandraRootKeys(session)
