"""Webhook endpoints over HTTP: registered, listed, changed, rotated and deleted, each mode for itself."""

import asyncio
import base64
import io
from typing import Any

import pytest

from schemas.audit import AuditEvent, AuditFilter
from schemas.ids import derive_id
from schemas.people import Role
from schemas.problems import StoreUnavailable
from streams.webhooks.endpoint_limit import MOST_ENDPOINTS
from tests.builders import ACME
from tests.http.json_schema import Schemas
from tests.http.support import FOREIGN, LIVE, TEST, Front, Json, Response, open_front

PATH = "/v1/webhooks/endpoints"
SECRET = "a secret nobody else may know, never"  # noqa: S105 - of nobody
OTHER_SECRET = "whsec_" + base64.b64encode(b"another secret of thirty bytes").decode()
UNUSABLE = "WEBHOOK_ENDPOINT_UNUSABLE"
V = "VALIDATION_FAILED"
REQUESTED: Json = {
    "url": "https://receiver.example/hooks",
    "secret": SECRET,
    "event_types": ["verification.completed"],
}


async def create(front: Front, key: str = TEST, **changes: Any) -> Any:
    """Register an endpoint."""
    response = await front.ask("POST", PATH, key, json=REQUESTED | changes)
    assert response.status == 201, response.body
    return response.json


async def ask_each(front: Front, endpoint_id: str, key: str) -> list[Response]:
    """Ask every route of one endpoint."""
    one, window = f"{PATH}/{endpoint_id}", {"from": "2026-11-20T00:00:00Z", "to": "2026-11-21T00:00:00Z"}
    return [
        await front.ask("GET", one, key),
        await front.ask("PATCH", one, key, json={"active": False}),
        await front.ask("POST", f"{one}/rotate-secret", key, json={"secret": OTHER_SECRET}),
        await front.ask("POST", f"{one}/test", key),
        await front.ask("POST", f"{one}/replay", key, json=window),
        await front.ask("GET", f"{one}/deliveries", key),
        await front.ask("DELETE", one, key),
    ]


async def rows(front: Front) -> list[AuditEvent]:
    """What the audit log tells of endpoints."""
    return list(await front.stores.audit_log.page(ACME, AuditFilter(action="webhook."), limit=50))


async def test_an_endpoint_is_answered_whole_and_without_its_secret(front: Front) -> None:
    response = await front.ask("POST", PATH, json=REQUESTED | {"description": "the first"})

    shown = response.json
    assert (response.status, shown.pop("endpoint_id")[:4], shown.pop("created_at")[-1]) == (201, "whe_", "Z")
    assert shown == {
        "url": "https://receiver.example/hooks",
        "event_types": ["verification.completed"],
        "active": True,
        "livemode": False,
        "description": "the first",
        "disabled_reason": None,
        "last_success_at": None,
        "secret_rotated_at": None,
    }


async def test_a_replayed_key_answers_the_first_endpoint(front: Front) -> None:
    given: Json = {"headers": {"Idempotency-Key": "one"}, "json": REQUESTED}

    first = await front.ask("POST", PATH, **given)
    await front.ask("PATCH", f"{PATH}/{first.json['endpoint_id']}", json={"active": False})
    again = await front.ask("POST", PATH, **given)

    assert (first.status, again.status, again.headers["Idempotent-Replayed"]) == (201, 200, "true")
    assert again.json == first.json


@pytest.mark.parametrize("changes", [{"secret": OTHER_SECRET}, {"event_types": ["*"]}])
async def test_a_key_used_for_another_body_is_refused(front: Front, changes: Json) -> None:
    headers = {"Idempotency-Key": "one"}
    await front.ask("POST", PATH, headers=headers, json=REQUESTED)

    response = await front.ask("POST", PATH, headers=headers, json=REQUESTED | changes)

    assert (response.status, response.code) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_a_request_that_failed_leaves_its_key_free(front: Front) -> None:
    headers = {"Idempotency-Key": "one"}
    await front.ask("POST", PATH, headers=headers, json=REQUESTED | {"url": "http://receiver.example"})

    assert (await front.ask("POST", PATH, headers=headers, json=REQUESTED)).status == 201


