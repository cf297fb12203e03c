"""Diagnose why the brokers cannot be reached, and how to fix it."""

import asyncio
import socket
import ssl
from typing import Any, Final

from aiokafka.conn import create_conn  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import (  # type: ignore[import-untyped]  # ships no types
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]  # ships no types

from schemas.problems import StoreUnavailable
from streams.runtime.kafka_client_config import LogAccess

HELLO_S: Final = 5.0
"""A broker that has not greeted by then is not there."""

PROTOCOL: Final = "SERVICE_KAFKA_SECURITY_PROTOCOL"


class Unreachable(StoreUnavailable):
    """No broker can be spoken with; the words name the cause and never a secret.

    `certain`: waiting does not help, a setting does.
    """

    def __init__(self, cause: str, *, certain: bool = False) -> None:
        super().__init__(cause)
        self.certain = certain


async def reach(access: LogAccess, timeout_s: float = HELLO_S) -> int:
    """Speak with whichever broker greets first, TLS and sign-in included; return how many are alive.

    Raises:
        Unreachable: None greets.
    """
    greetings = [asyncio.create_task(_greet(access, address, timeout_s)) for address in access.addresses]
    causes: list[Unreachable] = []
    try:
        for greeted in asyncio.as_completed(greetings):
            try:
                return await greeted
            except Unreachable as cause:
                causes.append(cause)
    finally:
        for greeting in greetings:
            greeting.cancel()
        await asyncio.gather(*greetings, return_exceptions=True)
    raise next((cause for cause in causes if cause.certain), None) or _all_of(causes)


def _all_of(causes: list[Unreachable]) -> Unreachable:
    return Unreachable("; ".join(map(str, causes)) or "no broker is named in SERVICE_KAFKA_BOOTSTRAP")


async def _greet(access: LogAccess, address: str, timeout_s: float) -> int:
    host, port = split_address(address)
    try:
        async with asyncio.timeout(timeout_s):
            return await _brokers_alive(access, host, port, timeout_s)
    except ssl.SSLCertVerificationError as error:
        why = f"{address} shows a certificate that is not accepted ({error.verify_message})"
        fix = "set SERVICE_KAFKA_TLS_CA_FILE to the CA that signed it, and reach it by a name it holds"
        raise Unreachable(f"{why}; {fix}", certain=True) from error
    except (KafkaError, OSError, ValueError) as error:
        refusal = _refused_sign_in(access, address, error)
        raise refusal or await _silence(access, address, error, timeout_s) from error


async def _brokers_alive(access: LogAccess, host: str, port: int, timeout_s: float) -> int:
    connection = await create_conn(
        host, port, request_timeout_ms=round(timeout_s * 1000), **access.security()
    )
    try:
        return len((await connection.send(MetadataRequest([]))).brokers)
    finally:
        connection.close()


def _refused_sign_in(access: LogAccess, address: str, error: Exception) -> Unreachable | None:
    name = access.sign_in.username if access.sign_in else ""
    match error:
        case SaslAuthenticationFailed():
            fix = "check SERVICE_KAFKA_USERNAME and SERVICE_KAFKA_PASSWORD"
            return Unreachable(f"{address} refuses the sign-in of {name}; {fix}", certain=True)
        case UnsupportedSaslMechanismError():
            fix = "set SERVICE_KAFKA_SASL_MECHANISM to one it knows"
            chosen = access.sign_in.mechanism if access.sign_in else ""
            return Unreachable(f"{address} does not know the mechanism {chosen}; {fix}", certain=True)
        case IllegalSaslStateError():
            fix = f"set {PROTOCOL} to {'SSL' if access.tls else 'PLAINTEXT'}"
            return Unreachable(f"{address} asks for no sign-in; {fix}", certain=True)
    return None


async def _silence(access: LogAccess, address: str, error: Exception, timeout_s: float) -> Unreachable:
    """Explain why a broker did not answer; usually it speaks another protocol."""
    host, port = split_address(address)
    match error:
        case socket.gaierror() | UnicodeError():
            return Unreachable(f"the name {host} is not known")
        case ConnectionRefusedError():
            return Unreachable(f"nothing listens at {address}")
        case TimeoutError() if not await _listens(host, port):
            return Unreachable(f"{address} did not answer within {timeout_s:g} s")
    mistaken = await _other_protocol(access, address, timeout_s)
    if mistaken is not None:
        return Unreachable(f"{address} {mistaken}", certain=True)
    hint = _tls_hint(access)
    return Unreachable(f"{address} broke the connection off ({type(error).__name__}){hint}")


async def _other_protocol(access: LogAccess, address: str, timeout_s: float) -> str | None:
    """Return what a server speaks instead of the configured protocol, and how to fix it."""
    host, port = split_address(address)
    if access.tls is None and await _speaks_tls(host, port, timeout_s):
        return f"speaks TLS; set {PROTOCOL} to {'SASL_SSL' if access.sign_in else 'SSL or SASL_SSL'}"
    if not await _speaks_plainly(host, port, timeout_s):
        return None
    if access.tls is not None:
        plain = "SASL_PLAINTEXT" if access.sign_in else "PLAINTEXT or SASL_PLAINTEXT"
        return f"speaks no TLS; set {PROTOCOL} to {plain}"
    if access.sign_in is None:
        fix = f"set {PROTOCOL} to SASL_PLAINTEXT, with SERVICE_KAFKA_USERNAME and SERVICE_KAFKA_PASSWORD"
        return f"asks for a sign-in; {fix}"
    return None


def _tls_hint(access: LogAccess) -> str:
    if access.tls is None:
        return ""
    wants = [] if access.sign_in else [f"a sign-in ({PROTOCOL}=SASL_SSL)"]
    return "; it may want " + " or ".join([*wants, "a certificate of ours (SERVICE_KAFKA_TLS_CERT_FILE)"])


async def _listens(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(1.0):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Return whether a server answers a TLS greeting, whatever its certificate says."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context())
    except ssl.SSLCertVerificationError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _speaks_plainly(host: str, port: int, timeout_s: float) -> bool:
    """Return whether a server answers Kafka's first question in the clear; that one needs no sign-in."""
    connection: Any = None
    try:
        async with asyncio.timeout(timeout_s):
            connection = await create_conn(host, port, request_timeout_ms=round(timeout_s * 1000))
    except (KafkaError, OSError, TimeoutError):
        return False
    connection.close()
    return True


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`; an IPv6 address is in brackets.

    Raises:
        Unreachable: It is not of that form.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise Unreachable(f"SERVICE_KAFKA_BOOTSTRAP holds {address!r}, which is not host:port", certain=True)
    return host.removeprefix("[").removesuffix("]"), int(port)
