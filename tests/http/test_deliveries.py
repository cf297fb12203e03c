"""The delivery log over HTTP: pings, what receivers answered, and deliveries begun anew."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.audit import AuditFilter
from schemas.base import rfc3339
from schemas.ids import EndpointId, EventId, derive_id
from schemas.problems import StoreUnavailable
from schemas.webhooks import Attempt, DeliveryStatus, FailureKind, ReplayEvents, StoredEndpoint
from streams.ports.records import Change, RecordKind
from streams.webhooks.records import delivery_records, fresh
from tests.builders import ACME, build_decision_event
from tests.http.json_schema import Schemas
from tests.http.support import FOREIGN, LIVE, TEST, Front, Json, Response, now
from tests.http.test_webhooks import PATH, create

DELIVERIES = "/v1/webhooks/deliveries"
ANSWERED = "what the receiver answered"


async def failed(front: Front, endpoint: Any, name: str = "first", answer: str = ANSWERED) -> str:
    """A delivery whose schedule ended without a success."""
    stored = await front.stores.records.get(ACME, RecordKind.WEBHOOK_ENDPOINT, endpoint["endpoint_id"])
    event = build_decision_event(id=EventId(derive_id("evt", name)), livemode=endpoint["livemode"])
    begun = fresh(event, StoredEndpoint.from_bytes(stored.body), now())
    attempt = Attempt(
        number=1, at=now(), latency_ms=12, status=500, failure=FailureKind.STATUS, answer=answer
    )
    changes = {"status": DeliveryStatus.FAILED, "attempts": (attempt,), "next_attempt_at": None}
    ended = begun.model_copy(update={"delivery": begun.delivery.model_copy(update=changes), "step": 10})
    await front.stores.journal.commit(Change(ACME, delivery_records(ended, None)))
    return ended.delivery.delivery_id


def window(hours: float = 24, changes: Json | None = None) -> Json:
    """The last hours."""
    moment = datetime.now(UTC)
    return {"from": rfc3339(moment - timedelta(hours=hours)), "to": rfc3339(moment)} | (changes or {})


async def replay_range(front: Front, endpoint: Any, body: Any = None, **headers: str) -> Response:
    """Deliver the events of a time once more."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    path = f"{PATH}/{endpoint['endpoint_id']}/replay"
    return await front.ask("POST", path, json=body or window(), headers=named)


async def replayed(front: Front) -> int:
    """How many rows tell of a replay."""
    chosen = AuditFilter(action="webhook.replayed")
    return len(await front.stores.audit_log.page(ACME, chosen, limit=50))


async def test_a_test_is_answered_with_the_delivery_of_its_ping(front: Front) -> None:
    endpoint = await create(front)

    response = await front.ask("POST", f"{PATH}/{endpoint['endpoint_id']}/test")

    shown = response.json
    assert (response.status, shown["event_type"], shown["status"]) == (202, "ping", "PENDING")
    assert shown["endpoint_id"] == endpoint["endpoint_id"]
    assert (await front.ask("GET", f"{DELIVERIES}/{shown['delivery_id']}")).json == shown


async def test_a_test_sent_again_with_its_key_is_one_ping(front: Front) -> None:
    path = f"{PATH}/{(await create(front))['endpoint_id']}/test"
    given: Json = {"headers": {"Idempotency-Key": "one"}}

    first, again = [await front.ask("POST", path, **given) for _ in range(2)]

    assert (again.status, again.headers.get("Idempotent-Replayed"), again.json) == (202, "true", first.json)


async def test_a_delivery_shows_what_was_answered_and_a_list_does_not(front: Front) -> None:
    endpoint = await create(front)
    delivery_id = await failed(front, endpoint)

    one = (await front.ask("GET", f"{DELIVERIES}/{delivery_id}")).json
    [row] = (await front.ask("GET", f"{PATH}/{endpoint['endpoint_id']}/deliveries")).json["deliveries"]

    [attempt] = one["attempts"]
    assert (attempt["status"], attempt["latency_ms"], attempt["answer"]) == (500, 12, ANSWERED)
    assert row == one | {"attempts": [attempt | {"answer": None}]}


async def test_deliveries_are_listed_by_page_and_status(front: Front) -> None:
    endpoint = await create(front)
    path = f"{PATH}/{endpoint['endpoint_id']}/deliveries"
    made = [await failed(front, endpoint, f"event {number}") for number in range(3)]
    await front.ask("POST", f"{DELIVERIES}/{made[0]}/replay")

    first = (await front.ask("GET", f"{path}?limit=1&status=FAILED")).json
    rest = (await front.ask("GET", f"{path}?status=FAILED&cursor={first['next_cursor']}")).json
    pending = (await front.ask("GET", f"{path}?status=PENDING")).json
    other = await front.ask("GET", f"{path}?cursor={first['next_cursor']}")

    shown = [one["delivery_id"] for one in first["deliveries"] + rest["deliveries"]]
    assert sorted(shown) == sorted(made[1:])
    assert [one["delivery_id"] for one in pending["deliveries"]] == made[:1]
    assert (rest["next_cursor"], other.code) == (None, "CURSOR_INVALID")


async def test_a_status_that_is_none_is_refused(front: Front) -> None:
    path = f"{PATH}/{(await create(front))['endpoint_id']}/deliveries?status=failed"

    response = await front.ask("GET", path)

    assert (response.status, response.code, response.json["errors"][0]["parameter"]) == (
        422,
        "FILTER_INVALID",
        "status",
    )


