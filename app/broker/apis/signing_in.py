"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152)."""

from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.primitive import i64Timedelta

from app.broker.errors import SignInRefused, UsersUnusable
from app.broker.node import Call
from app.broker.scram import Mechanism
from app.broker.sign_in import SignIn
from app.broker.wire import NO_LIFETIME

log = structlog.get_logger()

BARE_VERSION: Final = 0
"""After this version of the handshake the mechanism's messages are frames of their own (KIP-43)."""

REFUSED: Final = "the user is unknown or the password is wrong"
"""Said for both, so that nobody learns who has an account."""


class Handshake(NamedTuple):
    """The answer to SaslHandshake; the field names are the wire's."""

    error_code: ErrorCode
    mechanisms: tuple[str, ...] = tuple(Mechanism)


class Authenticated(NamedTuple):
    """The answer to SaslAuthenticate; the field names are the wire's."""

    error_code: ErrorCode
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime: i64Timedelta = NO_LIFETIME


def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> Handshake:
    """Choose a mechanism; refused after the sign-in, and where none is required."""
    sign_in = call.sign_in
    if sign_in is None or sign_in.access is not None or sign_in.begun:
        return Handshake(ErrorCode.illegal_sasl_state)
    if not sign_in.choose(request.mechanism):
        return Handshake(ErrorCode.unsupported_sasl_mechanism)
    sign_in.bare = call.version == BARE_VERSION
    return Handshake(ErrorCode.none)


def sasl_authenticate(
    call: Call, request: SaslAuthenticateRequest
) -> Authenticated | Coroutine[Any, Any, Authenticated]:
    """Process one message of the mechanism; a failure is answered late and closes the connection."""
    sign_in = call.sign_in
    if sign_in is None or sign_in.access is not None or not sign_in.begun:
        return Authenticated(ErrorCode.illegal_sasl_state, "SaslHandshake comes first, and once")
    try:
        return Authenticated(ErrorCode.none, None, sign_in.take(request.auth_bytes))
    except SignInRefused:
        log.warning("broker.sign_in_refused", client=call.client_host)
        return _refused(sign_in)
    except UsersUnusable as error:
        log.error("broker.users_read_failed", error=str(error))  # noqa: TRY400 - the message says all
        return _refused(sign_in)


async def _refused(sign_in: SignIn) -> Authenticated:
    await sign_in.delay()
    return Authenticated(ErrorCode.sasl_authentication_failed, REFUSED)
