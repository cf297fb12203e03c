"""The operator's tenants, their first owners and the platform's own log over HTTP; S32 and S33 for them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from app.settings import Settings, SettingsRefused, read_settings
from schemas.audit import AuditFilter
from schemas.ids import PLATFORM, TenantId, derive_id
from streams.tenants.handler import CreateTenant
from tests.builders import NOW
from tests.http.json_schema import Schemas
from tests.http.support import TEST, Front, Response, open_front

TOKEN = "operator-token-of-thirty-two-characters"  # noqa: S105 - a test's own
TENANTS = "/v1/platform/tenants"
AUDIT = "/v1/platform/audit"
NOBODYS = f"{TENANTS}/{derive_id('ten', 'nobody')}/owner-invitations"
OWNER = {"email": "ada@initech.example", "name": "Ada Obi"}
ROUTES = (("GET", TENANTS), ("POST", TENANTS), ("POST", NOBODYS), ("GET", AUDIT))


@pytest.fixture
async def platform() -> AsyncIterator[Front]:
    """A front whose deployment has an operator's token."""
    async with open_front(operator_token=SecretStr(TOKEN)) as opened:
        yield opened


async def operate(front: Front, method: str, path: str, body: Any = None, key: str | None = None) -> Response:
    """Ask as the operator."""
    more = {"json": body} if body is not None else {}
    headers = {"Idempotency-Key": key} if key is not None else {}
    return await front.ask(method, path, TOKEN, headers=headers, **more)


async def make(front: Front, name: str = "Initech") -> Any:
    """A new tenant."""
    response = await operate(front, "POST", TENANTS, {"name": name})
    assert response.status == 201, response.body
    return response.json


def invitations(tenant: Any) -> str:
    """Where owners of the tenant are invited."""
    return f"{TENANTS}/{tenant['tenant_id']}/owner-invitations"


@pytest.mark.parametrize("token", [None, "x" * 39, TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), TEST])
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_s32_a_missing_or_wrong_token_is_401(
    platform: Front, method: str, path: str, token: str | None
) -> None:
    assert (await platform.ask(method, path, token)).status == 401


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN} x", f'Bearer "{TOKEN}"', f"Bearer \u00e9{TOKEN}"],
)
async def test_s32_only_the_token_itself_opens_the_platform(platform: Front, header: str) -> None:
    response = await platform.ask("GET", TENANTS, None, headers={"Authorization": header})

    assert response.status == 401


@pytest.mark.parametrize("token", [None, TOKEN, TEST])
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_s33_without_an_operator_a_route_is_as_unknown_as_any(
    front: Front, method: str, path: str, token: str | None
) -> None:
    unknown = await front.ask(method, "/v1/platform/nothing", token)
    response = await front.ask(method, path, token)

    mine, dated = {"instance", "request_id"}, {"X-Request-ID", "Content-Length", "Date"}
    assert response.status == 404
    assert {k: v for k, v in response.json.items() if k not in mine} == {
        k: v for k, v in unknown.json.items() if k not in mine
    }
    assert {k: v for k, v in response.headers.items() if k not in dated} == {
        k: v for k, v in unknown.headers.items() if k not in dated
    }


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_s6_no_reviewer_and_no_key_is_an_operator(platform: Front, method: str, path: str) -> None:
    owner = await platform.sign_in()

    assert (await owner.ask(method, path)).status == 401


@pytest.mark.parametrize(
    "path", ["/v1/control/members", "/v1/control/api-keys", "/v1/control/settings", "/v1/audit"]
)
async def test_s6_the_operators_token_opens_no_tenant_route(platform: Front, path: str) -> None:
    assert (await operate(platform, "GET", path)).status == 401


@pytest.mark.parametrize("token", ["", "   "])
def test_s32_an_empty_token_is_none(token: str) -> None:
    assert Settings(platform_operator_token=SecretStr(token)).platform_operator_token is None


def test_s32_a_short_token_refuses_to_start() -> None:
    with pytest.raises(SettingsRefused, match="SERVICE_PLATFORM_OPERATOR_TOKEN"):
        read_settings(platform_operator_token=SecretStr("x" * 31))


