"""Authenticate messages: HMAC-SHA256 under one key, and the Ed25519 key that signs checkpoints."""

import hashlib
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from app.adapters.security.crypto import Purpose, RootKey
from streams.audit.checkpoints import SigningKey

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


class Ed25519Key(SigningKey):
    """An Ed25519 key pair (RFC 8032); the same seed of 32 bytes gives the same pair and signatures."""

    def __init__(self, seed: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self._public = self._private.public_key()

    @property
    @override
    def public(self) -> str:
        return self._public.public_bytes_raw().hex()

    @override
    def sign(self, message: bytes) -> str:
        return self._private.sign(message).hex()

    @override
    def is_signed(self, message: bytes, signature: str) -> bool:
        try:
            self._public.verify(bytes.fromhex(signature), message)
        except (InvalidSignature, ValueError):
            return False
        return True


def checkpoint_key(root_key: RootKey) -> Ed25519Key:
    """Return the key of a deployment's checkpoints."""
    return Ed25519Key(root_key.derive(Purpose.AUDIT_CHECKPOINTS))
