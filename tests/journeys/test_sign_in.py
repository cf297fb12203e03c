"""A reviewer gets in end to end: made by the command line, both factors, the audit log, a lost password."""

from collections.abc import Mapping
from typing import Any

import pyotp
import pytest
from uuid_utils import uuid7

from tests.journeys.service import Service, veristream_json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SESSIONS = "/v1/control/sessions"
NEW = "seven brass kettles"


class Person:
    """A reviewer with a browser."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.cookie = ""
        self.given = ""

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """Send a request as the service's own pages do, and keep the cookie that comes back."""
        headers = {"Origin": self._service.url, "Cookie": self.cookie}
        asked = self._service.client.request(method, self._service.url + path, json=body, headers=headers)
        async with asked as answer:
            self.given = answer.headers.get("Set-Cookie", "")
            self.cookie = self.given.partition(";")[0] or self.cookie
            return answer.status, await answer.json(content_type=None)


async def make_reviewer(service: Service) -> tuple[str, str]:
    """A reviewer made by the command line: e-mail address and password."""
    email = f"ada.{uuid7().hex}@acme.example"
    made = await veristream_json(
        service.data_dir, "reviewer", "create", "--tenant", service.tenant_id,
        "--email", email, "--name", "Ada", "--role", "OWNER",
    )  # fmt: skip
    return email, made["password"]


async def test_a_reviewer_gets_in_with_two_factors(service: Service) -> None:
    email, password = await make_reviewer(service)
    person = Person(service)

    assert (await person.ask("POST", SESSIONS, {"email": email, "password": password}))[0] == 201
    assert "HttpOnly" in person.given
    assert "Secure" not in person.given  # plain http on loopback
    assert (await person.ask("GET", "/v1/audit"))[0] == 403

    status, begun = await person.ask("POST", "/v1/control/mfa/totp")
    assert status == 201
    code = pyotp.TOTP(begun["secret"]).now()
    assert (await person.ask("POST", "/v1/control/mfa/totp/confirm", {"code": code}))[0] == 200

    status, read = await person.ask("GET", "/v1/audit")
    assert status == 200
    assert [row["action"] for row in read["events"]][:2] == ["mfa.enrolled", "reviewer.signed_in"]


async def test_a_lost_password_is_set_anew_and_the_factor_stays(service: Service) -> None:
    email, password = await make_reviewer(service)
    person = Person(service)
    await person.ask("POST", SESSIONS, {"email": email, "password": password})
    device = pyotp.TOTP((await person.ask("POST", "/v1/control/mfa/totp"))[1]["secret"])
    await person.ask("POST", "/v1/control/mfa/totp/confirm", {"code": device.now()})

    given = await veristream_json(
        service.data_dir, "reviewer", "reset", "--tenant", service.tenant_id, "--email", email
    )
    token = given["link"].partition("/console/reset#")[2]
    status, _ = await Person(service).ask(
        "POST", "/v1/control/password/reset", {"token": token, "new_password": NEW}
    )

    assert status == 204
    assert (await person.ask("GET", f"{SESSIONS}/current"))[0] == 401
    fresh = Person(service)
    status, session = await fresh.ask("POST", SESSIONS, {"email": email, "password": NEW})
    assert (status, session["mfa"]) == (201, {"enrolled": True, "satisfied": False})
