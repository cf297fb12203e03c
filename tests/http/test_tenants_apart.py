"""S1-S5 and S73 on every route there is: one tenant finds nothing of another's, whatever it asks."""

import io
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from app.http.bodies import BodyBudget
from app.http.endpoints import IDEMPOTENCY, Credential, Endpoint
from app.http.server import endpoints_of
from tests.builders import ACME, GLOBEX
from tests.http.furnished import BY_NAME, NAME, TENANTS, Furnished, has_id, lists, open_furnished
from tests.http.json_schema import Schemas
from tests.http.support import FOREIGN, TEST, Front, Response, SignedIn, build_body
from tests.http.test_description import response_schema
from tests.http.test_permissions import TOKEN, Row

SERVERS_OWN: Final = (
    "tenant_id", "livemode", "status", "decision", "decision_id", "verification_id", "session_id",
    "reviewer_id", "created_at", "updated_at", "version", "revision", "published_by", "assignee",
    "review_status", "risk_level", "recommendation", "secret_hash", "password_hash", "permissions", "scopes",
    "role", "active", "satisfied", "actor_id", "request_id", "fingerprint", "due_at", "expires_at",
)  # fmt: skip
"""Fields that answers or records have; a request that may not set one is refused for naming it."""

NOT_PAGED = {BY_NAME, "/v1/lists/{name}/entries"}
"""One lists one thing alone, the other what is in a list, of which the tenants here have none."""


@pytest.fixture
async def furnished(logged: io.StringIO) -> AsyncIterator[Furnished]:
    """A tenant with everything, and one with nothing."""
    assert logged is not None
    async with open_furnished() as opened:
        yield opened


def name(row: Row) -> str:
    """The row as it is read."""
    return f"{row.method} {row.path}"


async def ask_as_foreigner(furnished: Furnished, row: Row) -> list[Response]:
    """What the other tenant is shown of ours: its key where keys may ask, its owner where people may."""
    path, body, responses = furnished.path(row), furnished.body(row), list[Response]()
    if "key" in row.who:
        responses.append(await furnished.front.ask(row.method, path, FOREIGN, **body))
    if "person" in row.who:
        responses.append(await furnished.foreigner.ask(row.method, path, **body))
    return responses


async def test_s1_whatever_another_tenant_has_is_not_found(furnished: Furnished) -> None:
    before = furnished.stored()

    result = {name(row): await ask_as_foreigner(furnished, row) for row in TENANTS if has_id(row)}

    codes = {row: {(one.status, one.code) for one in answers} for row, answers in result.items() if answers}
    assert codes == {row: {(404, "NOT_FOUND")} for row in codes}
    assert len(codes) > 25
    assert furnished.stored() == before


async def test_s1_its_own_tenant_finds_all_of_it(furnished: Furnished) -> None:
    """The ids and bodies by which another tenant finds nothing are good ones."""
    collected, ends = {}, {"DELETE": 1, "/v1/control/members/{reviewer_id}": 2}
    for row in sorted(
        (row for row in TENANTS if has_id(row)), key=lambda row: ends.get(row.path) or ends.get(row.method, 0)
    ):
        path, body = furnished.path(row), furnished.body(row)
        asked = furnished.owner.ask if "person" in row.who else furnished.front.ask
        collected[name(row)] = (await asked(row.method, path, **body)).status

    assert [row for row, status in collected.items() if status == 404] == []


async def test_s1_under_the_name_of_a_policy_each_tenant_finds_its_own(furnished: Furnished) -> None:
    rows = [row for row in TENANTS if row.path.startswith(f"{BY_NAME}/") and row.method == "GET"]
    own = {name(row): await furnished.owner.ask("GET", furnished.path(row)) for row in rows}
    result = {name(row): await ask_as_foreigner(furnished, row) for row in rows}

    shown = {row: [one for one in answers if NAME.encode() in one.body] for row, answers in result.items()}
    assert {row for row, answer in own.items() if NAME.encode() in answer.body} == {
        f"GET {BY_NAME}/{{name}}/draft"
    }
    assert len(rows) == 7
    assert {row: found for row, found in shown.items() if found} == {}


