"""Server side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): messages, keys and proofs."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.broker.errors import SignInRefused
from schemas.enums import TextEnum

ITERATIONS: Final = 4096
"""The least Kafka allows. Passwords are drawn with 256 bits, so more would only delay clients."""

SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 18
_MAX_MESSAGE_BYTES: Final = 2048
_MAX_NAME_LENGTH: Final = 255


class Mechanism(TextEnum):
    """The mechanisms served, by the names clients know."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


DIGESTS: Final[Mapping[Mechanism, str]] = {
    Mechanism.SCRAM_SHA_256: "sha256",
    Mechanism.SCRAM_SHA_512: "sha512",
}
"""The hash of each mechanism, as hashlib names it."""


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """Stored keys of a user (RFC 5802, section 3); they cannot be used to sign in."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client."""

    header: str
    """The GS2 header, which the client repeats in its last message."""
    name: str
    nonce: str
    bare: str


def derive_keys(password: str, mechanism: Mechanism, salt: bytes, iterations: int = ITERATIONS) -> ScramKeys:
    """Return the keys of a password; blocking for some milliseconds."""
    digest = DIGESTS[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    server_key = hmac.digest(salted, b"Server Key", digest)
    return ScramKeys(salt, iterations, hashlib.new(digest, client_key).digest(), server_key)


def decoy_keys(secret: bytes, name: str, mechanism: Mechanism) -> ScramKeys:
    """Return keys nobody has the password of, the same for each name, so that an unknown one looks known."""
    drawn = hmac.digest(secret, f"{mechanism}:{name}".encode(), "sha512")
    size = hashlib.new(DIGESTS[mechanism]).digest_size
    return ScramKeys(drawn[:SALT_BYTES], ITERATIONS, drawn[-size:], drawn[:size])


def read_first(message: bytes) -> ClientFirst:
    """Read the first message; raises `SignInRefused` where it is none or asks for channel binding."""
    text = _text(message)
    header, _, bare = text.partition(",,")
    if header not in {"n", "y"}:
        raise SignInRefused  # channel binding needs TLS, another identity is nobody's to take
    fields = bare.split(",")
    if len(fields) != 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):  # noqa: PLR2004
        raise SignInRefused  # extensions, as Kafka's delegation tokens, are not served
    name, nonce = _unescaped(fields[0][2:]), fields[1][2:]
    if not 0 < len(name) <= _MAX_NAME_LENGTH or not nonce or not nonce.isascii():
        raise SignInRefused
    return ClientFirst(f"{header},,", name, nonce, bare)


class Exchange:
    """One sign-in: a challenge to the first message, then a proof checked."""

    def __init__(self, mechanism: Mechanism, first: ClientFirst, keys: ScramKeys) -> None:
        self._digest = DIGESTS[mechanism]
        self._first = first
        self._keys = keys
        self._nonce = first.nonce + secrets.token_urlsafe(_NONCE_BYTES)
        salt = base64.b64encode(keys.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={keys.iterations}"

    @property
    def challenge(self) -> bytes:
        """The server's first message."""
        return self._challenge.encode()

    def prove(self, message: bytes) -> bytes:
        """Return the server's own proof when the client's is right, or raise `SignInRefused`."""
        without_proof, separator, proof = _text(message).rpartition(",p=")
        bound = base64.b64encode(self._first.header.encode()).decode()
        if not separator or without_proof != f"c={bound},r={self._nonce}":
            raise SignInRefused
        signed = f"{self._first.bare},{self._challenge},{without_proof}".encode()
        try:
            given = base64.b64decode(proof, validate=True)
        except (binascii.Error, ValueError) as error:
            raise SignInRefused from error
        signature = hmac.digest(self._keys.stored_key, signed, self._digest)
        if len(given) != len(signature):
            raise SignInRefused
        client_key = bytes(one ^ other for one, other in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), self._keys.stored_key):
            raise SignInRefused
        return b"v=" + base64.b64encode(hmac.digest(self._keys.server_key, signed, self._digest))


def _text(message: bytes) -> str:
    if len(message) > _MAX_MESSAGE_BYTES:
        raise SignInRefused
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise SignInRefused from error
    if "\0" in text:
        raise SignInRefused
    return text


def _unescaped(name: str) -> str:
    """Return a user's name without the escapes of commas and equals signs."""
    parts = name.split("=")
    if any(part[:2] not in {"2C", "3D"} for part in parts[1:]):
        raise SignInRefused
    return parts[0] + "".join({"2C": ",", "3D": "="}[part[:2]] + part[2:] for part in parts[1:])
