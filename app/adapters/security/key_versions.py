"""Versions of the keys of audit chains and cursors in a process that runs on through a rotation."""

import threading
from collections.abc import Callable, Mapping

from app.adapters.security.crypto import Keys, RootKey, RootKeyRefused, load_root_key
from app.adapters.security.derived_keys import KeySet, chain_keys_of, check_of, cursor_keys_of, resolve
from schemas.problems import StoreUnavailable
from streams.ports.audit import ChainKeys


class ChainKeyRing:
    """The versions of the chains' key up to that of the root key the store names; for several threads."""

    def __init__(self, keys: Keys) -> None:
        self._given = keys
        self._lock = threading.Lock()
        self._check = check_of(keys)
        self.known = chain_keys_of(keys)
        """As of the last look; a snapshot."""

    def follows(self, check: bytes | None) -> bool:
        """Return whether the newest version known is that of the root key the store names; None: of any."""
        return check is None or check == self._check

    def follow(self, check: bytes | None, keyset: Callable[[], KeySet]) -> ChainKeys:
        """Return the versions up to that of the root key the store names. Blocking after a rotation.

        Raises:
            StoreUnavailable: This process was not given that root key.
        """
        with self._lock:
            if check is not None and not self.follows(check) and self.known.versions:
                self.known = chain_keys_of(self._resolved(check, keyset()))
                self._check = check
            return self.known

    def _resolved(self, check: bytes, keyset: KeySet) -> Keys:
        file = self._given.file if isinstance(self._given, RootKey) else None
        try:
            try:
                return resolve(self._given, check, keyset)
            except RootKeyRefused:
                if file is None:
                    raise
                return resolve(load_root_key(None, file), check, keyset)
        except RootKeyRefused as error:
            raise StoreUnavailable(str(error)) from error


class CursorKeys:
    """The versions of the key of cursors: one of each root key this process was given.

    Those of a file are read again when it changed, which costs a look at its date.
    """

    def __init__(self, root_key: RootKey) -> None:
        self._file = root_key.file
        self._seen: object = None
        self._keys: Mapping[str, bytes] = cursor_keys_of(root_key)

    def __call__(self) -> Mapping[str, bytes]:
        """Return them by the ids of their root keys; cursors are written under the first."""
        if self._file is not None:
            try:
                state = self._file.stat()
                seen = state.st_mtime_ns, state.st_ino
                if seen != self._seen:
                    self._keys = cursor_keys_of(load_root_key(None, self._file))
                    self._seen = seen
            except (OSError, RootKeyRefused):
                return self._keys  # being moved, or unfit: the next start says so
        return self._keys