async def test_a_tenant_is_made_and_listed(platform: Front) -> None:
    made = await make(platform, "  Initech  ")

    listed = (await operate(platform, "GET", TENANTS)).json

    assert (made["name"], made["tenant_id"][:4]) == ("Initech", "ten_")
    assert listed == {"tenants": [made], "next_cursor": None}


async def test_a_replayed_request_answers_the_first_tenant(platform: Front) -> None:
    responses = await asyncio.gather(
        *(operate(platform, "POST", TENANTS, {"name": "Initech"}, "one") for _ in range(8))
    )
    again = await operate(platform, "POST", TENANTS, {"name": "Initech"}, "one")
    other = await operate(platform, "POST", TENANTS, {"name": "Hooli"}, "one")

    assert sorted(one.status for one in responses) == [200] * 7 + [201]
    assert {one.json["tenant_id"] for one in responses} == {again.json["tenant_id"]}
    assert (again.headers["Idempotent-Replayed"], other.code) == ("true", "IDEMPOTENCY_KEY_REUSED")


async def test_a_tenant_is_reported_once_in_the_platforms_log_alone(platform: Front) -> None:
    made = await make(platform)

    response = (await operate(platform, "GET", f"{AUDIT}?action=tenant.created")).json

    (row,) = response["events"]
    assert (row["subject_id"], row["actor_type"], row["actor_id"]) == (
        made["tenant_id"], "OPERATOR", "operator",
    )  # fmt: skip
    assert "Initech" not in str(row)
    own = await platform.stores.audit_log.page(TenantId(made["tenant_id"]), AuditFilter(), limit=5)
    assert list(own) == []


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "x" * 121}, {"name": "I", "tenant_id": "ten_x"}])
async def test_an_unusable_tenant_is_refused(platform: Front, body: Any) -> None:
    assert (await operate(platform, "POST", TENANTS, body)).status == 422


async def test_tenants_come_page_by_page(platform: Front) -> None:
    made = [await make(platform, f"t{number}") for number in range(3)]

    first = (await operate(platform, "GET", f"{TENANTS}?limit=2")).json
    second = (await operate(platform, "GET", f"{TENANTS}?limit=2&cursor={first['next_cursor']}")).json

    assert first["tenants"] + second["tenants"] == made[::-1]
    assert second["next_cursor"] is None


async def test_an_invited_owner_sets_a_password_and_signs_in(platform: Front) -> None:
    tenant, own = await make(platform), {"Origin": "https://id.example"}
    password = "seven otters cross the quiet bridge"  # noqa: S105 - a test's own

    invited = await operate(platform, "POST", invitations(tenant), OWNER)
    body = {"token": invited.json["invitation_token"], "new_password": password}
    redeemed = await platform.ask("POST", "/v1/control/password/reset", None, json=body, headers=own)
    credentials = {"email": OWNER["email"], "password": password}
    signed_in = await platform.ask("POST", "/v1/control/sessions", None, json=credentials, headers=own)

    assert (invited.status, invited.json["role"], redeemed.status) == (201, "OWNER", 204)
    assert signed_in.json["reviewer"]["tenant_id"] == tenant["tenant_id"]


async def test_an_owners_invitation_is_reported_in_the_tenants_log(platform: Front) -> None:
    tenant = await make(platform)

    invited = (await operate(platform, "POST", invitations(tenant), OWNER)).json

    (row,) = await platform.stores.audit_log.page(TenantId(tenant["tenant_id"]), AuditFilter(), limit=5)
    assert (row.action, row.subject_id, row.actor_type) == (
        "member.invited",
        invited["reviewer_id"],
        "OPERATOR",
    )


async def test_a_replayed_invitation_shows_no_token(platform: Front) -> None:
    tenant = await make(platform)

    responses = [await operate(platform, "POST", invitations(tenant), OWNER, "one") for _ in range(2)]

    assert [one.status for one in responses] == [201, 200]
    assert responses[1].json == responses[0].json | {"invitation_token": None, "invitation_expires_at": None}


