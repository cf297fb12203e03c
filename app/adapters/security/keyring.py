"""Data keys of subjects: stored wrapped by the root key, unwrapped and cached only here.

While the root key is rotated keys are wrapped under the old one or the new one; either opens them. New ones
are wrapped under the one that the store names (`KeyRing.follow`).
"""

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.adapters.security.crypto import (
    ENVELOPE,
    KEY_BYTES,
    NONCE_BYTES,
    Keys,
    Purpose,
    RootKey,
    RootKeyRefused,
    bind,
    load_root_key,
    seal,
    unseal,
)
from schemas.ids import SubjectId, TenantId
from schemas.problems import StoreUnavailable
from streams.ports.errors import Damaged, Erased
from streams.webhooks.signing import ENDPOINT_HOLDER

_TAG_BYTES: Final = 16

_KEY_ID_DIGITS: Final = 16

TOMBSTONE: Final = bytes(len(ENVELOPE) + NONCE_BYTES + KEY_BYTES + _TAG_BYTES)
"""Stands where a wrapped key stood; of the same length, so that the key is overwritten in place."""

CAPACITY: Final = 4096
"""Unwrapped keys in memory; about 2 MB."""

FRESH_S: Final = 1.0
"""How long, in seconds, a remembered key is used without looking at its row: so late another process
may notice an erasure. Evidence always looks."""


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """One subject's data key, ready for use."""

    tenant_id: TenantId
    subject_id: SubjectId
    wrapped: bytes
    cipher: AESGCM
    rival: "SubjectKey | None" = None
    """Another one, that a process made for the subject at the same moment: what either sealed is opened."""

    @property
    def stored(self) -> tuple[bytes, ...]:
        """All wrapped keys of the subject."""
        return (self.wrapped,) if self.rival is None else (self.wrapped, *self.rival.stored)

    @property
    def key_id(self) -> str:
        """A name for the key as it is wrapped now, which tells nothing of it."""
        return f"sk_{hashlib.sha256(self.wrapped).hexdigest()[:_KEY_ID_DIGITS]}"

    def seal(self, name: str, kind: str, plain: bytes) -> bytes:
        """Return the value sealed for this subject under its name and kind."""
        return seal(self.cipher, plain, bind(self.tenant_id, self.subject_id, name, kind))

    def open(self, name: str, kind: str, sealed: bytes) -> bytes:
        """Return the value, or raise `Damaged`."""
        try:
            return unseal(self.cipher, sealed, bind(self.tenant_id, self.subject_id, name, kind))
        except Damaged:
            if self.rival is None:
                raise
            return self.rival.open(name, kind, sealed)


@dataclass(frozen=True, slots=True)
class _Remembered:
    key: SubjectKey | None
    """None: destroyed."""
    seen_at: float


class Wrapping:
    """Wraps and unwraps data keys under one root key, or the sender's key of it."""

    def __init__(self, keys: Keys) -> None:
        self._derive = keys.derive
        self._ciphers: dict[Purpose, AESGCM] = {}
        self.check = keys.derive(Purpose.KEY_CHECK)
        """What the store knows the root key by."""

    def wrap(self, tenant_id: TenantId, subject_id: SubjectId, secret: bytes) -> bytes:
        """Return the wrapped key; raises `KeyUnavailable` where this process may wrap none such."""
        return seal(self._cipher(subject_id), secret, bind(tenant_id, subject_id))

    def unwrap(self, tenant_id: TenantId, subject_id: SubjectId, wrapped: bytes) -> bytes:
        """Return the key; raises `Damaged`, or `KeyUnavailable` where this process may open none such."""
        return unseal(self._cipher(subject_id), wrapped, bind(tenant_id, subject_id))

    def _cipher(self, subject_id: SubjectId) -> AESGCM:
        own = subject_id.startswith(ENDPOINT_HOLDER)
        purpose = Purpose.WEBHOOK_SECRETS if own else Purpose.KEY_WRAPPING
        cipher = self._ciphers.get(purpose)
        if cipher is None:
            cipher = self._ciphers[purpose] = AESGCM(self._derive(purpose))
        return cipher


