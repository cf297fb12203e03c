"""Issue 13.7: who reaches the broker without a key has nothing carried out, on any topic, either engines.

A front and a worker run as processes; the records under attack are those they wrote themselves.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from schemas.base import rfc3339
from schemas.ids import TenantId
from schemas.reviews import CaseCommand, ConcludeCase
from schemas.topics import Topic
from streams.runtime.authentication import AUTHENTICATION, FAILED, Unauthentic, require_fresh
from streams.runtime.dead_letters import dead_letter, list_dead_letters
from streams.runtime.event_publisher import seal_record
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.message import Delivery
from streams.runtime.producer import LogWriter
from streams.runtime.tables import partitions_of
from tests.chaos.engines_profile import Engines
from tests.chaos.fleet import Embedded, Fleet, Profile, running_fleet
from tests.chaos.load import open_client
from tests.chaos.logs import deliveries_in, until_caught_up
from tests.journeys.people import Person, sign_in
from tests.journeys.service import Role, small_request
from tests.journeys.test_sessions import publish_flow
from tests.security.intruder import Intruder, forgeries, open_intruder
from tests.webhook_receiver import Receiver, open_receiver

pytestmark = pytest.mark.asyncio(loop_scope="session")

ACTED_ON: Final = (
    Topic.VERIFICATION_COMMANDS, Topic.FLOW_COMMANDS, Topic.SESSION_COMMANDS, Topic.REVIEW_COMMANDS,
    Topic.WEBHOOK_DELIVERIES, Topic.DECISIONS, Topic.AUDIT,
)  # fmt: skip
"""Every topic of which an agent of ours does what it says."""

NO_DELAY: Final = {"SERVICE_WEBHOOKS_ALLOW_INSECURE": "true"}


@dataclass(slots=True)
class Scene:
    """A deployment in which something of everything happened, and an intruder at its broker."""

    fleet: Fleet
    client: ClientSession
    front: Role
    worker: Role
    owner: Person
    lead: Person
    receiver: Receiver
    intruder: Intruder
    case_id: str
    verification_id: str
    flow_id: str
    session_id: str
    endpoint_id: str
    busy_case_id: str
    """A case the lead wanted to conclude while it was the owner's; that was refused."""

    @property
    def access(self) -> LogAccess:
        """How the log is reached."""
        return self.fleet.profile.access

    async def with_key(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Ask with the tenant's test key."""
        headers = {"Authorization": f"Bearer {self.fleet.test_key}"}
        async with self.client.request(method, f"{self.front.url}{path}", headers=headers, **more) as answer:
            return answer.status, await answer.json(content_type=None)

    async def genuine(self, topic: Topic) -> list[Delivery]:
        """Every record of a topic that the deployment wrote."""
        found = await deliveries_in(self.fleet.profile.access, topic)
        return [one for one in found if AUTHENTICATION in one.headers]

    async def quiet(self) -> None:
        """Wait until every agent has settled every record."""
        for topic in ACTED_ON:
            await until_caught_up(self.fleet.profile.access, topic)

    async def standing(self) -> dict[str, Any]:
        """Everything an act would change, as the interface and the receiver tell it."""
        paths = {
            "case": f"/v1/control/review-cases/{self.case_id}",
            "busy": f"/v1/control/review-cases/{self.busy_case_id}",
            "flow": f"/v1/verification-flows/{self.flow_id}",
            "revisions": f"/v1/verification-flows/{self.flow_id}/revisions",
        }
        observed = {name: (await self.owner.ask("GET", path))[1] for name, path in paths.items()}
        stored = {
            "verification": f"/v1/verifications/{self.verification_id}",
            "verifications": "/v1/verifications?limit=100",
            "session": f"/v1/verification-sessions/{self.session_id}",
            "deliveries": f"/v1/webhooks/endpoints/{self.endpoint_id}/deliveries?limit=100",
        }
        observed |= {name: (await self.with_key("GET", path))[1] for name, path in stored.items()}
        _, audit = await self.with_key("GET", "/v1/audit?limit=200")
        observed["acts"] = Counter(row["action"] for row in audit["events"])
        observed["received"] = len(self.receiver.hits)
        return {name: _without_request_id(one) for name, one in observed.items()}

    async def ends(self) -> Counter[str]:
        """How the records ended that the worker met, by its metrics."""
        url = self.worker.said.partition("(")[2].partition(")")[0]
        async with self.client.get(f"{url}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        name = 'veristream_records_total{end="'
        return Counter(
            {
                line[len(name) :].partition('"')[0]: int(float(line.split()[-1]))
                for line in lines
                if name in line
            }
        )

    async def buried(self) -> dict[tuple[str, int, int], str]:
        """Which records were buried, by where they stood, and why."""
        letters = await list_dead_letters(self.access, self.fleet.record_keys, 10_000)
        return {(d.topic, d.partition, d.offset): one.reason for one in letters for d in [one.delivery]}


def _without_request_id(answer: Any) -> Any:
    """What an answer says; a refusal names its own request, so two that say the same would differ."""
    own = {"request_id", "instance"}
    return {n: v for n, v in answer.items() if n not in own} if type(answer) is dict else answer


@pytest.fixture(scope="module", params=["embedded", pytest.param("engines", marks=pytest.mark.engines)])
def profile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Profile]:
    """The engines, and a folder of their own."""
    folder = tmp_path_factory.mktemp("authenticated")
    if request.param == "engines":
        return folder, Engines(folder, request.getfixturevalue("cassandra"))
    return folder, Embedded(folder)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scene(profile: tuple[Path, Profile]) -> AsyncIterator[Scene]:
    """A deployment on one of the two engine profiles."""
    folder, engines = profile
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(running_fleet(folder, engines, **NO_DELAY))
        client = await stack.enter_async_context(open_client())
        receiver = await stack.enter_async_context(open_receiver())
        front, worker = await asyncio.gather(fleet.front(), fleet.worker("--health-port", "0"))
        owner = await sign_in(client, front.url, fleet.command, fleet.tenant)
        lead = await sign_in(client, front.url, fleet.command, fleet.tenant, "COMPLIANCE_LEAD")
        intruder = await stack.enter_async_context(open_intruder(engines.access))
        made = Scene(fleet, client, front, worker, owner, lead, receiver, intruder, "", "", "", "", "", "")
        await furnish(made)
        yield made


async def furnish(scene: Scene) -> None:
    """Let something of everything happen."""
    endpoint = {
        "url": scene.receiver.url(),
        "event_types": ["*"],
        "secret": "a secret of the tenant's receiver",
    }
    scene.endpoint_id = (await scene.with_key("POST", "/v1/webhooks/endpoints", json=endpoint))[1][
        "endpoint_id"
    ]
    scene.case_id, scene.verification_id = await reviewed(scene, "first")
    scene.busy_case_id, _ = await reviewed(scene, "busy")
    scene.flow_id = await publish_flow(scene.owner, "DOCUMENT")
    opening = {"flow_id": scene.flow_id, "subject_id": "sim:approved@session"}
    status, opened = await scene.with_key("POST", "/v1/verification-sessions", json=opening)
    assert status == 201, opened
    scene.session_id = opened["session_id"]
    for person, case, act, body, expected in (
        (scene.owner, scene.case_id, "claim", {}, 200),
        (scene.owner, scene.case_id, "release", {}, 200),
        (scene.owner, scene.busy_case_id, "claim", {}, 200),
        (scene.lead, scene.busy_case_id, "conclude", {"outcome": "APPROVE", "note": "Same person."}, 409),
        (scene.owner, scene.busy_case_id, "release", {}, 200),
    ):
        status, answer = await person.ask("POST", f"/v1/control/review-cases/{case}/{act}", json=body)
        assert status == expected, (act, answer)
    for name in ("Renamed once", "Renamed twice"):
        path = f"/v1/verification-flows/{scene.flow_id}"
        status, answer = await scene.owner.ask("PATCH", path, json={"name": name}, headers={"If-Match": "*"})
        assert status == 200, answer
    at = datetime.now(UTC)
    again = {"from": rfc3339(at - timedelta(hours=1)), "to": rfc3339(at)}
    status, answer = await scene.with_key(
        "POST", f"/v1/webhooks/endpoints/{scene.endpoint_id}/replay", json=again
    )
    assert status == 202, answer
    async with LogWriter(scene.access, scene.fleet.record_keys) as writer:
        await writer.write(seal_record(TenantId(scene.fleet.tenant)))  # as after an act of a webhook sender
    await scene.quiet()
    await settled(scene)


async def reviewed(scene: Scene, name: str) -> tuple[str, str]:
    """Post a verification that a person must decide."""
    body = small_request(f"sim:review:FACE_MATCH_UNCERTAIN@{name}")
    status, made = await scene.with_key("POST", "/v1/verifications", json=body)
    assert status == 201, made
    return made["review_case_id"], made["verification_id"]


async def settled(scene: Scene) -> dict[str, Any]:
    """Wait until nothing moves any more, deliveries included; return how everything stands."""
    before: dict[str, Any] = {}
    async with asyncio.timeout(180):
        while (standing := await scene.standing()) != before or is_delivering(standing):
            before = standing
            await asyncio.sleep(0.3)
            await scene.quiet()
    return before


def is_delivering(standing: dict[str, Any]) -> bool:
    """Return whether a delivery is still to be attempted."""
    return any(one["status"] == "PENDING" for one in standing["deliveries"]["deliveries"])


async def test_a_conclusion_forged_in_the_owners_name_concludes_nothing(scene: Scene) -> None:
    """The attack of the issue: a well-formed command, its key right, its actor the tenant's owner."""
    before = await settled(scene)
    pattern = next(
        one for one in await scene.genuine(Topic.REVIEW_COMMANDS) if b'"claim"' in (one.value or b"")
    )
    said = json.loads(pattern.value or b"")
    forged = ConcludeCase.model_validate(
        {
            **{name: said[name] for name in ("tenant_id", "review_case_id", "reviewer_id", "requested_at")},
            "actor": {**said["actor"], "request_id": "req_never_seen"},
            "kind": "conclude", "outcome": "APPROVE", "may_overturn": True, "sealed_note": "",
        }
    )  # fmt: skip
    CaseCommand.model_validate_json(forged.to_bytes())

    [offset] = await scene.intruder.write(replace(pattern, value=forged.to_bytes()))
    await scene.quiet()

    assert await settled(scene) == before
    assert (await scene.buried())[pattern.topic, pattern.partition, offset].startswith(FAILED)


async def test_nothing_forged_altered_or_transplanted_is_carried_out_on_any_topic(scene: Scene) -> None:
    before, ends = await settled(scene), await scene.ends()
    answers = len(await deliveries_in(scene.fleet.profile.access, Topic.REPLIES))
    written: set[tuple[str, int, int]] = set()
    for number, topic in enumerate(ACTED_ON):
        other = (await scene.genuine(ACTED_ON[number - 1]))[0]
        genuine = [one for one in await scene.genuine(topic) if is_ours(scene, one)][-1]
        made = forgeries(genuine, other, scene.fleet.record_keys, partitions_of(topic))
        offsets = await scene.intruder.write(*made)
        written |= {(one.topic, one.partition, at) for one, at in zip(made, offsets, strict=True)}
    await scene.quiet()

    after, reasons = await scene.ends(), await scene.buried()
    assert await settled(scene) == before
    assert len(written) >= len(ACTED_ON) * 18
    assert {place: reasons.get(place, "").startswith(FAILED) for place in written} == dict.fromkeys(
        written, True
    )
    assert after["forged"] - ends["forged"] >= len(written)
    assert len(await deliveries_in(scene.fleet.profile.access, Topic.REPLIES)) == answers
    assert {name: after[name] - ends[name] for name in ("answered", "refused", "buried", "replayed")} == {
        "answered": 0, "refused": 0, "buried": 0, "replayed": 0,
    }  # fmt: skip


async def test_forged_and_buried_records_are_never_sent_again(scene: Scene) -> None:
    """An operator who redrives must not sign for an intruder: what was buried or was invented."""
    before = await settled(scene)
    conclusion = next(
        one for one in await scene.genuine(Topic.REVIEW_COMMANDS) if b'"conclude"' in (one.value or b"")
    )
    buried = dead_letter(conclusion, "handler raised KeyError", datetime.now(UTC))
    invented = Delivery(buried.topic, 0, 0, buried.key, buried.value, dict(buried.headers))
    nonsense = replace(invented, headers={"dead-partition": b"\xff", "dead-topic": b"?"})
    await scene.intruder.write(invented, nonsense)
    commands = [len(await deliveries_in(scene.fleet.profile.access, topic)) for topic in ACTED_ON]

    result = await scene.fleet.command("dlq", "redrive", "--limit", "10000")

    assert result["redriven"] == 0
    assert result["withheld"] >= 2
    assert [len(await deliveries_in(scene.fleet.profile.access, topic)) for topic in ACTED_ON] == commands
    assert await settled(scene) == before


async def test_every_record_written_a_second_time_is_passed_over(scene: Scene) -> None:
    """Also a command that was refused when it came, whose reason not to be carried out is gone by now."""
    before, passed_over = await settled(scene), ended_as_copies(await scene.ends())

    sent = await write_everything_again(scene)

    assert await settled(scene) == before
    assert ended_as_copies(await scene.ends()) - passed_over >= sent


async def test_a_worker_that_never_saw_the_first_passes_the_second_over_too(scene: Scene) -> None:
    """It reads in the log what others settled before it, a moment ago."""
    before, sealed = await settled(scene), await sealings(scene)
    busy = [
        one
        for one in await scene.genuine(Topic.REVIEW_COMMANDS)
        if b'"conclude"' in (one.value or b"") and scene.busy_case_id.encode() in (one.value or b"")
    ]
    await scene.worker.stop()
    await scene.intruder.write(busy[0])  # waits in the log for the next worker
    scene.worker = await scene.fleet.worker("--health-port", "0")
    await scene.quiet()

    assert await settled(scene) == before
    sent = await write_everything_again(scene)
    assert await settled(scene) == before
    ends = await scene.ends()
    assert ended_as_copies(ends) >= sent + 1  # a worker that starts may be given a record twice
    assert ends["answered"] <= await sealings(scene) - sealed  # of the row that tells of its own start
    assert ends["refused"] == 0


async def sealings(scene: Scene) -> int:
    """Return how many commands to seal audit rows were sent, copies not counted."""
    return len({one.headers[AUTHENTICATION] for one in await scene.genuine(Topic.AUDIT)})


def ended_as_copies(ends: Counter[str]) -> int:
    """Return how many records ended as copies: replayed, or forged when the first was signed a minute ago."""
    return ends["replayed"] + ends["forged"]


async def write_everything_again(scene: Scene) -> int:
    """Write a second copy of every genuine record; return how many."""
    sent = 0
    for topic in ACTED_ON:
        genuine = [one for one in await scene.genuine(topic) if is_ours(scene, one)]
        await scene.intruder.write(*genuine)
        sent += len(genuine)
    await scene.quiet()
    return sent


def is_ours(scene: Scene, record: Delivery) -> bool:
    """Return whether a record is one the deployment wrote, by the time it says it was signed."""
    try:
        require_fresh(scene.fleet.record_keys.check(record), record.appended_ms)
    except Unauthentic:
        return False
    return True
