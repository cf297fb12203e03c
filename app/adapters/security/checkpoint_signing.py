"""The Ed25519 key that signs the audit log's checkpoints, derived from the root key."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from app.adapters.security.crypto import Purpose, RootKey
from streams.audit.checkpoints import SigningKey


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
