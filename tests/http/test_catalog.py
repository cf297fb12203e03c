"""The catalogue over HTTP: the operator's routes, and what tenants read of it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from streams.catalog.handler import Catalogue
from tests.http.support import TEST, Front, Response, now, open_front

TOKEN = "operator-token-of-thirty-two-characters"  # noqa: S105 - a test's own
PATH = "/v1/platform/catalog"
ENTRY = {
    "code": "GB_DRIVING_LICENCE",
    "country": "GB",
    "country_name": "United Kingdom",
    "document_type": "DRIVING_LICENCE",
    "display_name": "UK driving licence",
    "extraction_support": "MANUAL",
    "capture": {"document_number_required": False},
}


@pytest.fixture
async def platform() -> AsyncIterator[Front]:
    """A front whose deployment has an operator's token."""
    async with open_front(operator_token=SecretStr(TOKEN)) as opened:
        yield opened


async def operate(front: Front, method: str, path: str, body: Any = None, **headers: str) -> Response:
    """Ask as the operator."""
    more = {"json": body} if body is not None else {}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await front.ask(method, path, TOKEN, headers=given, **more)


@pytest.mark.parametrize("token", [None, "", "x" * 39, TEST])
async def test_a_missing_or_wrong_token_is_401(platform: Front, token: str | None) -> None:
    assert (await platform.ask("GET", PATH, token)).status == 401


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_without_an_operator_the_routes_do_not_exist(front: Front, token: str | None) -> None:
    unknown, response = await front.ask("GET", "/v1/platform/x", token), await front.ask("GET", PATH, token)

    mine = {"instance", "request_id"}
    assert response.status == 404
    assert {k: v for k, v in response.json.items() if k not in mine} == {
        k: v for k, v in unknown.json.items() if k not in mine
    }


async def test_the_operators_token_opens_no_tenant_route(platform: Front) -> None:
    assert (await platform.ask("GET", "/v1/verifications", TOKEN)).status == 401


async def test_an_entry_is_added_read_changed_and_switched(platform: Front) -> None:
    made = await operate(platform, "POST", PATH, ENTRY)
    assert (made.status, made.json["revision"], made.json["enabled"]) == (201, 1, True)
    assert (await operate(platform, "GET", f"{PATH}/GB_DRIVING_LICENCE")).json == made.json

    changed = await operate(
        platform, "PATCH", f"{PATH}/GB_DRIVING_LICENCE", {"display_name": "Licence"}, If_Match='"1"'
    )
    assert (changed.status, changed.json["revision"], changed.json["display_name"]) == (200, 2, "Licence")

    off = await operate(platform, "POST", f"{PATH}/GB_DRIVING_LICENCE/disable")
    assert (off.json["enabled"], off.json["revision"], off.headers["ETag"]) == (False, 3, '"3"')
    again = await operate(platform, "POST", f"{PATH}/GB_DRIVING_LICENCE/disable", If_Match="3")
    assert again.json == off.json


async def test_a_change_must_name_the_revision_it_was_meant_for(platform: Front) -> None:
    await operate(platform, "POST", PATH, ENTRY)
    path, change = f"{PATH}/GB_DRIVING_LICENCE", {"display_name": "Licence"}

    assert (await operate(platform, "PATCH", path, change)).code == "PRECONDITION_REQUIRED"
    for seen in ('"2"', "x", '"x"'):
        response = await operate(platform, "PATCH", path, change, If_Match=seen)
        assert (response.status, response.code) == (412, "PRECONDITION_FAILED")


