"""What a downstream system does with the decision topic, and the feed it is held against."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # ships no types

from schemas.topics import Topic
from tests.journeys.service import Service, small_request, veristream_json

Json = dict[str, Any]

SUBJECTS = ("sim:approved", "sim:warn", "sim:review", "sim:reject:DOCUMENT_EXPIRED", "sim:fail")

PATIENCE_S = 180.0


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of the topic, as any client gives it."""

    key: bytes
    value: bytes

    @property
    def event(self) -> Json:
        """What it says."""
        found: Json = json.loads(self.value)
        return found


@dataclass(slots=True)
class Member:
    """A member of a plain consumer group, which keeps all it is given."""

    client: Mapping[str, Any]
    """Where the brokers are and who signs in, in aiokafka's words."""
    group: str
    found: list[TopicRecord] = field(default_factory=list)
    _consumer: Any = None
    _reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Join the group; where it has read nothing yet it begins at the beginning."""
        self._consumer = AIOKafkaConsumer(
            str(Topic.DECISIONS),
            **self.client,
            group_id=self.group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            session_timeout_ms=60_000,
        )
        await self._consumer.start()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the group, and say how far it has read."""
        assert self._reading is not None
        self._reading.cancel()
        await asyncio.wait([self._reading])
        await self._consumer.stop()

    @property
    def partitions(self) -> int:
        """How many partitions are its own now."""
        return len(self._consumer.assignment())

    async def _read(self) -> None:
        async for record in self._consumer:
            self.found.append(TopicRecord(record.key, record.value))


async def new_reader(service: Service, name: str) -> Json:
    """Make a user of the embedded broker as an operator does, and return what the command prints."""
    made: Json = await veristream_json(service.data_dir, "broker-user", "create", name)
    return made


def client_of(made: Json) -> Json:
    """Return what the command printed in aiokafka's words."""
    return {
        "bootstrap_servers": made["bootstrap"],
        "security_protocol": made["security_protocol"],
        "sasl_mechanism": made["mechanism"],
        "sasl_plain_username": made["user"],
        "sasl_plain_password": made["password"],
    }


async def decide(service: Service, key: str, count: int, name: str) -> None:
    """Let sandbox verifications of several outcomes be decided at once, of subjects with a name."""
    subjects = [f"{SUBJECTS[n % len(SUBJECTS)]}@{name}-{n}" for n in range(count)]
    answers = await asyncio.gather(*(service.post(small_request(one), key=key) for one in subjects))
    assert {status for status, _, _ in answers} == {201}


def events_for(count: int) -> int:
    """How many events so many of them come to: two each, and a case for each review."""
    return 2 * count + len(range(SUBJECTS.index("sim:review"), count, len(SUBJECTS)))


async def feed(service: Service, key: str, name: str = "", after: str | None = None) -> list[Json]:
    """Every event of a key's feed about subjects of a name, page after page."""
    found: list[Json] = []
    asked = {"limit": "7", **({} if after is None else {"after": after})}
    while True:
        status, page = await service.get("/v1/events", key=key, **asked)
        assert status == 200, page
        found += [event for event in page["events"] if is_about(event, name)]
        if page["next_cursor"] is None:
            return found
        asked["cursor"] = page["next_cursor"]


def is_about(event: Json, name: str) -> bool:
    """Whether an event is about a subject of the name; see `decide`."""
    return f"@{name}" in event["data"].get("subject_id", "")


def by_id(response: Iterable[TopicRecord], name: str) -> dict[str, Json]:
    """The events of the topic about subjects of a name; one that is there twice says the same twice."""
    found: dict[str, Json] = {}
    for event in (one.event for one in response):
        if is_about(event, name):
            assert found.setdefault(event["id"], event) == event
    return found


async def agree(members: Sequence[Member], name: str, wanted: Mapping[str, Json]) -> None:
    """Wait until the members have every wanted event between them, and see nothing else of the name."""
    async with asyncio.timeout(PATIENCE_S):
        while not wanted.keys() <= _all(members, name).keys():  # noqa: ASYNC110 - other tasks read
            await asyncio.sleep(0.05)
    assert _all(members, name) == wanted


def _all(members: Sequence[Member], name: str) -> dict[str, Json]:
    return by_id((one for member in members for one in member.found), name)