WRONG: dict[str, tuple[Json, str, str]] = {
    "url of http": ({"url": "http://receiver.example/"}, UNUSABLE, "/url"),
    "url of this machine": ({"url": "https://127.0.0.1/"}, UNUSABLE, "/url"),
    "url of the metadata address": ({"url": "https://169.254.169.254/"}, UNUSABLE, "/url"),
    "url in decimal": ({"url": "https://2130706433/"}, UNUSABLE, "/url"),
    "url of a mapped address": ({"url": "https://[::ffff:10.0.0.1]/"}, UNUSABLE, "/url"),
    "url with a password": ({"url": "https://a:b@receiver.example/"}, UNUSABLE, "/url"),
    "url with a fragment": ({"url": "https://receiver.example/#a"}, UNUSABLE, "/url"),
    "url empty": ({"url": ""}, UNUSABLE, "/url"),
    "url a number": ({"url": 7}, V, "/url"),
    "url very long": ({"url": "https://receiver.example/" + "a" * 5_000}, V, "/url"),
    "secret short": ({"secret": "s" * 23}, UNUSABLE, "/secret"),
    "secret long": ({"secret": "s" * 65}, UNUSABLE, "/secret"),
    "secret short in base64": (
        {"secret": "whsec_" + base64.b64encode(b"s" * 23).decode()}, UNUSABLE, "/secret",
    ),
    "secret no base64": ({"secret": "whsec_" + "!" * 40}, UNUSABLE, "/secret"),
    "secret a number": ({"secret": 7}, V, "/secret"),
    "secret null": ({"secret": None}, V, "/secret"),
    "types none": ({"event_types": []}, UNUSABLE, "/event_types"),
    "types unknown": ({"event_types": ["ping", "verification.complete"]}, UNUSABLE, "/event_types/1"),
    "types a number": ({"event_types": [7]}, UNUSABLE, "/event_types/0"),
    "types everything and more": ({"event_types": ["ping", "*"]}, UNUSABLE, "/event_types"),
    "types very many": ({"event_types": ["ping"] * 101}, V, "/event_types"),
    "types a text": ({"event_types": "*"}, V, "/event_types"),
    "description long": ({"description": "d" * 201}, V, "/description"),
    "livemode of the other kind": ({"livemode": True}, V, "/livemode"),
    "livemode a text": ({"livemode": "false"}, V, "/livemode"),
    "a field nobody knows": ({"active": True}, V, "/active"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "code", "pointer"), WRONG.values(), ids=WRONG.keys())
async def test_an_unusable_endpoint_is_refused_at_its_place(
    front: Front, changes: Json, code: str, pointer: str
) -> None:
    response = await front.ask("POST", PATH, json=REQUESTED | changes)

    assert (response.status, response.pointers) == (422, {pointer: code})
    assert SECRET.encode() not in response.body


@pytest.mark.parametrize("missing", REQUESTED)
async def test_what_an_endpoint_needs_must_be_there(front: Front, missing: str) -> None:
    body = {name: value for name, value in REQUESTED.items() if name != missing}

    assert (await front.ask("POST", PATH, json=body)).pointers == {f"/{missing}": V}


async def test_every_complaint_of_a_body_is_reported_at_once(front: Front) -> None:
    response = await front.ask("POST", PATH, json=REQUESTED | {"secret": "short", "event_types": ["nothing"]})

    assert response.code == UNUSABLE
    assert response.pointers == {"/secret": UNUSABLE, "/event_types/0": UNUSABLE}


async def test_repeated_types_count_once(front: Front) -> None:
    assert (await create(front, event_types=["ping", "flow.archived", "ping"]))["event_types"] == [
        "ping", "flow.archived"
    ]  # fmt: skip


