"""The data key of each subject: wrapped by the root key where it is kept, unwrapped only here."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.adapters.security.crypto import ENVELOPE, KEY_BYTES, NONCE_BYTES, Keys, Purpose, bind, seal, unseal
from schemas.ids import SubjectId, TenantId
from streams.ports.errors import Erased
from streams.webhooks.secrets import ENDPOINT_HOLDER

_TAG_BYTES: Final = 16

TOMBSTONE: Final = bytes(len(ENVELOPE) + NONCE_BYTES + KEY_BYTES + _TAG_BYTES)
"""Stands where a wrapped key stood; of the same length, so that the key is overwritten in place."""

CAPACITY: Final = 4096
"""Unwrapped keys kept in memory; about 2 MB."""

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

    def seal(self, name: str, kind: str, plain: bytes) -> bytes:
        """Return the value sealed for this subject under its name and kind."""
        return seal(self.cipher, plain, bind(self.tenant_id, self.subject_id, name, kind))

    def open(self, name: str, kind: str, sealed: bytes) -> bytes:
        """Return the value, or raise `Damaged`."""
        return unseal(self.cipher, sealed, bind(self.tenant_id, self.subject_id, name, kind))


@dataclass(frozen=True, slots=True)
class _Remembered:
    key: SubjectKey | None
    """None: destroyed."""
    seen_at: float


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
        self._derive = keys.derive
        self._wrappings: dict[Purpose, AESGCM] = {}
        self._capacity = capacity
        self._fresh_s = fresh_s
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[TenantId, SubjectId], _Remembered] = OrderedDict()

    def _wrapping(self, subject_id: SubjectId) -> AESGCM:
        """Return what wraps a holder's key; raises `KeyUnavailable` where this process may open none such."""
        own = subject_id.startswith(ENDPOINT_HOLDER)
        purpose = Purpose.WEBHOOK_SECRETS if own else Purpose.KEY_WRAPPING
        wrapping = self._wrappings.get(purpose)
        if wrapping is None:
            wrapping = self._wrappings[purpose] = AESGCM(self._derive(purpose))
        return wrapping

    def make(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey:
        """Return a new key; it counts only once its wrapped form is kept, the first one kept wins."""
        secret = os.urandom(KEY_BYTES)
        wrapped = seal(self._wrapping(subject_id), secret, bind(tenant_id, subject_id))
        return SubjectKey(tenant_id, subject_id, wrapped, AESGCM(secret))

    def unwrap(self, tenant_id: TenantId, subject_id: SubjectId, wrapped: bytes) -> SubjectKey:
        """Return the key that is kept now, and remember it.

        Raises:
            Erased: The key was destroyed.
            Damaged: The wrapped key is not this subject's, or not under this root key.
        """
        if wrapped == TOMBSTONE:
            self.bury(tenant_id, subject_id)
            raise Erased(subject_id)
        with self._lock:
            known = self._kept.get((tenant_id, subject_id))
        if known is not None and known.key is not None and known.key.wrapped == wrapped:
            key = known.key
        else:
            secret = unseal(self._wrapping(subject_id), wrapped, bind(tenant_id, subject_id))
            key = SubjectKey(tenant_id, subject_id, wrapped, AESGCM(secret))
        self.remember(key)
        return key

    def recall(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey | None:
        """Return the key when its row was seen a moment ago; None: look at the row.

        Raises:
            Erased: This process knows that the key was destroyed.
        """
        with self._lock:
            known = self._kept.get((tenant_id, subject_id))
        if known is None:
            return None
        if known.key is None:
            raise Erased(subject_id)
        return known.key if self._clock() - known.seen_at < self._fresh_s else None

    def remember(self, key: SubjectKey) -> None:
        """Keep a key whose row was just seen; a key known to be destroyed stays destroyed."""
        self._keep((key.tenant_id, key.subject_id), key)

    def bury(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        """Forget the key for good."""
        self._keep((tenant_id, subject_id), None)

    def _keep(self, owner: tuple[TenantId, SubjectId], key: SubjectKey | None) -> None:
        with self._lock:
            known = self._kept.get(owner)
            if known is None or known.key is not None:
                self._kept[owner] = _Remembered(key, self._clock())
            self._kept.move_to_end(owner)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
