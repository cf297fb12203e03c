"""S16-S18, S31 and S33 on every route there is: what a browser, a proxy or an outsider may cause."""

import json
from collections.abc import AsyncIterator

import pytest

from app.http.bodies import BodyBudget
from app.http.server import endpoints_of
from tests.http.furnished import TENANTS, Furnished, open_furnished
from tests.http.support import TEST, Front, Response, open_front
from tests.http.test_permissions import TABLE, TOKEN, Row

UNSAFE = [row for row in TABLE if row.method not in {"GET", "HEAD"}]


@pytest.fixture
async def furnished() -> AsyncIterator[Furnished]:
    """A tenant with everything, and its callers."""
    async with open_furnished() as opened:
        yield opened


def name(row: Row) -> str:
    """The row as it is read."""
    return f"{row.method} {row.path}"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Origin": None}, id="nothing is said"),
        pytest.param({"Origin": "null"}, id="a sandboxed page"),
        pytest.param({"Origin": "https://evil.example"}, id="another site"),
        pytest.param({"Origin": "http://id.example"}, id="another scheme"),
        pytest.param({"Origin": None, "Sec-Fetch-Site": "cross-site"}, id="across sites"),
        pytest.param({"Origin": None, "Sec-Fetch-Site": "same-site"}, id="a neighbour"),
        pytest.param({"Origin": None, "Sec-Fetch-Site": "none"}, id="typed by the user"),
    ],
)
async def test_s16_no_write_with_the_cookie_comes_from_elsewhere(
    furnished: Furnished, headers: dict[str, str | None]
) -> None:
    before, collected = furnished.stored(), dict[str, Response]()
    for row in UNSAFE:
        if "person" in row.who:
            body = furnished.body(row)
            sent = {**body.pop("headers", {}), **headers}
            collected[name(row)] = await furnished.owner.ask(
                row.method, furnished.path(row), headers=sent, **body
            )

    codes = {row: (one.status, one.code) for row, one in collected.items()}
    assert {row: code for row, code in codes.items() if code != (403, "ORIGIN_REFUSED")} == {}
    assert len(codes) > 25
    assert furnished.stored() == before


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", None]
)
async def test_s16_no_body_is_read_but_json(furnished: Furnished, kind: str | None) -> None:
    endpoints = endpoints_of(furnished.front.ports, furnished.front.settings, BodyBudget(1))
    bodies = {(endpoint.method, endpoint.path) for endpoint in endpoints if endpoint.body is not None}
    before, collected = furnished.stored(), dict[str, Response]()
    for row in UNSAFE:
        if (row.method, row.path) in bodies and {"person", "anyone"} & row.who.keys():
            headers = {"If-Match": "1", "Content-Type": kind or ""}
            raw = json.dumps(furnished.bodies.get(row.path, {})).encode()
            collected[name(row)] = await furnished.owner.ask(
                row.method, furnished.path(row), data=raw, headers=headers
            )

    assert {row: one.status for row, one in collected.items() if one.status != 415} == {}
    assert len(collected) > 20
    assert furnished.stored() == before


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
async def test_s16_no_header_makes_a_read_a_write(furnished: Furnished, header: str) -> None:
    before = furnished.stored()
    for row in UNSAFE:
        if "person" in row.who:
            await furnished.owner.ask("GET", furnished.path(row), headers={header: row.method})

    assert but_for_looks(furnished.stored()) == but_for_looks(before)


