"""From an empty deployment to a key in use, over HTTP alone: operator, owner, both factors, key, settings."""

import asyncio
from pathlib import Path
from typing import Any

import pyotp
from aiohttp import ClientResponse

from tests.journeys.people import COOKIE, Person
from tests.journeys.service import Service, running_service, veristream_json

TOKEN = "WqM7ZsGx2pVb9TfKcY4nRj8LdE3aHu6Q"  # noqa: S105 - a test's own
PASSWORD = "seven otters cross the quiet bridge"  # noqa: S105 - a test's own
OWNER = {"email": "ada@initech.example", "name": "Ada Obi"}


async def operate(service: Service, method: str, path: str, body: Any = None) -> Any:
    """Ask as the operator."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    asked = service.client.request(method, f"{service.url}/v1/platform/{path}", json=body, headers=headers)
    async with asked as answer:
        assert answer.status in {200, 201}, await answer.text()
        return await answer.json()


async def post(service: Service, path: str, body: Any, cookie: str = "") -> ClientResponse:
    """Post as the service's own pages do."""
    headers = {"Origin": service.url, "Cookie": f"{COOKIE}={cookie}"} if cookie else {"Origin": service.url}
    async with service.client.post(f"{service.url}/v1/control/{path}", json=body, headers=headers) as answer:
        assert answer.status in {200, 201, 204}, await answer.text()
        await answer.read()
        return answer


async def enter(service: Service, token: str) -> Person:
    """Redeem an invitation, sign in and enrol the second factor."""
    await post(service, "password/reset", {"token": token, "new_password": PASSWORD})
    first = await post(service, "sessions", {"email": OWNER["email"], "password": PASSWORD})
    cookie = first.cookies[COOKIE].value
    enrolment = await (await post(service, "mfa/totp", {}, cookie)).json()
    code = pyotp.TOTP(enrolment["secret"]).now()
    met = await post(service, "mfa/totp/confirm", {"code": code}, cookie)
    session = (await met.json())["session"]
    return Person(service.client, service.url, session["reviewer"]["id"], met.cookies[COOKIE].value)


async def last_use(owner: Person, key_id: str) -> str:
    """When the key was used last, as soon as it is written down."""
    while True:
        _, listed = await owner.ask("GET", "/v1/control/api-keys")
        (key,) = [one for one in listed["api_keys"] if one["key_id"] == key_id]
        if key["last_used_at"] is not None:
            return str(key["last_used_at"])
        await asyncio.sleep(0.05)


async def test_an_operator_and_an_owner_need_no_command_line(tmp_path: Path) -> None:
    given = {"SERVICE_PLATFORM_OPERATOR_TOKEN": TOKEN}
    async with running_service(tmp_path, given, preloaded=True) as service:
        tenant = (await operate(service, "POST", "tenants", {"name": "Initech"}))["tenant_id"]
        invited = await operate(service, "POST", f"tenants/{tenant}/owner-invitations", OWNER)
        owner = await enter(service, invited["invitation_token"])

        body = {"name": "integration", "expires_at": "never"}
        status, key = await owner.ask("POST", "/v1/control/api-keys", json=body)
        used, _ = await service.get("/v1/verifications", key=key["api_key"])
        assert (status, used) == (201, 200)
        assert await asyncio.wait_for(last_use(owner, key["key_id"]), 180) >= key["created_at"]

        path = f"/v1/control/api-keys/{key['key_id']}"
        _, rotated = await owner.ask("POST", f"{path}/rotate", json={"overlap_seconds": 3600})
        both = [(await service.get("/v1/verifications", key=one["api_key"]))[0] for one in (key, rotated)]
        revoked, _ = await owner.ask("DELETE", path)
        after = [(await service.get("/v1/verifications", key=one["api_key"]))[0] for one in (key, rotated)]
        assert (both, revoked, after) == ([200, 200], 204, [401, 401])

        changed, settings = await owner.ask("PATCH", "/v1/control/settings", json={"four_eyes": "ALWAYS"})
        assert (changed, settings["four_eyes"]) == (200, "ALWAYS")
        platform = await operate(service, "GET", "audit?action=tenant.created")
        assert platform["events"][0]["subject_id"] in {tenant, service.tenant_id}
        _, response = await owner.ask("GET", "/v1/audit")
        assert [row["action"] for row in response["events"]] == [
            "tenant.settings_changed", "api_key.revoked", "api_key.rotated", "api_key.created",
            "mfa.enrolled", "reviewer.signed_in", "reviewer.password_changed", "member.invited",
        ]  # fmt: skip

    report = await veristream_json(tmp_path, "audit", "verify", "--tenant", tenant)
    assert [chain["ok"] for chain in report["chains"]] == [True]
