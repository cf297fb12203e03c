"""Kafka client configuration: addresses, TLS, authentication and replication."""

import ssl
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from yarl import URL

from schemas.enums import TextEnum


class SaslMechanism(TextEnum):
    """The SASL mechanisms."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class SignIn:
    """The credentials for the brokers."""

    mechanism: SaslMechanism
    username: str
    password: SecretStr


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The configuration of every Kafka client."""

    bootstrap: str
    """`host:port` of one or more brokers, separated by commas."""
    tls: ssl.SSLContext | None = None
    """None: in the clear, as on loopback."""
    sign_in: SignIn | None = None
    """None: the brokers ask for no name, or the TLS certificate is it."""
    replication_factor: int = 1
    """Copies of each partition when a topic is created; brokers must be as many."""
    min_insync_replicas: int = 1
    """Copies that must have a record before it counts as written."""
    ends_waiting_fetches: bool = False
    """Whether a broker answers a fetch that waits as soon as its connection brings another request; the
    embedded one does, Kafka lets the request wait."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Each broker's `host:port`."""
        return tuple(address.strip() for address in self.bootstrap.split(",") if address.strip())

    @property
    def protocol(self) -> str:
        """What Kafka calls the protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return ("SASL_" if self.sign_in else "") + ("SSL" if self.tls else "PLAINTEXT")

    def security(self) -> dict[str, Any]:
        """Return TLS and sign-in in aiokafka's words, for one connection."""
        words: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": self.tls}
        if self.sign_in is not None:
            words |= {
                "sasl_mechanism": self.sign_in.mechanism.value,
                "sasl_plain_username": self.sign_in.username,
                "sasl_plain_password": self.sign_in.password.get_secret_value(),
            }
        return words

    def client(self) -> dict[str, Any]:
        """Return addresses and security in aiokafka's words: `AIOKafkaConsumer(**access.client(), ...)`."""
        return {"bootstrap_servers": list(self.addresses), **self.security()}

    def brokers(self) -> list[URL]:
        """Return the addresses in Faust's words."""
        return [URL(f"kafka://{address}") for address in self.addresses]