async def test_the_twenty_first_endpoint_is_refused_also_when_all_come_at_once(front: Front) -> None:
    responses = await asyncio.gather(
        *(front.ask("POST", PATH, json=REQUESTED) for _ in range(MOST_ENDPOINTS + 4))
    )

    refused = [one for one in responses if one.status != 201]
    assert [one.status for one in refused] == [422] * 4
    assert refused[0].pointers == {"/url": UNUSABLE}
    assert len((await front.ask("GET", PATH)).json["endpoints"]) == MOST_ENDPOINTS


async def test_a_development_setting_allows_receivers_on_this_machine() -> None:
    async with open_front(webhooks_allow_insecure=True) as front:
        assert (await create(front, url="http://127.0.0.1:8000/in"))["url"] == "http://127.0.0.1:8000/in"


async def test_a_key_makes_and_sees_endpoints_of_its_own_mode(front: Front) -> None:
    made = [await create(front, key) for key in (TEST, LIVE)]

    shown = [(await front.ask("GET", PATH, key)).json["endpoints"] for key in (TEST, LIVE)]

    assert [one["livemode"] for one in made] == [False, True]
    assert shown == [[made[0]], [made[1]]]


async def test_a_reviewer_chooses_the_mode_and_sees_both(front: Front) -> None:
    person = await front.sign_in(Role.AUDITOR)
    made = [
        (await person.ask("POST", PATH, json=REQUESTED | changes)).json
        for changes in ({}, {"livemode": False})
    ]

    async def listed(query: str) -> list[Any]:
        return [one["endpoint_id"] for one in (await person.ask("GET", PATH + query)).json["endpoints"]]

    live, test = [one["endpoint_id"] for one in made]
    assert [one["livemode"] for one in made] == [True, False]
    assert await listed("") == [test, live]
    assert (await listed("?livemode=true"), await listed("?livemode=false")) == ([live], [test])


@pytest.mark.parametrize("key", [LIVE, FOREIGN])
async def test_an_endpoint_of_the_other_mode_or_of_another_tenant_is_nowhere(front: Front, key: str) -> None:
    made = await create(front)

    result = await ask_each(front, made["endpoint_id"], key)

    assert {(one.status, one.code) for one in result} == {(404, "NOT_FOUND")}
    assert (await front.ask("GET", f"{PATH}/{made['endpoint_id']}")).json == made


async def test_a_list_goes_on_with_its_cursor_and_with_no_other(front: Front) -> None:
    made = [(await create(front))["endpoint_id"] for _ in range(5)]
    shown: list[str] = []
    cursor = ""
    while len(shown) < 5:
        response = (await front.ask("GET", f"{PATH}?limit=2{cursor}")).json
        shown += [one["endpoint_id"] for one in response["endpoints"]]
        cursor = f"&cursor={response['next_cursor']}"

    foreign = await front.ask("GET", f"{PATH}?limit=2{cursor[:-4]}AAAA", FOREIGN)

    assert sorted(shown) == sorted(made)
    assert (response["next_cursor"], foreign.code) == (None, "CURSOR_INVALID")


async def test_a_change_changes_what_it_names(front: Front) -> None:
    made = await create(front, description="before")
    one = f"{PATH}/{made['endpoint_id']}"

    response = await front.ask("PATCH", one, json={"url": "https://other.example", "description": None})

    assert response.json == made | {"url": "https://other.example/", "description": None}
    assert (await front.ask("PATCH", one, json={})).json == response.json


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"url": None}, V, "/url"),
        ({"url": "http://receiver.example"}, UNUSABLE, "/url"),
        ({"event_types": None}, V, "/event_types"),
        ({"event_types": []}, UNUSABLE, "/event_types"),
        ({"active": None}, V, "/active"),
        ({"active": 1}, V, "/active"),
        ({"secret": SECRET}, V, "/secret"),
        ({"livemode": True}, V, "/livemode"),
    ],
)
async def test_a_change_that_cannot_be_is_refused_at_its_place(
    front: Front, changes: Json, code: str, pointer: str
) -> None:
    made = await create(front)
    one = f"{PATH}/{made['endpoint_id']}"

    assert (await front.ask("PATCH", one, json=changes)).pointers == {pointer: code}
    assert (await front.ask("GET", one)).json == made


