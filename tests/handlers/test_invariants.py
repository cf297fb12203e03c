"""Each invariant can fail: one thing is broken on purpose, and the checker says which one and where."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from app.adapters.files.blobs import BlobFiles
from app.doctor.invariants.log_state import MEMORY, LogState
from app.doctor.invariants.store_state import StoreState
from schemas.audit import SealAudit
from schemas.enums import DecisionOutcome, VerificationStatus
from schemas.ids import AuditEventId, VerificationId, derive_id
from schemas.problems import ProblemCode, Refusal
from schemas.topics import Topic
from schemas.verifications import StoredVerification, SubmitVerification, VerificationDecided
from streams.audit.handler import SealChain
from streams.invariants import rules
from streams.invariants.rules import Invariant
from streams.ports.records import Record, RecordKind
from streams.runtime.dead_letters import dead_letter
from streams.runtime.message import Delivery
from streams.runtime.replies import CORRELATION, Reply
from streams.runtime.tables import table_of
from streams.verification import agent
from streams.verification import change as verification_change
from tests.agents.support import KEYS, signed
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_command
from tests.handlers.verification_stage import Scene, Stage

LATER: Final = NOW + timedelta(minutes=5)
UNCERTAIN: Final = Scene(distance=0.55)
"""A face between pass and fail: the decision opens a review case."""


class World:
    """One decided verification with its case, and what the log tells of it."""

    def __init__(self) -> None:
        self.stage = Stage(UNCERTAIN)
        self.shelves = self.stage.shelves
        self.log_state = LogState(KEYS, rules.hidden(["ERIKSSON"]))
        self.command: SubmitVerification = build_command()
        self._offset = 0

    async def begin(self) -> None:
        """Decide, tell, answer and seal, as it should be."""
        self.command = await self.stage.keep()
        await self.stage.handler(self.command)
        await self.seal()
        self.append(Topic.VERIFICATION_COMMANDS, self.command.verification_id, self.command.to_bytes())
        for event in self.stage.announcer.events:
            self.append(Topic.DECISIONS, "key", event.to_bytes())
        answer = Reply.of(VerificationDecided(verification_id=self.command.verification_id))
        self.append(Topic.REPLIES, "q-1", answer.to_bytes())

    async def seal(self) -> None:
        """Seal what waits."""
        await SealChain(self.stage.stores.audit_log)(SealAudit(tenant_id=ACME))

    def append(
        self, topic: str, key: str | None, value: bytes, cid: str = "q-1", at: datetime = NOW
    ) -> Delivery:
        """Put a record into the log."""
        self._offset += 1
        raw_key = None if key is None else key.encode()
        delivery = signed(Delivery(topic, 0, self._offset, raw_key, value, {CORRELATION: cid.encode()}))
        self.log_state.add(delivery, at)
        return delivery

    def send(self, name: str, **changes: Any) -> tuple[SubmitVerification, Delivery]:
        """Put another command into the log, which nobody carries out; its images are kept."""
        command = self.command.model_copy(
            update={"verification_id": VerificationId(derive_id("ver", name)), **changes}
        )
        sent = self.append(Topic.VERIFICATION_COMMANDS, command.verification_id, command.to_bytes(), cid=name)
        return command, sent

    async def judge(self) -> list[str]:
        """Hold everything against everything."""
        store_state = StoreState(
            stores=self.stage.stores,
            due_before=LATER,
            retained_since=NOW - timedelta(days=1),
            needles=rules.hidden(["ERIKSSON"]),
        )
        await store_state.walk_records(ACME)
        await store_state.compare_with_commands(self.log_state)
        await store_state.compare_with_events(self.log_state)
        await store_state.walk_audit(ACME)
        found = [*self.log_state.violations, *store_state.violations]
        return sorted({f"{v.invariant} {v.about}: {v.found}" for v in found})

    def change_record(self, kind: RecordKind, change: Callable[[Record], Record]) -> None:
        """Alter what the store holds."""
        (key,) = [key for key in self.shelves.records if key[1] is kind]
        self.shelves.records[key] = change(self.shelves.records[key])

    def change_verification(self, **changes: Any) -> None:
        """Alter the stored verification, first answer and all."""

        def altered(record: Record) -> Record:
            stored = StoredVerification.from_bytes(record.body)
            verification = stored.verification.model_copy(update=changes)
            body = stored.model_copy(update={"verification": verification}).to_bytes()
            return replace(record, body=body, first_body=body)

        self.change_record(RecordKind.VERIFICATION, altered)

    @property
    def evaluated(self) -> AuditEventId:
        """The id of the audit row of the evaluation."""
        return next(iter(self.shelves.audit[ACME]))


@pytest.fixture
async def world() -> World:
    """A world in which everything is as it should be."""
    begun = World()
    await begun.begin()
    return begun


def starts(lines: list[str], *beginnings: str) -> bool:
    """Return whether there is one line for each beginning, and no other."""
    return len(lines) == len(beginnings) and all(
        line.startswith(beginning) for line, beginning in zip(lines, beginnings, strict=True)
    )


async def test_a_sound_world_has_nothing_to_say(world: World) -> None:
    assert await world.judge() == []


async def test_i1_a_command_nobody_carried_out(world: World) -> None:
    command, _ = world.send("lost")

    place = f"{Topic.VERIFICATION_COMMANDS}/0@{world._offset}"
    assert await world.judge() == [
        f"I1 {command.verification_id}: sent at {place}: no decision, no refusal, no dead letter"
    ]


async def test_i1_a_young_command_may_be_under_way(world: World) -> None:
    lost = world.command.model_copy(update={"verification_id": derive_id("ver", "young")})
    world.append(
        Topic.VERIFICATION_COMMANDS, lost.verification_id, lost.to_bytes(), at=LATER + timedelta(seconds=1)
    )

    assert await world.judge() == []


async def test_i1_a_refusal_is_an_end(world: World) -> None:
    world.send("refused")
    refusal = Refusal(code=ProblemCode.OVERLOADED, detail="Too much is under way.")
    world.append(Topic.REPLIES, "refused", Reply(refusal=refusal).to_bytes())

    assert await world.judge() == []


async def test_i1_a_remembered_refusal_is_an_end(world: World) -> None:
    command, _ = world.send("refused")
    memo = verification_change.refused(
        command, Refusal(code=ProblemCode.IMAGE_UNDECODABLE, detail="No image."), NOW
    )
    key = command.verification_id
    world.append(MEMORY, key, KEYS.seal_entry(table_of(agent.TABLE), key.encode(), memo.to_bytes()))

    assert await world.judge() == []


async def test_i1_a_dead_letter_is_an_end(world: World) -> None:
    _, sent = world.send("buried")
    buried = dead_letter(sent, "handler raised KeyError", NOW)
    world.log_state.add(
        signed(Delivery(buried.topic, 0, 1, buried.key, buried.value, dict(buried.headers))),
        NOW,
    )

    assert await world.judge() == []


async def test_i1_discarded_images_are_an_end(world: World) -> None:
    world.send("discarded", document_evidence_id=derive_id("evd", "gone"))

    assert await world.judge() == []


async def test_i1_poison_that_was_never_buried(world: World) -> None:
    world.append(Topic.VERIFICATION_COMMANDS, "key", b"{")

    assert starts(
        await world.judge(), f"I1 {Topic.VERIFICATION_COMMANDS}/0@{world._offset}: holds no command"
    )


async def test_i3_a_missing_audit_row(world: World) -> None:
    del world.shelves.audit[ACME][world.evaluated]

    missing, broken = await world.judge()
    assert missing.startswith("I3 aud_")
    assert missing.endswith("is not in the audit log")
    assert broken.startswith(f"I3 {ACME}: its audit chain is broken, removed")


async def test_i3_a_row_that_tells_of_another_decision(world: World) -> None:
    rows, event_id = world.shelves.audit[ACME], world.evaluated
    rows[event_id] = rows[event_id].model_copy(update={"decision_id": derive_id("dec", "other")})

    lines = await world.judge()
    assert starts(lines, f"I3 {event_id}", f"I3 {ACME}: its audit chain is broken, edited at position 1")


async def test_i3_a_decision_audited_twice(world: World) -> None:
    rows, first = world.shelves.audit[ACME], world.evaluated
    again = AuditEventId(derive_id("aud", "again"))
    rows[again] = rows[first].model_copy(update={"event_id": again})
    await world.seal()

    (line,) = await world.judge()
    assert "is a second verification.evaluated" in line


async def test_i4_an_event_that_was_never_published(world: World) -> None:
    event = world.stage.announcer.events[0]
    del world.log_state.events[event.id]

    assert await world.judge() == [
        f"I4 {event.id} ({event.type} of {world.command.verification_id}): is not in the decision topic"
    ]


async def test_i4_an_event_published_in_two_forms(world: World) -> None:
    event = world.stage.announcer.events[0]
    world.append(Topic.DECISIONS, "key", event.model_copy(update={"sequence": 7}).to_bytes())

    repeated = f"I4 {event.id}: was published in 2 different forms"
    assert starts(await world.judge(), f"I4 {event.id} (", repeated)


async def test_i4_an_event_that_disagrees_with_its_record(world: World) -> None:
    event = world.stage.announcer.events[0]
    world.log_state.events[event.id] = {event.model_copy(update={"sequence": 7}).to_bytes()}

    (line,) = await world.judge()
    assert line.endswith("was published otherwise than the record says")


async def test_i4_an_event_of_a_decision_nobody_recorded(world: World) -> None:
    event = world.stage.announcer.events[0]
    stray = event.model_copy(
        update={
            "id": derive_id("evt", "stray"),
            "data": event.data.model_copy(update={"verification_id": derive_id("ver", "stray")}),
        }
    )
    world.append(Topic.DECISIONS, "key", stray.to_bytes())

    assert await world.judge() == [
        f"I4 {derive_id('ver', 'stray')}: is in the decision topic and has no record"
    ]


async def test_i5_an_end_that_was_left() -> None:
    world = World()
    world.stage = Stage()
    world.shelves = world.stage.shelves
    await world.begin()

    def rejected(record: Record) -> Record:
        stored = StoredVerification.from_bytes(record.body)
        changes = {"status": VerificationStatus.REJECTED, "decision": DecisionOutcome.BLOCK}
        verification = stored.verification.model_copy(update=changes)
        return replace(record, body=stored.model_copy(update={"verification": verification}).to_bytes())

    world.change_record(RecordKind.VERIFICATION, rejected)

    own = world.command.verification_id
    assert f"I5 {own}: went from APPROVED, which is an end, to REJECTED" in await world.judge()


async def test_i5_a_session_that_disagrees_with_its_verification(world: World) -> None:
    world.change_record(
        RecordKind.SESSION,
        lambda record: replace(
            record, body=record.body.replace(b'"status":"REVIEW_REQUIRED"', b'"status":"APPROVED"')
        ),
    )

    assert starts(await world.judge(), "I5 vs_")


async def test_i6_a_record_that_names_another_tenant(world: World) -> None:
    world.change_verification(reasons=(), model_version=f"engine of {GLOBEX}")

    lines = await world.judge()
    assert f"I6 {world.command.verification_id}: names another tenant" in lines


async def test_i6_an_event_that_names_another_tenant(world: World) -> None:
    event = world.stage.announcer.events[0]
    stray = event.model_copy(update={"data": event.data.model_copy(update={"session_id": GLOBEX})})
    world.append(Topic.DECISIONS, "key", stray.to_bytes())

    lines = await world.judge()
    assert f"I6 {Topic.DECISIONS}/0@{world._offset}: names another tenant" in lines


async def test_i6_a_decision_id_that_is_not_this_tenants(world: World) -> None:
    world.change_verification(decision_id=derive_id("dec", GLOBEX, world.command.verification_id))

    lines = await world.judge()
    own = world.command.verification_id
    assert f"I6 {own}: its first decision_id is not the one of this tenant" in lines


async def test_i6_evidence_of_another_verification(world: World) -> None:
    owner = (ACME, world.command.selfie_evidence_id)
    row, sealed = world.shelves.evidence[owner]
    strange = replace(row, verification_id=VerificationId(derive_id("ver", "other")))
    world.shelves.evidence[owner] = (strange, sealed)

    assert starts(await world.judge(), f"I6 {world.command.selfie_evidence_id}")


async def test_i7_an_answer_without_a_record(world: World) -> None:
    command, _ = world.send("answered")
    answer = Reply.of(VerificationDecided(verification_id=command.verification_id))
    world.append(Topic.REPLIES, "answered", answer.to_bytes())

    own = command.verification_id
    assert starts(await world.judge(), f"I1 {own}", f"I7 {own}: was answered as decided and has no record")


async def test_i7_a_case_that_is_not_there(world: World) -> None:
    world.change_record(RecordKind.REVIEW_CASE, lambda record: record)
    (key,) = [key for key in world.shelves.records if key[1] is RecordKind.REVIEW_CASE]
    del world.shelves.records[key]

    assert starts(await world.judge(), "I7 rc_")


async def test_i7_a_session_that_is_not_there(world: World) -> None:
    (key,) = [key for key in world.shelves.records if key[1] is RecordKind.SESSION]
    del world.shelves.records[key]

    assert starts(await world.judge(), "I7 vs_")


async def test_i8_evidence_that_has_no_row(world: World) -> None:
    evidence_id = world.command.selfie_evidence_id
    del world.shelves.evidence[ACME, evidence_id]

    own = world.command.verification_id
    assert await world.judge() == [f"I8 {evidence_id} (of {own}): is referred to and has no row"]


async def test_i8_evidence_that_does_not_open(world: World) -> None:
    owner = (ACME, world.command.selfie_evidence_id)
    row, sealed = world.shelves.evidence[owner]
    world.shelves.evidence[owner] = (row, sealed[:-1] + bytes([sealed[-1] ^ 1]))

    (line,) = await world.judge()
    assert "does not open" in line


async def test_i8_erased_evidence_is_as_it_should_be(world: World) -> None:
    await world.stage.stores.vault.destroy(ACME, world.command.subject_id)

    assert await world.judge() == []


async def test_i8_blobs_without_a_row_and_twice(world: World, tmp_path: Path) -> None:
    blobs = BlobFiles(tmp_path, durable=False)
    known, unknown = world.command.selfie_evidence_id, derive_id("evd", "unknown")
    for evidence_id in (known, known, unknown):
        blobs.write(ACME, evidence_id, b"sealed")  # type: ignore[arg-type]  # an evidence id
    store_state = StoreState(world.stage.stores, LATER, NOW)

    await store_state.walk_blobs(blobs, datetime.now(NOW.tzinfo) + timedelta(hours=1))

    assert {(v.invariant, v.about, v.found) for v in store_state.violations} == {
        (Invariant.I8, known, "lies 2 times among the blobs"),
        (Invariant.I8, unknown, "lies among the blobs and has no row"),
    }


@pytest.mark.parametrize(
    "topic", [Topic.VERIFICATION_COMMANDS, Topic.REPLIES, Topic.DEAD_LETTERS, MEMORY, Topic.AUDIT]
)
async def test_i9_a_planted_value_in_any_topic(world: World, topic: str) -> None:
    world.append(topic, "key", b'{"surname": "Eriksson"}')

    assert f"I9 {topic}/0@{world._offset}: holds canary 1" in await world.judge()


async def test_i9_a_planted_value_in_a_header_or_a_key(world: World) -> None:
    world.log_state.add(Delivery(Topic.AUDIT, 0, 1, b"eriksson", b"", {}), NOW)
    world.log_state.add(Delivery(Topic.AUDIT, 0, 2, b"", b"", {"name": b"ERIKSSON"}), NOW)

    assert starts(await world.judge(), f"I9 {Topic.AUDIT}/0@1", f"I9 {Topic.AUDIT}/0@2")


async def test_i9_a_planted_value_in_the_audit_log(world: World) -> None:
    rows = world.shelves.audit[ACME]
    stray = build_audit_event(
        event_id=AuditEventId(derive_id("aud", "stray")), detail="Mr Eriksson was here.", decision_id=None
    )
    rows[stray.event_id] = stray
    await world.seal()

    assert await world.judge() == [f"I9 {stray.event_id}: holds canary 1"]


def test_i10_a_row_met_twice_out_of_order_or_not_at_all() -> None:
    made = [
        build_audit_event(
            event_id=AuditEventId(derive_id("aud", str(number))), created_at=NOW - timedelta(seconds=number)
        )
        for number in range(4)
    ]
    walked = [made[0], made[2], made[1], made[1]]

    found = list(rules.judge_walk(walked, {row.event_id for row in made}))

    assert [(v.about, v.found) for v in found] == [
        (made[1].event_id, "stands out of order on the pages of the audit log"),
        (made[1].event_id, "is twice on the pages of the audit log"),
        (made[3].event_id, "is in the chain and on no page of the audit log"),
    ]


def test_a_planted_value_is_found_as_json_writes_it() -> None:
    needles = rules.hidden(["Zoë"])

    assert [v.found for v in rules.judge_canaries(needles, "here", b'"zo\\u00EB"')] == ["holds canary 1"]
    assert [v.found for v in rules.judge_canaries(needles, "here", "Zoë".encode())] == ["holds canary 1"]
