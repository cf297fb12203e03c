"""HTTP client of the demonstration: as a tenant with its key, and as a member with a cookie."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyotp
from aiohttp import ClientSession, ClientTimeout, CookieJar

from app.demo.access import DemoMember
from app.process.startup import CannotStart

ANSWER_S: Final = 120.0
"""How long one answer may take; a verification with models takes seconds, on a busy machine many."""

AGAIN_AFTER_S: Final = 0.5
"""A busy machine decides a payment later than the service waits for it; the same key finds it then."""

PENDING: Final = "DECISION_PENDING"
IDEMPOTENCY_KEY: Final = "Idempotency-Key"

BEGIN_ANEW: Final = "to begin anew, run: veristream demo reset"


@dataclass(frozen=True, slots=True)
class Client:
    """Client of the service; a response other than 2xx ends the demonstration."""

    session: ClientSession
    headers: Mapping[str, str]

    async def request(self, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
        """Send a request and return what was answered; a decision that takes long is asked for again.

        Raises:
            CannotStart: It was refused.
        """
        more: dict[str, Any] = {"data": body} if isinstance(body, bytes) else {"json": body}
        more["headers"] = {**self.headers, "Content-Type": "application/json"}
        deadline = asyncio.get_running_loop().time() + ANSWER_S
        while True:
            async with self.session.request(method, path, params=query, **more) as answer:
                answered: dict[str, Any] = await answer.json(content_type=None) or {}
            is_pending = answered.get("code") == PENDING and IDEMPOTENCY_KEY in self.headers
            if not is_pending or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(AGAIN_AFTER_S)
        if not answer.ok:
            raise CannotStart(f"{method} {path} was refused: {answered.get('detail')} {BEGIN_ANEW}")
        return answered


@asynccontextmanager
async def tenant_client(url: str, key: str) -> AsyncIterator[Client]:
    """Open a client that shows a tenant's key."""
    async with ClientSession(url, timeout=ClientTimeout(total=ANSWER_S)) as session:
        yield Client(session, {"Authorization": f"Bearer {key}"})


@asynccontextmanager
async def member_client(url: str) -> AsyncIterator[Client]:
    """Open a client with cookies and the origin of the service's own pages."""
    jar = CookieJar(unsafe=True)  # the service's host is an address
    async with ClientSession(url, timeout=ClientTimeout(total=ANSWER_S), cookie_jar=jar) as session:
        yield Client(session, {"Origin": url})


async def sign_in(client: Client, member: DemoMember) -> DemoMember:
    """Sign a member in with both factors, the second one enrolled if it was not; returns it with its secret.

    Raises:
        CannotStart: The service refused.
    """
    credentials = {"email": member.email, "password": member.password}
    await client.request("POST", "/v1/control/sessions", credentials)
    if member.totp_secret is not None:
        code = pyotp.TOTP(member.totp_secret).now()
        await client.request("POST", "/v1/control/mfa/verify", {"code": code})
        return member
    secret = (await client.request("POST", "/v1/control/mfa/totp", {}))["secret"]
    await client.request("POST", "/v1/control/mfa/totp/confirm", {"code": pyotp.TOTP(secret).now()})
    return member.model_copy(update={"totp_secret": secret})