async def test_s1_who_looked_for_another_tenants_things_stands_in_the_log(
    furnished: Furnished, logged: io.StringIO
) -> None:
    path = f"/v1/verifications/{furnished.ids['verification_id']}"
    responses = [await furnished.front.ask("GET", path, FOREIGN), await furnished.foreigner.ask("GET", path)]

    lines = {
        line["request_id"]: line
        for line in map(json.loads, logged.getvalue().splitlines())
        if "route" in line
    }
    by_key, by_person = (lines[one.headers["X-Request-Id"]] for one in responses)
    assert (by_key["status"], by_key["key_id"]) == (404, furnished.front.keys.known[FOREIGN].key_id)
    assert (by_person["status"], by_person["reviewer_id"]) == (404, furnished.foreigner.member.reviewer_id)


async def test_s2_no_list_names_anything_of_another_tenant(furnished: Furnished) -> None:
    named = [one.encode() for one in furnished.named()]

    result = {name(row): await ask_as_foreigner(furnished, row) for row in TENANTS if lists(row)}

    shown = {
        row: [one for one in named if any(one in answer.body for answer in answers)]
        for row, answers in result.items()
    }
    assert {answer.status for answers in result.values() for answer in answers} == {200}
    assert {row: names for row, names in shown.items() if names} == {}


async def test_s2_its_own_tenant_is_shown_what_another_is_not(furnished: Furnished) -> None:
    """The lists in which another tenant finds nothing are not empty."""
    rows = [row for row in TENANTS if lists(row) and "person" in row.who]
    responses = {name(row): (await furnished.owner.ask("GET", row.path)).body for row in rows}

    named = [one.encode() for one in furnished.named()]
    showing = {row for row, body in responses.items() if any(one in body for one in named)}
    assert len(showing) >= 9


async def test_s2_no_filter_finds_anything_of_another_tenant(furnished: Furnished) -> None:
    ids = furnished.ids
    sought = {
        "subject_id": "sim:review:FACE_MATCH_UNCERTAIN@canary0", "subject": "canary",
        "session_id": furnished.page.session_id, "assignee": furnished.colleague.member.reviewer_id,
        "actor_id": furnished.owner.member.reviewer_id, "decision_id": ids["decision_id"],
    }  # fmt: skip
    found = {}
    for endpoint in endpoints(furnished.front):
        for parameter in endpoint.parameters:
            if endpoint.method != "GET" or parameter.name not in sought or "platform" in endpoint.path:
                continue
            path = f"{endpoint.path}?{parameter.name}={sought[parameter.name]}"
            body = (await furnished.foreigner.ask("GET", path)).json
            found[path] = next(rows for key, rows in body.items() if key != "next_cursor")

    assert len(found) >= 6
    assert {path: rows for path, rows in found.items() if rows} == {}


async def test_s2_an_export_has_nothing_of_another_tenant(furnished: Furnished) -> None:
    response = await furnished.foreigner.ask("GET", "/v1/audit", headers={"Accept": "text/csv"})

    assert (response.status, response.headers["Content-Type"].partition(";")[0]) == (200, "text/csv")
    assert [one for one in furnished.named() if one.encode() in response.body] == []


def endpoints(front: Front) -> tuple[Endpoint, ...]:
    """Every route."""
    return endpoints_of(front.ports, front.settings, BodyBudget(1))


def creating(flow_id: str) -> dict[str, dict[str, Any]]:
    """A body for each route that makes a record of a tenant by an Idempotency-Key."""
    return {
        "/v1/verifications": build_body("sim:approved@same"),
        "/v1/verification-sessions": {"flow_id": flow_id, "subject_id": "sim:approved@same"},
        "/v1/verification-flows": {"name": "x", "flow_type": "BIOMETRIC", "documents": []},
        "/v1/control/api-keys": {"name": "x", "livemode": False, "expires_at": "never"},
    }