async def test_of_twenty_changes_to_one_revision_one_counts(platform: Front) -> None:
    await operate(platform, "POST", PATH, ENTRY)
    path = f"{PATH}/GB_DRIVING_LICENCE"

    responses = await asyncio.gather(
        *(operate(platform, "PATCH", path, {"display_name": f"{n}"}, If_Match="1") for n in range(20))
    )

    assert sorted(answer.status for answer in responses) == [200] + [412] * 19


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"country": "XX"}, "/country"),
        ({"code": "GB_PASSPORT"}, "/code"),
        ({"code": "GB_DRIVING_LICENCE_"}, "/code"),
        ({"extraction_support": "AUTOMATED"}, "/reader"),
        ({"reader": "TD3_MRZ"}, "/reader"),
        ({"reader": "MAGIC"}, "/reader"),
        ({"enabled": False}, "/enabled"),
        ({"display_name": " "}, "/display_name"),
        ({"display_name": "x" * 121}, "/display_name"),
        ({"capture": None}, "/capture"),
    ],
)
async def test_a_wrong_entry_is_refused_at_its_place(
    platform: Front, changes: dict[str, Any], pointer: str
) -> None:
    response = await operate(platform, "POST", PATH, {**ENTRY, **changes})

    assert (response.status, pointer in response.pointers) == (422, True)
    assert (await operate(platform, "GET", PATH)).json["capabilities"] == []


@pytest.mark.parametrize("field", ["display_name", "capture", "extraction_support", "code", "country"])
async def test_what_cannot_be_changed_is_refused(platform: Front, field: str) -> None:
    await operate(platform, "POST", PATH, ENTRY)

    response = await operate(platform, "PATCH", f"{PATH}/GB_DRIVING_LICENCE", {field: None}, If_Match="1")

    assert (response.status, list(response.pointers)) == (422, [f"/{field}"])


async def test_a_code_is_given_once(platform: Front) -> None:
    await operate(platform, "POST", PATH, ENTRY)

    response = await operate(platform, "POST", PATH, ENTRY)

    assert (response.status, response.code) == (409, "CAPABILITY_EXISTS")


async def test_the_same_key_adds_one_entry(platform: Front) -> None:
    responses = await asyncio.gather(
        *(operate(platform, "POST", PATH, ENTRY, Idempotency_Key="k") for _ in range(20))
    )

    assert sorted(answer.status for answer in responses) == [200] * 19 + [201]
    assert len({answer.body for answer in responses}) == 1
    other = await operate(platform, "POST", PATH, {**ENTRY, "display_name": "y"}, Idempotency_Key="k")
    assert (other.status, other.code) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_the_first_content_is_brought_once_and_never_overwritten(platform: Front) -> None:
    catalogue = Catalogue(platform.ports.stores.records, platform.ports.commit, now)
    brought = [await catalogue.install_first() for _ in range(2)]
    await operate(platform, "POST", f"{PATH}/NG_NIN_SLIP/disable")
    assert await catalogue.install_first() == 0

    listed = (await operate(platform, "GET", PATH)).json["capabilities"]

    order = [(entry["country"], entry["document_type"], entry["code"]) for entry in listed]
    assert brought[0] == len(listed) > 200
    assert brought[1] == 0
    assert order == sorted(order)
    assert [entry["enabled"] for entry in listed if entry["code"] == "NG_NIN_SLIP"] == [False]


async def test_tenants_read_what_is_enabled_and_keep_it_by_its_tag(platform: Front) -> None:
    await operate(platform, "POST", PATH, ENTRY)
    await operate(platform, "POST", PATH, {**ENTRY, "code": "GB_DRIVING_LICENCE_NI"})
    await operate(platform, "POST", f"{PATH}/GB_DRIVING_LICENCE_NI/disable")

    response = await platform.ask("GET", "/v1/catalog")
    tag = {"If-None-Match": response.headers["ETag"]}
    stored = await platform.ask("GET", "/v1/catalog", headers=tag)
    await operate(platform, "POST", f"{PATH}/GB_DRIVING_LICENCE_NI/enable")

    assert [entry["code"] for entry in response.json["capabilities"]] == ["GB_DRIVING_LICENCE"]
    assert (stored.status, stored.body) == (304, b"")
    assert (await platform.ask("GET", "/v1/catalog", headers=tag)).status == 200


async def test_a_reviewer_reads_the_catalogue_too(platform: Front) -> None:
    assert (await (await platform.sign_in()).ask("GET", "/v1/catalog")).status == 200
