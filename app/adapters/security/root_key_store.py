"""What the rotation of the root key needs of a store: which key is current, and every wrapped key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.adapters.security.derived_keys import KeySet
from schemas.ids import SubjectId, TenantId


@dataclass(frozen=True, slots=True)
class KeyState:
    """What the store says about root keys."""

    check: bytes | None
    """What the current key derives for `Purpose.KEY_CHECK`; None: nobody opened the store yet."""
    keyset: KeySet


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key as its row stands."""

    tenant_id: TenantId
    subject_id: SubjectId
    wrapped: bytes


@dataclass(frozen=True, slots=True)
class Rewrapped:
    """A data key, wrapped anew."""

    row: WrappedKey
    wrapped: bytes


class RootKeyStore(Protocol):
    """Reads and replaces what root keys and wrapped keys a store holds; every call may be made again."""

    async def read(self) -> KeyState:
        """Return what stands now.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        ...

    async def replace_keyset(self, old: KeySet, new: KeySet) -> None:
        """Replace the set of keys, durably.

        Raises:
            StoreUnavailable: It is not `old` any more, or nothing is known.
        """
        ...

    async def make_current(self, old: bytes, new: bytes) -> None:
        """Replace the check of the current key, durably: from then on no key is kept under another one.

        Raises:
            StoreUnavailable: It is neither `old` nor `new`, or nothing is known.
        """
        ...

    async def page(self, after: WrappedKey | None, limit: int) -> Sequence[WrappedKey]:
        """Return at most `limit` rows behind one, in the store's order; tombstones are among them."""
        ...

    async def rewrap(self, changes: Sequence[Rewrapped]) -> None:
        """Replace each row that still stands as it was read; one that was destroyed meanwhile stays so."""
        ...
