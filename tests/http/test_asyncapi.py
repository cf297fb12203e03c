"""The description of the decision topic says what is in it (G73)."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.asyncapi import describe_decisions
from schemas.base import to_milliseconds
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import EventId, derive_id
from schemas.topics import TOPICS, Topic
from streams.runtime.event_publisher import decision_record
from tests.builders import ACME, build_decision_event
from tests.http.json_schema import Schemas
from tests.http.session_steps import FLOWS, open_page, publish_flow
from tests.http.support import Front, Json, build_body

PATH = "/v1/asyncapi.json"
SUBJECTS = ["sim:approved", "sim:warn", "sim:review", "sim:reject", "sim:fail"]
PAYLOAD = {"$ref": "#/components/schemas/DecisionEvent"}
KEY = {"$ref": "#/components/schemas/DecisionKey"}


@pytest.fixture
async def document(front: Front) -> Json:
    """The description as anybody reads it."""
    found: Json = (await front.ask("GET", PATH, None)).json
    return found


def references(value: Any) -> Iterator[str]:
    """Every reference of a document."""
    if isinstance(value, dict):
        yield from (one for name, one in value.items() if name == "$ref")
        yield from (found for one in value.values() for found in references(one))
    elif isinstance(value, list):
        yield from (found for one in value for found in references(one))


def complaints(document: Json, event: DecisionEvent) -> list[str]:
    """What is wrong with the record of an event, by the description."""
    record, schemas = decision_record(event), Schemas(document)
    assert record.key is not None
    assert record.value is not None
    value = json.loads(record.value)
    wrong = [*schemas.complaints(value, PAYLOAD), *schemas.complaints(record.key.decode(), KEY)]
    return [*wrong, *schemas.undeclared(value, PAYLOAD)]


async def test_it_describes_the_topic_as_it_is_made(document: Json) -> None:
    spec = next(spec for spec in TOPICS if spec.topic is Topic.DECISIONS)
    channel = document["channels"]["decisions"]
    kafka = channel["bindings"]["kafka"]

    assert document["asyncapi"] == "3.0.0"
    assert (channel["address"], kafka["topic"]) == (spec.topic, spec.topic)
    assert kafka["partitions"] == spec.partitions
    assert kafka["topicConfiguration"]["retention.ms"] == spec.retention_ms


async def test_every_reference_leads_somewhere(document: Json) -> None:
    for reference in references(document):
        found: Any = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        assert isinstance(found, dict)


async def test_the_payload_of_the_channel_is_the_event(document: Json) -> None:
    message = document["components"]["messages"]["decision"]
    (operation,) = document["operations"].values()

    assert message["payload"] == PAYLOAD
    assert message["bindings"]["kafka"]["key"] == KEY
    assert operation["messages"] == [{"$ref": "#/channels/decisions/messages/decision"}]


async def test_it_says_what_a_consumer_must_know(document: Json) -> None:
    said = document["info"]["description"]

    assert [
        word for word in ("at least once", "`id`", "`sequence`", "ignore those") if word not in said
    ] == []


async def test_it_is_the_same_each_time(front: Front) -> None:
    first, second = [await front.ask("GET", PATH, None) for _ in range(2)]

    assert first.body == second.body


async def test_it_needs_no_credential_and_minds_none(front: Front) -> None:
    assert [(await front.ask("GET", PATH, key)).status for key in (None, "nonsense")] == [200, 200]


async def test_whatever_is_reported_is_as_described(front: Front, document: Json) -> None:
    owner = await front.sign_in()
    flow_id = await publish_flow(owner)
    for subject in SUBJECTS:
        await front.submit(build_body(subject))
    page = await open_page(front, flow_id)
    await page.consent()
    cases = (await owner.ask("GET", "/v1/control/review-cases")).json["review_cases"]
    await owner.ask("POST", f"/v1/control/review-cases/{cases[0]['review_case_id']}/claim", json={})
    await owner.ask("POST", f"{FLOWS}/{flow_id}/archive")

    events = list(front.shelves.events.values())
    assert len({event.type for event in events}) >= 10
    assert {event.id: found for event in events if (found := complaints(document, event))} == {}


@given(event=st.builds(
    build_decision_event,
    type=st.sampled_from(EventType),
    livemode=st.booleans(),
    sequence=st.integers(1, 2**40),
    timestamp=st.datetimes(timezones=st.timezones()).map(to_milliseconds),
    data=st.builds(
        EventData,
        subject_id=st.none() | st.from_regex(r"[A-Za-z0-9._:@-]{1,128}", fullmatch=True),
        flow_id=st.none() | st.just(derive_id("vf", "x")),
    ),
))  # fmt: skip
def test_whatever_could_be_reported_is_as_described(event: DecisionEvent) -> None:
    assert complaints(describe_decisions(), event) == []


@pytest.mark.parametrize(
    "change",
    [{"id": None}, {"type": "x"}, {"sequence": "1"}, {"livemode": 1}, {"data": {"reason_codes": "X"}}],
)
async def test_what_is_no_event_is_not_as_described(document: Json, change: Json) -> None:
    value = json.loads(build_decision_event().to_bytes()) | change
    given = {name: one for name, one in value.items() if one is not None}

    assert [*Schemas(document).complaints(given, PAYLOAD)] != []


async def test_a_field_that_comes_later_is_no_mistake(document: Json) -> None:
    value = json.loads(build_decision_event().to_bytes())
    value["data"]["new"], value["new"] = 1, 2

    assert [*Schemas(document).complaints(value, PAYLOAD)] == []


async def test_every_type_is_listed(document: Json) -> None:
    assert document["components"]["schemas"]["EventType"]["enum"] == [*EventType]


@pytest.mark.parametrize("about", ["subject_id", "flow_id", "endpoint_id", "review_case_id"])
async def test_a_key_is_of_the_form_that_is_described(document: Json, about: str) -> None:
    event = build_decision_event(id=EventId(derive_id("evt", about)), data=EventData(**{about: "x-1"}))
    key = decision_record(event).key or b""

    assert re.search(document["components"]["schemas"]["DecisionKey"]["pattern"], key.decode())
    assert key.decode() == f"{ACME}:" + ("" if about == "review_case_id" else "x-1")
