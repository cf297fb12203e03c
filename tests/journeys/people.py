"""A reviewer of one's own: created with the command line, signed in with both factors over HTTP."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import pyotp
from aiohttp import ClientResponse, ClientSession

COOKIE: Final = "service_session"

Command = Callable[..., Awaitable[Any]]
"""Runs a command with --json and returns what it prints."""


@dataclass(frozen=True, slots=True)
class Person:
    """A signed-in reviewer."""

    client: ClientSession
    url: str
    reviewer_id: str
    cookie: str

    async def ask(self, method: str, path: str, url: str = "", **more: Any) -> tuple[int, Any]:
        """Send a request with the cookie, from the service's own pages: status and body."""
        headers = {"Cookie": f"{COOKIE}={self.cookie}", "Origin": self.url, **more.pop("headers", {})}
        async with self.client.request(method, (url or self.url) + path, headers=headers, **more) as answer:
            return answer.status, await answer.json(content_type=None) if answer.status != 204 else None


async def sign_in(
    client: ClientSession, url: str, command: Command, tenant: str, role: str = "OWNER", email: str = ""
) -> Person:
    """Create a member, sign in, enrol the second factor and meet it."""
    email = email or f"{role.lower()}@acme.example"
    made = await command(
        "reviewer", "create", "--tenant", tenant, "--email", email, "--name", "Ada Obi", "--role", role
    )
    first = await _post(client, url, "sessions", {"email": email, "password": made["password"]})
    person = Person(client, url, made["reviewer_id"], _cookie(first))
    status, enrolment = await person.ask("POST", "/v1/control/mfa/totp", json={})
    assert status == 201, enrolment
    code = pyotp.TOTP(enrolment["secret"]).now()
    headers = {"Cookie": f"{COOKIE}={person.cookie}", "Origin": url}
    met = await _post(client, url, "mfa/totp/confirm", {"code": code}, headers)
    return Person(client, url, made["reviewer_id"], _cookie(met))


async def _post(
    client: ClientSession, url: str, path: str, body: Any, headers: dict[str, str] | None = None
) -> ClientResponse:
    async with client.post(f"{url}/v1/control/{path}", json=body, headers=headers) as answer:
        assert answer.status in {200, 201}, await answer.text()
        await answer.read()
        return answer


def _cookie(answer: ClientResponse) -> str:
    return answer.cookies[COOKIE].value