async def test_an_idempotency_key_is_each_tenants_own(platform: Front) -> None:
    tenants = [await make(platform, name) for name in ("Initech", "Hooli")]
    owners = [OWNER, OWNER | {"email": "bo@hooli.example"}]

    responses = [
        await operate(platform, "POST", invitations(tenant), owner, "one")
        for tenant, owner in zip(tenants, owners, strict=True)
    ]

    assert [one.status for one in responses] == [201, 201]


async def test_an_owner_of_nobody_is_not_invited(platform: Front) -> None:
    assert (await operate(platform, "POST", NOBODYS, OWNER)).code == "NOT_FOUND"


async def test_an_invitation_names_no_role(platform: Front) -> None:
    response = await operate(platform, "POST", invitations(await make(platform)), OWNER | {"role": "AUDITOR"})

    assert [*response.pointers] == ["/role"]


async def test_the_platforms_log_is_filtered_and_paged_like_a_tenants(platform: Front) -> None:
    for number in range(3):
        await make(platform, f"t{number}")

    first = (await operate(platform, "GET", f"{AUDIT}?action=tenant.&limit=2")).json
    second = await operate(platform, "GET", f"{AUDIT}?action=tenant.&limit=2&cursor={first['next_cursor']}")
    none = await operate(platform, "GET", f"{AUDIT}?actor_type=SYSTEM")
    wrong = await operate(platform, "GET", f"{AUDIT}?actor_type=KING")

    assert [len(page["events"]) for page in (first, second.json, none.json)] == [2, 1, 0]
    assert wrong.code == "FILTER_INVALID"


async def test_s73_a_cursor_of_the_platforms_log_serves_no_tenant_and_no_other_filter(
    platform: Front,
) -> None:
    for number in range(2):
        await make(platform, f"t{number}")
    cursor = (await operate(platform, "GET", f"{AUDIT}?limit=1")).json["next_cursor"]

    responses = [
        await platform.ask("GET", f"/v1/audit?cursor={cursor}", TEST),
        await operate(platform, "GET", f"{AUDIT}?action=tenant.&cursor={cursor}"),
        await operate(platform, "GET", f"{TENANTS}?cursor={cursor}"),
        await operate(platform, "GET", f"{AUDIT}?cursor={cursor.swapcase()}"),
    ]

    assert [(one.status, one.code) for one in responses] == [(400, "CURSOR_INVALID")] * 4


async def test_the_platforms_log_is_exported_as_csv(platform: Front) -> None:
    made = await make(platform)

    response = await platform.ask("GET", AUDIT, TOKEN, headers={"Accept": "text/csv"})

    assert response.headers["Content-Type"].startswith("text/csv")
    assert made["tenant_id"] in response.body.decode()


async def test_s2_no_tenant_sees_the_platforms_log(platform: Front) -> None:
    made, owner = await make(platform), await platform.sign_in()

    assert made["tenant_id"] not in (await owner.ask("GET", "/v1/audit")).body.decode()


async def test_a_tenant_made_at_the_command_line_is_listed_too(platform: Front) -> None:
    commit = platform.stores.journal.commit
    made = await CreateTenant(commit, lambda: NOW, lambda prefix: derive_id(prefix, "cli"))("Acme")

    listed = (await operate(platform, "GET", TENANTS)).json["tenants"]

    assert [one["tenant_id"] for one in listed] == [made.tenant_id]
    assert made.tenant_id != PLATFORM


async def test_answers_are_as_described(platform: Front) -> None:
    document = (await platform.ask("GET", "/v1/openapi.json", None)).json
    schemas, tenant = Schemas(document), await make(platform)

    response = {
        ("post", TENANTS, "201"): await operate(platform, "POST", TENANTS, {"name": "Hooli"}),
        ("get", TENANTS, "200"): await operate(platform, "GET", TENANTS),
        ("post", f"{TENANTS}/{{tenant_id}}/owner-invitations", "201"): await operate(
            platform, "POST", invitations(tenant), OWNER
        ),
        ("get", AUDIT, "200"): await operate(platform, "GET", AUDIT),
    }

    for (method, path, status), answer in response.items():
        content = document["paths"][path][method]["responses"][status]["content"]
        described = content["application/json"]["schema"]
        assert [*schemas.complaints(answer.json, described)] == []
        assert [*schemas.undeclared(answer.json, described)] == []