async def test_a_replay_begins_a_delivery_anew_with_one_row(front: Front) -> None:
    delivery_id = await failed(front, await create(front))

    response = await front.ask("POST", f"{DELIVERIES}/{delivery_id}/replay")

    assert (response.status, response.json["status"], len(response.json["attempts"])) == (202, "PENDING", 1)
    assert (await front.ask("GET", f"{DELIVERIES}/{delivery_id}")).json == response.json
    assert await replayed(front) == 1


@pytest.mark.parametrize("key", [LIVE, FOREIGN])
async def test_a_delivery_of_the_other_mode_or_of_another_tenant_is_nowhere(front: Front, key: str) -> None:
    one = f"{DELIVERIES}/{await failed(front, await create(front))}"

    responses = [await front.ask("GET", one, key), await front.ask("POST", f"{one}/replay", key)]

    assert [answer.status for answer in responses] == [404, 404]


async def test_a_deleted_endpoints_deliveries_are_nowhere(front: Front) -> None:
    endpoint = await create(front)
    one = f"{DELIVERIES}/{await failed(front, endpoint)}"
    await front.ask("DELETE", f"{PATH}/{endpoint['endpoint_id']}")

    responses = [await front.ask("GET", one), await front.ask("POST", f"{one}/replay")]

    assert [answer.status for answer in responses] == [404, 404]


async def test_nothing_is_sent_to_an_endpoint_that_is_not_active(front: Front) -> None:
    endpoint = await create(front)
    one, delivery_id = f"{PATH}/{endpoint['endpoint_id']}", await failed(front, endpoint)
    await front.ask("PATCH", one, json={"active": False})

    responses = [
        await front.ask("POST", f"{one}/test"),
        await front.ask("POST", f"{DELIVERIES}/{delivery_id}/replay"),
        await replay_range(front, endpoint),
    ]

    assert [(answer.status, answer.code) for answer in responses] == [(422, "WEBHOOK_ENDPOINT_UNUSABLE")] * 3


async def test_a_range_is_handed_to_the_endpoints_actor(front: Front) -> None:
    endpoint = await create(front)
    body = window(changes={"event_types": ["flow.published"]})

    response = await replay_range(front, endpoint, body)

    [record] = front.log.records
    command = ReplayEvents.from_bytes(record.value or b"")
    assert (response.status, response.json) == (202, {"endpoint_id": endpoint["endpoint_id"], **body})
    assert (record.key, rfc3339(command.since)) == (endpoint["endpoint_id"].encode(), body["from"])
    assert await replayed(front) == 1


async def test_a_range_is_of_the_endpoints_own_types_unless_it_says_otherwise(front: Front) -> None:
    response = await replay_range(front, await create(front, event_types=["ping", "flow.archived"]))

    assert response.json["event_types"] == ["ping", "flow.archived"]


async def test_a_log_that_is_away_fails_the_request_and_its_key_finishes_it(front: Front) -> None:
    endpoint, body = await create(front), window()
    front.log.failing = StoreUnavailable("no broker")
    away = await replay_range(front, endpoint, body, Idempotency_Key="one")
    front.log.failing = None

    responses = [await replay_range(front, endpoint, body, Idempotency_Key="one") for _ in range(2)]

    assert (away.status, away.code) == (500, "STORE_FAILED")
    assert [(one.status, one.headers.get("Idempotent-Replayed")) for one in responses] == [(202, "true")] * 2
    assert (len(front.log.records), await replayed(front)) == (1, 1)


async def test_a_key_used_for_another_range_is_refused(front: Front) -> None:
    endpoint = await create(front)
    await replay_range(front, endpoint, window(2), Idempotency_Key="one")

    response = await replay_range(front, endpoint, window(3), Idempotency_Key="one")

    assert (response.status, response.code) == (422, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (window(24 * 30 + 1), "/from"),
        (window(-1), "/to"),
        (window(changes={"from": "yesterday"}), "/from"),
        (window(changes={"from": "2026-11-20"}), "/from"),
        (window(changes={"to": 1_700_000_000}), "/to"),
        (window(changes={"to": None}), "/to"),
        (window(changes={"since": "2026-11-20T00:00:00Z"}), "/since"),
    ],
)
async def test_a_range_that_cannot_be_is_refused_at_its_place(front: Front, body: Any, pointer: str) -> None:
    response = await replay_range(front, await create(front), body)

    assert (response.status, response.pointers) == (422, {pointer: "VALIDATION_FAILED"})


@pytest.mark.parametrize("types", [[], ["nothing"], ["*", "ping"]])
async def test_a_range_of_types_that_cannot_be_is_refused(front: Front, types: list[str]) -> None:
    response = await replay_range(front, await create(front), window(changes={"event_types": types}))

    assert (response.status, response.code) == (422, "WEBHOOK_ENDPOINT_UNUSABLE")


async def test_answers_have_the_form_that_is_described(front: Front) -> None:
    endpoint = await create(front)
    delivery_id = await failed(front, endpoint)
    document = (await front.ask("GET", "/v1/openapi.json")).json
    responses = {
        "Delivery": await front.ask("GET", f"{DELIVERIES}/{delivery_id}"),
        "DeliveryList": await front.ask("GET", f"{PATH}/{endpoint['endpoint_id']}/deliveries"),
        "EndpointList": await front.ask("GET", PATH),
        "ReplayedRange": await replay_range(front, endpoint),
    }

    schemas = Schemas(document)
    for name, answer in responses.items():
        schema = {"$ref": f"#/components/schemas/{name}"}
        assert [*schemas.complaints(answer.json, schema), *schemas.undeclared(answer.json, schema)] == []


async def test_an_unknown_endpoint_has_no_deliveries(front: Front) -> None:
    unknown = EndpointId(derive_id("whe", "nobody"))

    assert (await front.ask("GET", f"{PATH}/{unknown}/deliveries", TEST)).status == 404