class KeyRing:
    """Makes, unwraps and briefly remembers subjects' keys; safe to use from several threads."""

    def __init__(
        self,
        keys: Keys,
        *,
        capacity: int = CAPACITY,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = keys.file if isinstance(keys, RootKey) else None
        self._wrappings = [Wrapping(key) for key in (keys, *keys.others)]
        """The first wraps what is new."""
        self._capacity = capacity
        self._fresh_s = fresh_s
        self._clock = clock
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[TenantId, SubjectId], _Remembered] = OrderedDict()

    def make(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey:
        """Return a new key; it counts only once its wrapped form is stored."""
        secret = os.urandom(KEY_BYTES)
        wrapped = self._wrappings[0].wrap(tenant_id, subject_id, secret)
        return SubjectKey(tenant_id, subject_id, wrapped, AESGCM(secret))

    def follow(self, check: bytes | None) -> None:
        """Wrap from now on under the root key that the store names; None: it names none yet.

        Raises:
            StoreUnavailable: The root key was rotated, and this process was not given the new one.
        """
        if check is None or check == self._wrappings[0].check:
            return
        if not any(one.check == check for one in self._wrappings):
            self._read_again()
        with self._lock:
            found = [one for one in self._wrappings if one.check == check]
            if not found:
                raise StoreUnavailable(
                    "the root key was rotated; restart this process with the new one and the old"
                )
            self._wrappings = found + [one for one in self._wrappings if one.check != check]

    def renew(self, key: SubjectKey) -> SubjectKey:
        """Return a key that is about to be stored, wrapped under the root key of `follow`."""
        first, *others = self._wrappings
        if not others:
            return key
        owner = key.tenant_id, key.subject_id
        for other in others:
            with suppress(Damaged):
                return replace(key, wrapped=first.wrap(*owner, other.unwrap(*owner, key.wrapped)))
        return key

    def _read_again(self) -> bool:
        """Take up keys that were put into the file since; tells whether there were any. Blocking."""
        if self._file is None:
            return False
        try:
            read = load_root_key(None, self._file)
        except RootKeyRefused:
            return False
        with self._lock:
            known = {one.check for one in self._wrappings}
            added = [one for key in (read, *read.others) if (one := Wrapping(key)).check not in known]
            self._wrappings = [*self._wrappings, *added]
        return bool(added)

    def _open(self, tenant_id: TenantId, subject_id: SubjectId, wrapped: bytes) -> bytes:
        """Return the key under whichever root key wrapped it."""
        for one in self._wrappings:
            with suppress(Damaged):
                return one.unwrap(tenant_id, subject_id, wrapped)
        if self._read_again():
            return self._open(tenant_id, subject_id, wrapped)
        raise Damaged("a subject's key opens under no root key of this process")

    def unwrap(
        self, tenant_id: TenantId, subject_id: SubjectId, wrapped: bytes, *rivals: bytes
    ) -> SubjectKey:
        """Return the key that is stored now, with any rivals, and cache it.

        Raises:
            Erased: The key was destroyed.
            Damaged: The wrapped key is not this subject's, or not under this root key.
        """
        if wrapped == TOMBSTONE:
            self.bury(tenant_id, subject_id)
            raise Erased(subject_id)
        with self._lock:
            known = self._cache.get((tenant_id, subject_id))
        if known is not None and known.key is not None and known.key.stored == (wrapped, *rivals):
            key = known.key
        else:
            secret = self._open(tenant_id, subject_id, wrapped)
            rival = self.unwrap(tenant_id, subject_id, *rivals) if rivals else None
            key = SubjectKey(tenant_id, subject_id, wrapped, AESGCM(secret), rival)
        self.remember(key)
        return key

    def recall(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey | None:
        """Return the cached key if its row was read a moment ago, else None.

        Raises:
            Erased: This process knows that the key was destroyed.
        """
        with self._lock:
            known = self._cache.get((tenant_id, subject_id))
        if known is None:
            return None
        if known.key is None:
            raise Erased(subject_id)
        return known.key if self._clock() - known.seen_at < self._fresh_s else None

    def remember(self, key: SubjectKey) -> None:
        """Cache a key whose row was just read; a key known to be destroyed stays destroyed."""
        self._keep((key.tenant_id, key.subject_id), key)

    def bury(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        """Forget the key for good."""
        self._keep((tenant_id, subject_id), None)

    def _keep(self, owner: tuple[TenantId, SubjectId], key: SubjectKey | None) -> None:
        with self._lock:
            known = self._cache.get(owner)
            if known is None or known.key is not None:
                self._cache[owner] = _Remembered(key, self._clock())
            self._cache.move_to_end(owner)
            while len(self._cache) > self._capacity:
                self._cache.popitem(last=False)