async def test_s3_one_idempotency_key_names_a_record_per_tenant_and_route(furnished: Furnished) -> None:
    flow = {"name": "x", "flow_type": "BIOMETRIC", "documents": []}
    theirs = (await furnished.foreigner.ask("POST", "/v1/verification-flows", json=flow)).json["flow_id"]
    results = [
        *await make_all(furnished.front, TEST, furnished.owner, furnished.ids["flow_id"]),
        *await make_all(furnished.front, FOREIGN, furnished.foreigner, theirs),
    ]

    made = [one.json for one in results if one.status == 201]
    ids = {next(value for field, value in one.items() if field.endswith("_id")) for one in made}
    assert [one.code for one in results if one.status != 201] == ["FLOW_NOT_PUBLISHED"]
    assert len(ids) == len(made) == len(results) - 1


async def make_all(front: Front, key: str, person: SignedIn, flow_id: str) -> list[Response]:
    """Make a record at every route with one and the same key."""
    collected = []
    for path, body in creating(flow_id).items():
        more: dict[str, Any] = {"json": body, "headers": {"Idempotency-Key": "the-same-key"}}
        by_key = path in {"/v1/verifications", "/v1/verification-sessions"}
        collected.append(
            await (front.ask("POST", path, key, **more) if by_key else person.ask("POST", path, **more))
        )
    return collected


async def test_s4_no_body_sets_what_is_the_servers(furnished: Furnished) -> None:
    before, accepted, tried = furnished.stored(), list[str](), 0
    rows = {(row.method, row.path): row for row in TENANTS}
    for endpoint in endpoints(furnished.front):
        row = rows.get((endpoint.method, endpoint.path))
        if endpoint.body is None or row is None:
            continue
        for field in SERVERS_OWN:
            if field in endpoint.body.model_fields:
                continue
            tried += 1
            response = await write_as_ours(furnished, row, {**furnished.bodies.get(row.path, {}), field: "x"})
            if response.status != 422 or f"/{field}" not in response.pointers:
                accepted.append(f"{name(row)} {field}: {response.status}")

    assert accepted == []
    assert tried > 500
    assert furnished.stored() == before


async def write_as_ours(furnished: Furnished, row: Row, body: dict[str, Any]) -> Response:
    """Ask as who of ours may."""
    path, more = furnished.path(row), {"json": body, "headers": {"If-Match": "1", IDEMPOTENCY: "x"}}
    if "capture" in row.who:
        return await furnished.front.ask(row.method, path, furnished.page.opened["client_token"], **more)
    if "person" in row.who:
        return await furnished.owner.ask(row.method, path, **more)
    return await furnished.front.ask(row.method, path, TEST, **more)


async def test_s4_no_query_and_no_header_names_another_tenant(furnished: Furnished) -> None:
    for row in (row for row in TENANTS if lists(row) and "person" in row.who):
        asked = await furnished.foreigner.ask("GET", f"{row.path}?tenant_id={ACME}")
        headers = {"X-Tenant-Id": ACME, "Tenant-Id": ACME, "X-Forwarded-Tenant": ACME}
        plain = await furnished.foreigner.ask("GET", row.path)
        said = await furnished.foreigner.ask("GET", row.path, headers=headers)

        assert (asked.status, asked.code) == (422, "FILTER_INVALID"), row.path
        assert (said.status, ACME.encode() in said.body) == (plain.status, False), row.path


async def test_s5_every_answer_has_its_declared_fields_and_no_others(furnished: Furnished) -> None:
    document = (await furnished.front.ask("GET", "/v1/openapi.json", None)).json
    schemas, undeclared, compared = Schemas(document), dict[str, list[str]](), 0
    for row in (row for row in TENANTS if row.method == "GET"):
        path = furnished.path(row)
        token = furnished.page.opened["client_token"] if "capture" in row.who else None
        response = await (
            furnished.front.ask("GET", path, token) if token else furnished.owner.ask("GET", path)
        )
        if response.headers["Content-Type"].startswith("application/json"):
            schema = response_schema(document, "GET", row.path, response)
            found = [*schemas.undeclared(response.json, schema), *schemas.complaints(response.json, schema)]
            undeclared |= {name(row): found} if found else {}
            compared += 1

    assert undeclared == {}
    assert compared > 20