async def test_a_rotation_shows_its_time_and_no_secret(front: Front) -> None:
    one = f"{PATH}/{(await create(front))['endpoint_id']}"

    response = await front.ask(
        "POST", f"{one}/rotate-secret", json={"secret": OTHER_SECRET, "overlap_seconds": 86_400}
    )

    assert response.status == 200
    assert response.json["secret_rotated_at"] >= response.json["created_at"]
    assert OTHER_SECRET.encode() not in response.body


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({}, V, "/secret"),
        ({"secret": "short"}, UNUSABLE, "/secret"),
        ({"secret": SECRET, "overlap_seconds": 86_401}, V, "/overlap_seconds"),
        ({"secret": SECRET, "overlap_seconds": -1}, V, "/overlap_seconds"),
        ({"secret": SECRET, "overlap_seconds": 1.5}, V, "/overlap_seconds"),
        ({"secret": SECRET, "overlap_seconds": None}, V, "/overlap_seconds"),
    ],
)
async def test_a_rotation_that_cannot_be_is_refused_at_its_place(
    front: Front, body: Json, code: str, pointer: str
) -> None:
    one = f"{PATH}/{(await create(front))['endpoint_id']}"

    assert (await front.ask("POST", f"{one}/rotate-secret", json=body)).pointers == {pointer: code}


async def test_a_deleted_endpoint_is_nowhere_and_can_be_deleted_again(front: Front) -> None:
    made = await create(front)
    one = f"{PATH}/{made['endpoint_id']}"

    responses = [(await front.ask("DELETE", one)).status for _ in range(2)]

    assert responses == [204, 204]
    assert {answer.status for answer in (await ask_each(front, made["endpoint_id"], TEST))[:-1]} == {404}
    assert (await front.ask("GET", PATH)).json == {"endpoints": [], "next_cursor": None}


async def test_an_unknown_endpoint_cannot_be_deleted(front: Front) -> None:
    assert (await front.ask("DELETE", f"{PATH}/{derive_id('whe', 'nobody')}")).status == 404


async def test_each_act_is_one_row_of_the_one_who_did_it(front: Front) -> None:
    person = await front.sign_in(Role.DEVELOPER)
    one = f"{PATH}/{(await person.ask('POST', PATH, json=REQUESTED)).json['endpoint_id']}"
    await person.ask("PATCH", one, json={"active": False})
    await person.ask("POST", f"{one}/rotate-secret", json={"secret": OTHER_SECRET})
    await person.ask("DELETE", one)

    result = await rows(front)

    actions = ["webhook.created", "webhook.updated", "webhook.rotated", "webhook.deleted"]
    assert sorted(row.action for row in result) == sorted(actions)
    assert {(row.actor_id, row.subject_id) for row in result} == {
        (person.member.reviewer_id, one.rsplit("/", 1)[1])
    }


async def test_s39_no_answer_log_line_or_row_holds_a_secret(front: Front, logged: io.StringIO) -> None:
    made = await create(front)
    result = await ask_each(front, made["endpoint_id"], TEST)
    result.append(await front.ask("POST", PATH, json=REQUESTED | {"event_types": []}))
    result.append(await front.ask("POST", PATH, json=REQUESTED | {"secret": SECRET * 2}))

    seen = b"".join(one.body for one in result).decode() + logged.getvalue()
    seen += "".join(row.model_dump_json() for row in await rows(front))

    assert [one for one in (SECRET, OTHER_SECRET, OTHER_SECRET[6:]) if one in seen] == []


async def test_a_store_that_fails_is_reported_as_the_interface_says(front: Front) -> None:
    front.keys.failing = StoreUnavailable("away")

    response = await front.ask("POST", PATH, json=REQUESTED)

    assert (response.status, response.code) == (500, "STORE_FAILED")


async def test_an_answer_has_the_form_that_is_described(front: Front) -> None:
    made = await create(front)
    document = (await front.ask("GET", "/v1/openapi.json")).json
    schema = {"$ref": "#/components/schemas/WebhookEndpoint"}

    assert [*Schemas(document).complaints(made, schema), *Schemas(document).undeclared(made, schema)] == []
