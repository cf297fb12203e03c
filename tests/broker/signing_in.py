"""A broker that asks for a sign-in, and the client's side of SCRAM on a bare connection."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from app.broker.scram import DIGESTS, Mechanism
from app.broker.server import Broker
from app.broker.settings import Authentication, BrokerSettings
from app.broker.users import OWNER, UserFiles
from tests.broker.builders import Talk

READABLE = "decisions"
"""The topic that readers may read in these tests."""

FORBIDDEN = "commands"
"""A topic that only the service itself may read and write."""


@dataclass(slots=True)
class Guarded:
    """A running broker with its owner's password and a reader's."""

    broker: Broker
    files: UserFiles
    owner_password: str
    reader_password: str

    @property
    def address(self) -> str:
        """Where it is."""
        return self.broker.address

    def owner(self, mechanism: Mechanism = Mechanism.SCRAM_SHA_256) -> dict[str, Any]:
        """Return the words with which aiokafka connects as the service."""
        return self.client(OWNER, self.owner_password, mechanism)

    def reader(self, mechanism: Mechanism = Mechanism.SCRAM_SHA_256) -> dict[str, Any]:
        """Return the words with which aiokafka connects as a reader."""
        return self.client("billing", self.reader_password, mechanism)

    def client(self, name: str, password: str, mechanism: Mechanism) -> dict[str, Any]:
        """Return aiokafka's words for a user."""
        return {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism.value,
            "sasl_plain_username": name,
            "sasl_plain_password": password,
        }

    @asynccontextmanager
    async def talk(self, name: str) -> AsyncIterator[Talk]:
        """Open a bare connection that is signed in as the owner or the reader."""
        password = self.owner_password if name == OWNER else self.reader_password
        async with await Talk.to(self.broker.port) as talk:
            assert await sign_in(talk, name, password) is ErrorCode.none
            yield talk


@asynccontextmanager
async def guarded_broker(folder: Path, **limits: Any) -> AsyncIterator[Guarded]:
    """Run a broker that asks for a sign-in; it has a reader named billing."""
    files = UserFiles(folder / "users")
    owner_password = files.ensure_owner(datetime.now(UTC))
    reader_password = files.create("billing", datetime.now(UTC))
    asked = Authentication(files.path, frozenset({READABLE}), **limits)
    async with Broker(BrokerSettings(folder / "log", authentication=asked)) as broker:
        yield Guarded(broker, files, owner_password, reader_password)


async def sign_in(
    talk: Talk, name: str, password: str, mechanism: Mechanism = Mechanism.SCRAM_SHA_256, version: int = 2
) -> ErrorCode:
    """Sign in as RFC 5802 says, checking the server's proof; return the last error code."""
    handshake = await talk.ask(SaslHandshakeRequest(mechanism=mechanism.value))
    if handshake.error_code is not ErrorCode.none:
        return ErrorCode(handshake.error_code)
    words: Any = load_request_schema(36, version)
    bare = f"n={name},r=nonce"
    answer = await talk.ask(words(auth_bytes=f"n,,{bare}".encode()))
    if answer.error_code is not ErrorCode.none:
        return ErrorCode(answer.error_code)
    challenge = answer.auth_bytes.decode()
    proof, expected = proofs(bare, challenge, password, mechanism)
    nonce = challenge.split(",")[0]
    answer = await talk.ask(words(auth_bytes=f"c=biws,{nonce},p={proof}".encode()))
    if answer.error_code is ErrorCode.none:
        assert answer.auth_bytes == f"v={expected}".encode()
    return ErrorCode(answer.error_code)


def proofs(bare: str, challenge: str, password: str, mechanism: Mechanism) -> tuple[str, str]:
    """Return the client's proof and the one the server must give."""
    nonce, salt, iterations = challenge.split(",")
    digest = DIGESTS[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(salt[2:]), int(iterations[2:]))
    signed = f"{bare},{challenge},c=biws,{nonce}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    server_key = hmac.digest(salted, b"Server Key", digest)
    shown = (proof, hmac.digest(server_key, signed, digest))
    return base64.b64encode(shown[0]).decode(), base64.b64encode(shown[1]).decode()