SECRETS: Final = (
    "hash", "pepper", "sealed", "seed", "wrapped", "fingerprint", "lookup", "client_token", "storage", "blob",
    "file:", "/var/", "root_key",
)  # fmt: skip


async def test_s5_no_answer_holds_a_secret_or_a_place_of_storage(furnished: Furnished) -> None:
    found = dict[str, list[str]]()
    for row in (row for row in TENANTS if row.method == "GET" and "person" in row.who):
        response = await furnished.owner.ask("GET", furnished.path(row))
        if response.headers["Content-Type"].startswith("application/json"):
            words = set(field_names(response.json))
            found |= {
                name(row): hit for word in words if (hit := [one for one in SECRETS if one in word.lower()])
            }

    assert found == {}


def field_names(value: Any) -> list[str]:
    """Every field of an answer, however deep, but for the chain of the audit log, which is hashes (G21)."""
    if isinstance(value, dict):
        return [
            *value,
            *(one for key, inner in value.items() if key != "chain" for one in field_names(inner)),
        ]
    return [one for inner in value for one in field_names(inner)] if isinstance(value, list) else []


async def test_s73_no_cursor_serves_another_tenant_list_or_filter(furnished: Furnished) -> None:
    cursors = {}
    for endpoint in endpoints(furnished.front):
        paged = {one.name for one in endpoint.parameters} >= {"limit", "cursor"}
        of_reviewers = Credential.REVIEWER_SESSION in endpoint.access.accepts
        if endpoint.method == "GET" and paged and of_reviewers and endpoint.path not in NOT_PAGED:
            path = endpoint.path.format(**furnished.ids)
            cursors[path] = (await furnished.owner.ask("GET", f"{path}?limit=1")).json["next_cursor"]
    assert [path for path, cursor in cursors.items() if cursor is None] == []
    collected = dict[tuple[str, str], object]()
    for path, cursor in cursors.items():
        collected[path, "own"] = (await furnished.owner.ask("GET", f"{path}?limit=1&cursor={cursor}")).status
        collected[path, "other tenant"] = await code(furnished, path, cursor, gone="CURSOR_INVALID")
        collected[path, "altered"] = await code(furnished, path, altered(cursor), ours=True)
        for elsewhere in set(cursors) - {path}:
            collected[elsewhere, path] = await code(furnished, elsewhere, cursor, ours=True)

    assert len(cursors) >= 6
    assert {asked: came for asked, came in collected.items() if came not in {200, "CURSOR_INVALID"}} == {}
    assert {asked[0] for asked, came in collected.items() if came == 200} == set(cursors)


async def code(
    furnished: Furnished, path: str, cursor: str, *, ours: bool = False, gone: str = "NOT_FOUND"
) -> str:
    """The code a cursor is refused with; `gone` where the list itself is another tenant's."""
    person = furnished.owner if ours else furnished.foreigner
    response = await person.ask("GET", f"{path}?limit=1&cursor={cursor}")
    return (
        gone if response.status == 404 else response.code if response.status == 400 else str(response.status)
    )


def altered(cursor: str) -> str:
    """The cursor with one character changed."""
    return cursor[:-6] + ("A" if cursor[-6] != "A" else "B") + cursor[-5:]


async def test_s4_the_operators_token_names_no_tenant(furnished: Furnished) -> None:
    for row in (row for row in TENANTS if lists(row)):
        response = await furnished.front.ask("GET", row.path, TOKEN, headers={"X-Tenant-Id": GLOBEX})

        assert response.status == 401, row.path
