"""HMAC-SHA256 (RFC 2104) of many short messages under one key."""

import hashlib
from typing import Final

_BLOCK_BYTES: Final = 64
"""Of SHA-256."""
_INNER_PAD: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD: Final = bytes(byte ^ 0x5C for byte in range(256))


class HmacSha256:
    """Codes under a key that is hashed once.

    `hmac.digest` hashes it for every message, and releases the interpreter lock, which it gets back only when
    the other threads let it.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) > _BLOCK_BYTES:
            raise ValueError(f"a key has at most {_BLOCK_BYTES} bytes")
        block = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(block.translate(_INNER_PAD))
        self._outer = hashlib.sha256(block.translate(_OUTER_PAD))

    def digest(self, message: bytes) -> bytes:
        """Return the code of a message."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()