def but_for_looks(stored: dict[object, object]) -> dict[object, object]:
    """What is kept, without what a look at evidence writes by itself."""
    return {key: one for key, one in stored.items() if key != "audit" and "'act'" not in repr(key)}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_s17_no_read_changes_what_is_kept(furnished: Furnished, method: str) -> None:
    one = "/v1/verifications/{verification_id}"
    looking = {f"{one}/evidence/{{evidence_id}}", f"{one}/explanation", "/v1/subjects/{subject_id}/export"}
    before, collected = furnished.stored(), dict[str, int]()
    for row in TABLE:
        if row.method != "GET" or row.path in looking:  # a look at evidence is a row (G20)
            continue
        path = furnished.path(row)
        if "person" in row.who:
            collected[row.path] = (await furnished.owner.ask(method, path)).status
        if "key" in row.who:
            collected[row.path] = (await furnished.front.ask(method, path, TEST)).status
        if "operator" in row.who:
            collected[row.path] = (await furnished.front.ask(method, path, TOKEN)).status

    assert len(collected) > 25
    assert furnished.stored() == before


async def test_s17_a_look_at_evidence_writes_its_row_and_nothing_else(furnished: Furnished) -> None:
    path = "/v1/verifications/{verification_id}/evidence/{evidence_id}".format(**furnished.ids)
    before = furnished.stored()

    assert (await furnished.owner.ask("GET", path)).status == 200

    after = furnished.stored()
    written = {repr(key) for key in after if key not in before}
    assert {key: one for key, one in after.items() if key in before and key != "audit"} == {
        key: one for key, one in before.items() if key != "audit"
    }
    assert len(written) == 1
    assert "act" in written.pop()


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
async def test_s18_no_other_origin_may_read_any_answer(furnished: Furnished, origin: str) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x"}
    opened = dict[str, object]()
    for row in TABLE:
        path = furnished.path(row) if row in TENANTS else row.concrete
        responses = [
            await furnished.front.ask(method, path, None, headers=asked) for method in ("OPTIONS", row.method)
        ]
        responses.append(await furnished.owner.ask("GET", path, headers=asked))
        headers = {
            header
            for one in responses
            for header in one.headers
            if header.lower().startswith("access-control-")
        }
        opened |= {name(row): headers} if headers else {}

    assert opened == {}


@pytest.mark.parametrize("parameter", ["api_key", "key", "token", "access_token", "Authorization"])
async def test_s31_no_credential_in_a_query_opens_any_route(furnished: Furnished, parameter: str) -> None:
    opened = dict[str, object]()
    for row in TABLE:
        if "anyone" in row.who:
            continue
        credential = TOKEN if "operator" in row.who else TEST
        path = furnished.path(row) if row in TENANTS else row.concrete
        response = await furnished.front.ask(row.method, f"{path}?{parameter}={credential}", None)
        opened |= {name(row): response.status} if response.status != 401 else {}

    assert opened == {}


@pytest.mark.parametrize("token", [None, TOKEN, TEST, "x"])
async def test_s33_without_an_operator_every_route_of_the_platform_is_as_unknown_as_any(
    token: str | None,
) -> None:
    mine, dated = {"instance", "request_id"}, {"X-Request-ID", "Content-Length", "Date"}
    differing = dict[str, int]()
    async with open_front() as front:
        for row in (row for row in TABLE if "operator" in row.who):
            unknown = await front.ask(row.method, "/v1/platform/nothing", token)
            response = await front.ask(row.method, row.concrete, token)
            same = seen(response, mine, dated) == seen(unknown, mine, dated)
            differing |= {} if same and response.status == 404 else {name(row): response.status}

    assert differing == {}


def seen(response: Response, fields: set[str], headers: set[str]) -> object:
    """What an answer shows, without what differs between any two."""
    shown = {key: value for key, value in response.json.items() if key not in fields}
    return (
        response.status,
        shown,
        {key: value for key, value in response.headers.items() if key not in headers},
    )


async def test_s32_every_route_of_the_platform_wants_the_token_itself(front: Front) -> None:
    assert front.settings.operator_token is None
    async with open_furnished() as furnished:
        for token in (None, TOKEN[:-1], TOKEN + "x", TOKEN.upper(), TEST):
            responses = [
                (await furnished.front.ask(row.method, row.concrete, token)).status
                for row in TABLE
                if "operator" in row.who
            ]
            assert set(responses) == {401}, token
