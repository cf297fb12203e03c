"""Rotates the root key: the steps, each of which may be cut off and is taken again by the next run.

1. The new key is made known to the store, with the keys that stay sealed under it.
2. It becomes the current one: from then on no data key is kept under another.
3. Every data key under the old root key is wrapped under the new one.
4. The rotation is marked as finished. Only then may the old key be removed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.adapters.security.crypto import RootKey
from app.adapters.security.derived_keys import KeyEntry, KeySet, Rotation, check_of, entry_of, id_of, resolve
from app.adapters.security.keyring import TOMBSTONE, Wrapping
from app.adapters.security.root_key_store import KeyState, Rewrapped, RootKeyStore, WrappedKey
from schemas.problems import VeristreamError
from streams.ports.errors import Damaged

PAGE: Final = 500
"""Rows of one transaction; SQLite writes them in a few milliseconds."""

Clock = Callable[[], datetime]
Progress = Callable[[int], None]


class RotationRefused(VeristreamError):
    """The step cannot be taken as things stand; the message names the fix."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """How many data keys each root key wraps."""

    counted: dict[str, int]
    """By the id of the root key."""
    unreadable: int
    """Data keys that open under none of the root keys given."""


@dataclass(frozen=True, slots=True)
class RootKeys:
    """The root keys that were given, and which is which."""

    state: KeyState
    current: RootKey

    @property
    def every(self) -> tuple[RootKey, ...]:
        """All of them, the current one first."""
        return self.current, *self.current.others

    def named(self, key_id: str) -> RootKey | None:
        """Return the key with an id."""
        return next((key for key in self.every if id_of(key) == key_id), None)

    def retired(self) -> str | None:
        """Return the id of the key that was replaced and not removed yet."""
        rotation = self.state.keyset.rotation
        return None if rotation is None else rotation.before

    def candidate(self) -> RootKey | None:
        """Return a key that was given and never was the current one."""
        return next((key for key in self.current.others if id_of(key) != self.retired()), None)

    @property
    def is_rotating(self) -> bool:
        """Whether a rotation began that has not ended."""
        rotation = self.state.keyset.rotation
        return rotation is not None and rotation.finished_at is None


async def read_root_keys(store: RootKeyStore, given: RootKey) -> RootKeys:
    """Return which of the given keys is the current one.

    Raises:
        RootKeyRefused: None of them is.
    """
    state = await store.read()
    return RootKeys(state, resolve(given, state.check, state.keyset))


async def begin(store: RootKeyStore, keys: RootKeys, following: RootKey, at: datetime) -> RootKeys:
    """Make a key the current one; what an earlier run did already is left as it is."""
    keyset = keys.state.keyset
    if not keys.is_rotating:
        before = keyset.entry(id_of(keys.current)) or KeyEntry(key_id=id_of(keys.current), added_at=at)
        begun = KeySet(
            keys=(entry_of(following, keys.current, at), before),
            rotation=Rotation(before=before.key_id, after=id_of(following), started_at=at),
        )
        await store.replace_keyset(keyset, begun)
    if id_of(keys.current) != id_of(following):
        await store.make_current(check_of(keys.current), check_of(following))
    return await read_root_keys(store, keys.current)


async def rewrap(store: RootKeyStore, keys: RootKeys, progress: Progress) -> int:
    """Wrap every data key under the current root key; returns how many were under another one."""
    current, *others = map(Wrapping, keys.every)
    seen = done = 0
    async for rows in _pages(store):
        changes = [change for row in rows if (change := _rewrapped(row, current, others)) is not None]
        if changes:
            await store.rewrap(changes)
        seen, done = seen + len(rows), done + len(changes)
        progress(seen)
    return done


async def finish(store: RootKeyStore, keys: RootKeys, at: datetime) -> None:
    """Mark the rotation as finished, if every data key is under the current root key.

    Raises:
        RotationRefused: Some are not.
    """
    keyset = keys.state.keyset
    await _require_unused(store, keys)
    if keyset.rotation is not None and keyset.rotation.finished_at is None:
        finished = keyset.rotation.model_copy(update={"finished_at": at})
        await store.replace_keyset(keyset, keyset.model_copy(update={"rotation": finished}))


async def remove_retired(
    store: RootKeyStore, keys: RootKeys, forget: Callable[[RootKey, str], Awaitable[None]]
) -> str:
    """Remove the key that was replaced, if nothing needs it; returns its id.

    `forget` takes it away where it lies, and says so in the audit log, before the store forgets it: so a run
    that was cut off goes on. It gets the current key and the id of the other.

    Raises:
        RotationRefused: There is none, the rotation has not ended, or a data key is still under it.
    """
    retired = keys.retired()
    if retired is None:
        raise RotationRefused(
            "there is no old root key to remove; to replace the current one: root-key rotate"
        )
    if keys.is_rotating:
        raise RotationRefused("the rotation has not ended; finish it first with: veristream root-key rotate")
    await _require_unused(store, keys)
    await forget(keys.current, retired)
    keyset = keys.state.keyset
    left = tuple(entry for entry in keyset.keys if entry.key_id != retired)
    await store.replace_keyset(keyset, KeySet(keys=left))
    return retired


async def count_use(store: RootKeyStore, keys: RootKeys) -> KeyUse:
    """Count which root key wraps how many data keys; reads only."""
    wrappings = [(id_of(key), Wrapping(key)) for key in keys.every]
    counted = dict.fromkeys((key_id for key_id, _ in wrappings), 0)
    unreadable = 0
    async for rows in _pages(store):
        for row in rows:
            if row.wrapped == TOMBSTONE:
                continue
            found = next((key_id for key_id, one in wrappings if _secret(row, one) is not None), None)
            if found is None:
                unreadable += 1
            else:
                counted[found] += 1
    return KeyUse(counted, unreadable)


async def _require_unused(store: RootKeyStore, keys: RootKeys) -> None:
    """Raise `RotationRefused` unless nothing is under the key that was replaced."""
    retired = keys.retired()
    if retired is None:
        return
    use = await count_use(store, keys)
    if use.counted.get(retired):
        raise RotationRefused(
            f"{use.counted[retired]} data keys are still under root key {retired}; "
            "wrap them anew with: veristream root-key rotate"
        )
    if use.unreadable and keys.named(retired) is None:
        raise RotationRefused(
            f"{use.unreadable} data keys open under no root key that was given; give {retired} as well"
        )


def _rewrapped(row: WrappedKey, current: Wrapping, others: Sequence[Wrapping]) -> Rewrapped | None:
    """Return the change that brings a row under the current key; None: it is there, or destroyed."""
    if row.wrapped == TOMBSTONE or _secret(row, current) is not None:
        return None
    for other in others:
        secret = _secret(row, other)
        if secret is not None:
            return Rewrapped(row, current.wrap(row.tenant_id, row.subject_id, secret))
    return None


def _secret(row: WrappedKey, wrapping: Wrapping) -> bytes | None:
    with suppress(Damaged):
        return wrapping.unwrap(row.tenant_id, row.subject_id, row.wrapped)
    return None


async def _pages(store: RootKeyStore) -> AsyncIterator[Sequence[WrappedKey]]:
    last: WrappedKey | None = None
    while rows := await store.page(last, PAGE):
        yield rows
        last = rows[-1]
