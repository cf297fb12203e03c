"""The deployment's lists over HTTP: loaded by the operator, guarded, and read by every tenant (G116)."""

import json
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from schemas.ids import PLATFORM
from tests.http.serving import TOKEN
from tests.http.support import Front, Response, open_front

PATH = "/v1/platform/lists"


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front with an operator."""
    async with open_front(operator_token=SecretStr(TOKEN)) as opened:
        yield opened


def published(count: int) -> bytes:
    """So many entities of an OpenSanctions data set."""
    lines = (
        {"id": str(at), "schema": "Person", "properties": {"name": [f"Zafar Qadoori {at}"]}}
        for at in range(count)
    )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


async def load(front: Front, body: bytes, query: str = "", name: str = "un_sc_sanctions") -> Response:
    """Load a published file."""
    return await front.ask("PUT", f"{PATH}/{name}{query}", TOKEN, data=body)


async def test_a_published_list_is_loaded_and_every_tenant_can_read_it(front: Front) -> None:
    made = await load(front, published(100))
    again = await load(front, published(101))

    assert (made.status, again.status) == (201, 200)
    assert made.headers["Location"] == f"{PATH}/un_sc_sanctions"
    assert (again.json["owner"], again.json["check"], again.json["entries"]) == ("HOUSE", "SANCTIONS", 101)
    assert (await front.ask("GET", PATH, TOKEN)).json["lists"] == [again.json]
    assert (await front.ask("GET", "/v1/lists")).json["lists"] == [again.json]
    page = await front.ask("GET", "/v1/lists/un_sc_sanctions/entries?q=qadoori 17")
    assert [one["entity_id"] for one in page.json["entries"]] == ["17"]
    for method, path in (("DELETE", "/v1/lists/un_sc_sanctions"), ("PATCH", "/v1/lists/un_sc_sanctions")):
        assert (await front.ask(method, path, json={})).status == 404
    trail = (await front.ask("GET", "/v1/platform/audit", TOKEN)).json["events"]
    assert [row["action"] for row in trail] == ["list.updated", "list.updated"]


async def test_g2_a_key_loads_a_file_once(front: Front) -> None:
    async def keyed(body: bytes, key: str = "one") -> Response:
        headers = {"Idempotency-Key": key}
        return await front.ask("PUT", f"{PATH}/un_sc_sanctions", TOKEN, data=body, headers=headers)

    first = await keyed(published(100))
    await load(front, published(101))
    again, other = await keyed(published(100)), await keyed(published(99))

    assert (first.status, again.status, again.body) == (201, 200, first.body)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (other.status, other.json["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert (await front.ask("GET", PATH, TOKEN)).json["lists"][0]["entries"] == 101


@pytest.mark.parametrize(
    ("body", "query", "status", "code"),
    [
        (published(10), "", 409, "LIST_GUARD_REFUSED"),
        (b"<html>Sorry</html>", "", 422, "LIST_INVALID"),
        (b"", "?force=true", 422, "LIST_INVALID"),
        (published(0) + b"{}\n", "?force=true", 409, "LIST_GUARD_REFUSED"),
        (b"<CONSOLIDATED_LIST><INDIVIDUALS><IND", "?force=true", 422, "LIST_INVALID"),
        (b"\x00" * 5_000, "", 422, "LIST_INVALID"),
    ],
)
async def test_a_file_that_is_no_such_list_leaves_the_last_one_and_says_why(
    front: Front, body: bytes, query: str, status: int, code: str
) -> None:
    before = (await load(front, published(100))).json

    refused = await load(front, body, query)

    assert (refused.status, refused.code) == (status, code), refused.body
    (after,) = (await front.ask("GET", PATH, TOKEN)).json["lists"]
    assert after["stale"] is True
    assert after["problem"] == refused.json["detail"]
    assert {name: after[name] for name in before if name != "stale"} == {
        name: before[name] for name in before if name != "stale"
    }
    storage = front.ports.lists.storage
    lists, _ = await storage.load(PLATFORM)
    assert len(await storage.lines(PLATFORM, lists.lists[0])) == 100


async def test_an_operator_forces_a_list_that_differs_much_and_names_what_can_be_named(front: Front) -> None:
    await load(front, published(100))

    assert (await load(front, published(10), "?force=true")).json["entries"] == 10
    assert (await load(front, published(10), "?force=yes")).code == "FILTER_INVALID"
    assert (await load(front, published(10), name="sandbox")).code == "LIST_NAME_TAKEN"
    assert (await load(front, published(10), name="Un")).status == 404
