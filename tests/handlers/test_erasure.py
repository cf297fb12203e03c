"""A subject is erased: asked for, agreed to, carried out once, whatever ends the process on the way."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from app.adapters.files.data_dir import BLOBS_FOLDER, DATABASE_FILE
from app.adapters.security.crypto import RootKey
from app.adapters.sqlite.stores import open_sqlite_stores
from app.http.presented_transactions import PresentedTransactions
from schemas.audit import Actor, AuditAction, AuditEvent, AuditFilter, SealAudit
from schemas.enums import ActorType, EvidenceKind, RetentionPolicy, RiskLevel
from schemas.events import EventType
from schemas.ids import PLATFORM, SubjectId, VerificationId, derive_id
from schemas.privacy import EraseSubject, Erasure, ErasureStatus, Removed, RetentionCommand
from schemas.problems import NotFound, ProblemCode, Refused, StoreUnavailable
from schemas.sessions import SessionCommand
from schemas.tenant_settings import FourEyes, Retention, TenantSettings
from schemas.topics import Topic
from schemas.transaction_decisions import TransactionCommand
from schemas.verifications import StoredVerification
from streams.audit.commit import CommitAndPublish
from streams.audit.handler import SealChain, verify_chain
from streams.ports.errors import Erased
from streams.ports.records import Change, Record, RecordKind
from streams.retention import rules
from streams.retention.erasure import EraseSubjects
from streams.retention.erasure_records import erase_command, erasure_id
from streams.retention.erasure_requests import ErasureRequests
from streams.retention.scheduler import RetentionSweeper
from streams.runtime.producer import Outgoing
from streams.tenants.handler import TENANTS_INDEX
from streams.tenants.settings import SETTINGS, read_settings
from streams.transactions.row import VelocityRow, encode
from tests.builders import (
    ACME,
    GLOBEX,
    NOW,
    SUBJECT,
    VERIFICATION,
    build_declared,
    build_submission,
    build_tenant,
)
from tests.handlers import test_transactions as transactions
from tests.handlers.session_stage import SESSION, SessionStage
from tests.handlers.test_verification_privacy import canary_findings
from tests.handlers.verification_stage import Breaking, Scene, other_evidence

ADA = Actor(actor_type=ActorType.REVIEWER, actor_id=derive_id("usr", "ada"), request_id="req-ada")
BOB = Actor(actor_type=ActorType.REVIEWER, actor_id=derive_id("usr", "bob"), request_id="req-bob")
REQUESTED, APPROVED, EXECUTED = ErasureStatus
STEPS = [AuditAction.PRIVACY_REQUESTED, AuditAction.PRIVACY_APPROVED, AuditAction.PRIVACY_EXECUTED]


class ErasureStage(SessionStage):
    """A tenant whose members and agents deal with an erasure; the log is a list."""

    def __init__(self, scene: Scene | None = None) -> None:
        super().__init__(scene)
        self.written: list[Outgoing] = []

    async def write(self, *records: Outgoing) -> None:
        """Take what the log would."""
        self.written += records

    @property
    def requests(self) -> ErasureRequests:
        """What members ask for."""
        return ErasureRequests(
            self.stores, CommitAndPublish(self.stores.journal, self.announcer), lambda: self.now
        )

    async def choose(self, **settings: Any) -> None:
        """Keep what the tenant chose."""
        body = TenantSettings(**settings).to_bytes()
        try:
            record = await self.stores.records.get(ACME, RecordKind.SETTINGS, SETTINGS)
            record = replace(record, body=body, version=record.version + 1)
        except NotFound:
            record = Record(ACME, RecordKind.SETTINGS, SETTINGS, body, NOW)
        await self.stores.journal.commit(Change(ACME, (record,)))

    async def request(self, subject_id: SubjectId = SUBJECT, actor: Actor = ADA) -> Erasure:
        """Ask for an erasure."""
        return await self.requests.request(ACME, subject_id, "The customer asked for it.", actor)

    async def execute(self) -> None:
        """Carry the erasure out, and what it asks of sessions."""
        stores = self.stores
        handler = EraseSubjects(
            stores,
            lambda tenant_id: read_settings(stores.records, tenant_id),
            CommitAndPublish(stores.journal, self.announcer),
            self.write,
            lambda: self.now,
        )
        record = erase_command(ACME, erasure_id(ACME, SUBJECT), self.now)
        command = RetentionCommand.model_validate_json(record.value or b"")
        assert isinstance(command.root, EraseSubject)
        assert record.key == command.key.encode()
        await handler(command.root)
        for sent in [one for one in self.written if one.topic == Topic.SESSION_COMMANDS]:
            await self.sessions(SessionCommand.model_validate_json(sent.value or b""))

    async def erase(self) -> Erasure:
        """Ask for it and carry it out; return the proof."""
        await self.request()
        await self.execute()
        return await self.requests.proof(ACME, SUBJECT)

    async def rows(self) -> list[AuditEvent]:
        """The rows of the erasure, in the order of its steps."""
        found = await self.stores.audit_log.page(ACME, AuditFilter(), limit=200)
        return sorted((r for r in found if r.action in STEPS), key=lambda row: STEPS.index(row.action))

    async def pending(self, type_: EventType) -> int:
        """How many events of the type were committed."""
        return len([one for one in await self.stores.journal.pending_events(500) if one.type is type_])


@pytest.fixture
async def stage() -> ErasureStage:
    """A tenant with one decided verification."""
    made = ErasureStage()
    await made.submit()
    return made


async def test_an_erased_subject_reads_redacted_everywhere(stage: ErasureStage) -> None:
    proof = await stage.erase()

    stored = await stage.stored()
    record = await stage.stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)
    first = StoredVerification.from_bytes(record.first_body)
    for one in (stored, first):
        assert {ref.retention_policy for ref in rules.evidence_of(one)} == {RetentionPolicy.REDACTED}
        assert (one.sealed_fields, one.sealed_submission, one.sealed_face) == (None, None, None)
    assert stage.evidence_ids() == set()
    assert proof.status is EXECUTED
    assert proof.removed == Removed(verifications=1, evidence=4, sessions=0)
    with pytest.raises(Erased):
        await stage.stores.vault.seal(ACME, SUBJECT, "label", b"plain")


async def test_the_proof_names_who_when_which_key_and_the_place_in_the_chain(stage: ErasureStage) -> None:
    key_id = await stage.stores.vault.key_id(ACME, SUBJECT)
    await stage.erase()
    await SealChain(stage.stores.audit_log)(SealAudit(tenant_id=ACME))

    proof = await stage.requests.proof(ACME, SUBJECT)
    report = await verify_chain(stage.stores.audit_log, ACME)

    assert (proof.requested_by, proof.approved_by, proof.executed_at) == (ADA.actor_id, None, NOW)
    assert (proof.key_id, report.ok) == (key_id, True)
    assert proof.key_id is not None
    assert proof.chain is not None
    assert proof.chain.event_id == (await stage.rows())[-1].event_id


async def test_every_step_is_a_row_and_the_end_an_event(stage: ErasureStage) -> None:
    await stage.choose(four_eyes=FourEyes.ALWAYS)
    await stage.request()
    await stage.requests.approve(ACME, SUBJECT, BOB)
    await stage.execute()

    assert [(row.action, row.actor_id, row.subject_id) for row in await stage.rows()] == [
        (AuditAction.PRIVACY_REQUESTED, ADA.actor_id, SUBJECT),
        (AuditAction.PRIVACY_APPROVED, BOB.actor_id, SUBJECT),
        (AuditAction.PRIVACY_EXECUTED, None, SUBJECT),
    ]
    assert await stage.pending(EventType.SUBJECT_ERASED) == 1
    assert await stage.pending(EventType.VERIFICATION_REDACTED) == 1


@pytest.mark.parametrize(
    ("four_eyes", "risk", "expected"),
    [
        (FourEyes.NEVER, RiskLevel.CRITICAL, APPROVED),
        (FourEyes.CRITICAL, RiskLevel.HIGH, APPROVED),
        (FourEyes.CRITICAL, RiskLevel.CRITICAL, REQUESTED),
        (FourEyes.OVERTURN, RiskLevel.CRITICAL, REQUESTED),
        (FourEyes.ALWAYS, RiskLevel.LOW, REQUESTED),
    ],
)
async def test_a_second_person_is_needed_as_the_tenant_says(
    stage: ErasureStage, four_eyes: FourEyes, risk: RiskLevel, expected: ErasureStatus
) -> None:
    await stage.choose(four_eyes=four_eyes)
    record = await stage.stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)
    stored = await stage.stored()
    verification = stored.verification.model_copy(update={"risk_level": risk})
    body = stored.model_copy(update={"verification": verification}).to_bytes()
    await stage.stores.journal.commit(Change(ACME, (replace(record, body=body, version=2),)))

    assert (await stage.request()).status is expected


@pytest.mark.parametrize(("risk", "expected"), [(RiskLevel.CRITICAL, REQUESTED), (RiskLevel.HIGH, APPROVED)])
async def test_the_risk_of_a_transaction_counts_as_that_of_a_verification(
    risk: RiskLevel, expected: ErasureStatus
) -> None:
    stage = ErasureStage()
    paying = transactions.Stage(stores=stage.stores)
    stored = await paying.pay("k1", SUBJECT)
    about = stored.transaction.transaction_id
    record = await stage.stores.records.get(ACME, RecordKind.TRANSACTION, about)
    risky = stored.transaction.model_copy(update={"risk_level": risk})
    body = stored.model_copy(update={"transaction": risky}).to_bytes()
    await stage.stores.journal.commit(Change(ACME, (replace(record, body=body, version=2),)))

    assert (await stage.request()).status is expected


async def test_nothing_happens_before_the_second_person_agrees(stage: ErasureStage) -> None:
    await stage.choose(four_eyes=FourEyes.ALWAYS)
    await stage.request()
    await stage.execute()

    assert len(stage.evidence_ids()) == 4
    with pytest.raises(Refused) as refused:
        await stage.requests.approve(ACME, SUBJECT, ADA)
    assert refused.value.refusal.code is ProblemCode.SECOND_REVIEWER_MUST_DIFFER
    assert (await stage.requests.approve(ACME, SUBJECT, BOB)).approved_by == BOB.actor_id


async def test_a_legal_hold_stops_each_step(stage: ErasureStage) -> None:
    hold = Retention(legal_hold=(SUBJECT,))
    await stage.choose(four_eyes=FourEyes.ALWAYS, retention=hold)
    with pytest.raises(Refused) as at_request:
        await stage.request()
    await stage.choose(four_eyes=FourEyes.ALWAYS)
    await stage.request()
    await stage.choose(four_eyes=FourEyes.ALWAYS, retention=hold)
    with pytest.raises(Refused) as at_approval:
        await stage.requests.approve(ACME, SUBJECT, BOB)
    await stage.choose(four_eyes=FourEyes.ALWAYS)
    await stage.requests.approve(ACME, SUBJECT, BOB)
    await stage.choose(retention=hold)
    await stage.execute()

    codes = {one.value.refusal.code for one in (at_request, at_approval)}
    assert codes == {ProblemCode.LEGAL_HOLD}
    assert len(stage.evidence_ids()) == 4
    await stage.choose()
    await stage.execute()
    assert stage.evidence_ids() == set()


async def test_an_unknown_subject_and_a_member_are_no_subjects(stage: ErasureStage) -> None:
    member = SubjectId(ADA.actor_id or "")
    await stage.stores.vault.seal(ACME, member, "address", b"192.0.2.1")
    holder = SubjectId("tenant/subject-ids")
    await stage.stores.vault.seal(ACME, holder, "subject_id", SUBJECT.encode())
    for subject_id in (SubjectId("nobody"), member, holder):
        with pytest.raises(NotFound):
            await stage.request(subject_id)
    with pytest.raises(NotFound):
        await stage.requests.request(GLOBEX, SUBJECT, "x", ADA)
    with pytest.raises(NotFound):
        await stage.requests.approve(ACME, SubjectId("nobody"), BOB)


async def test_a_subject_that_has_only_a_session_is_known(stage: ErasureStage) -> None:
    only = SubjectId("only-a-session")
    await stage.stores.vault.seal(ACME, only, "opening", b"{}")

    assert (await stage.request(only)).status is APPROVED


async def test_asked_again_it_is_the_same_erasure(stage: ErasureStage) -> None:
    first = await stage.request()
    second = await stage.request(actor=BOB)
    await stage.execute()
    await stage.execute()
    third = await stage.request(actor=BOB)

    assert first == second
    assert (third.status, third.requested_by) == (EXECUTED, ADA.actor_id)
    assert [row.action for row in await stage.rows()] == [
        AuditAction.PRIVACY_REQUESTED,
        AuditAction.PRIVACY_EXECUTED,
    ]


async def test_open_sessions_end_and_their_captures_go() -> None:
    stage = ErasureStage()
    await stage.publish()
    await stage.start()
    await stage.capture(EvidenceKind.IMAGE)

    proof = await stage.erase()

    assert (await stage.session()).session.status == "CANCELLED"
    assert proof.removed == Removed(verifications=0, evidence=0, sessions=1)
    assert stage.evidence_ids() == set()
    assert (await stage.stores.records.get(ACME, RecordKind.SESSION, SESSION)).id == SESSION


async def test_another_subjects_things_stay(stage: ErasureStage) -> None:
    other = SubjectId(f"{SUBJECT}-2")
    await stage.submit(
        subject_id=other, verification_id=VerificationId(derive_id("ver", "other")), **other_evidence("other")
    )

    await stage.erase()

    assert len(stage.evidence_ids()) == 4
    assert await stage.stores.vault.seal(ACME, other, "label", b"plain")


async def test_an_approved_erasure_that_nobody_carried_out_is_asked_for_again(stage: ErasureStage) -> None:
    body = build_tenant().to_bytes()
    tenant = Record(PLATFORM, RecordKind.TENANT, ACME, body, NOW, indexes=(TENANTS_INDEX,))
    await stage.stores.journal.commit(Change(PLATFORM, (tenant,)))
    await stage.request()
    sweeper = RetentionSweeper(stage.stores, stage.write, lambda: stage.now)

    rounds = [await sweeper.sweep(), await sweeper.sweep()]
    await stage.execute()
    afterwards = await RetentionSweeper(stage.stores, stage.write, lambda: stage.now).sweep()

    assert (rounds, afterwards) == ([1, 0], 0)
    assert [record.topic for record in stage.written] == [Topic.RETENTION_COMMANDS]


ENDS = [("vault", "destroy"), ("journal", "commit"), ("ages", "remove"), ("records", "page")]


@pytest.mark.parametrize(("port", "method"), ENDS)
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_whatever_ends_the_process_the_erasure_is_finished_once(
    stage: ErasureStage, port: str, method: str, moment: str
) -> None:
    await stage.request()
    genuine = stage.stores
    breaking = Breaking(getattr(genuine, port), method, StoreUnavailable("killed"), after=moment == "after")
    stage.stores = replace(genuine, **{port: cast("Any", breaking)})
    with pytest.raises(StoreUnavailable):
        await stage.execute()
    stage.stores = genuine
    await stage.execute()

    proof = await stage.requests.proof(ACME, SUBJECT)
    assert (proof.status, proof.removed) == (EXECUTED, Removed(verifications=1, evidence=4, sessions=0))
    assert stage.evidence_ids() == set()
    assert await stage.pending(EventType.SUBJECT_ERASED) == 1
    assert len(await stage.rows()) == 2


CANARY = b"CANARYNAME"


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[ErasureStage]:
    """The same over SQLite, with a subject whose document and declaration are recognisable."""
    async with open_sqlite_stores(tmp_path, RootKey(b"r" * 32), durable=False) as stores:
        made = ErasureStage(Scene(findings=canary_findings()))
        made.stores = stores
        declared = build_declared(extracted_fields={"surname": CANARY.decode()})
        submission = build_submission(declared=declared)
        images = {"document": b"the document's image" + CANARY * 20_000, "selfie": CANARY}
        await made.submit(submission=submission, **images)
        yield made


async def test_no_byte_of_the_data_folder_opens_afterwards(on_disk: ErasureStage, tmp_path: Path) -> None:
    before, key = files(tmp_path), wrapped_key(tmp_path)
    assert await on_disk.stores.vault.key_id(ACME, SUBJECT)
    await on_disk.erase()

    left = files(tmp_path)
    assert any(key in raw for raw in before.values())
    assert [path for path, raw in left.items() if CANARY in raw or key in raw] == []
    assert [path for path in before if BLOBS_FOLDER in path.parts] != []
    assert [path for path in left if BLOBS_FOLDER in path.parts] == []


def files(folder: Path) -> dict[Path, bytes]:
    """Every file of the data folder with its bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wrapped_key(folder: Path) -> bytes:
    """The subject's wrapped key as it lies on the disk."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        query = "SELECT wrapped FROM subject_keys WHERE subject_id = ?"
        return bytes(connection.execute(query, (SUBJECT,)).fetchone()[0])


async def test_the_transactions_of_an_erased_subject_keep_their_amounts_and_nothing_about_people() -> None:
    stage = ErasureStage()
    paying = transactions.Stage(stores=stage.stores)
    payee = {"kind": "PERSON", "name": "Ada Example", "account": "NG1"}
    paid = await paying.pay("order-1", SUBJECT, counterparty=payee)
    proof = await stage.erase()
    (forget,) = [one for one in stage.written if one.topic == Topic.TRANSACTION_COMMANDS]
    await paying.handler()(TransactionCommand.model_validate_json(forget.value or b""))
    shown = json.loads(await PresentedTransactions(stage.stores).detail(ACME, paid))

    assert proof.removed == Removed(verifications=0, evidence=0, sessions=0, transactions=1)
    assert "counterparty" not in shown
    assert (shown["amount"]["value"], shown["decision"], shown["rules"]) == ("10.00", "ALLOW", [])
    assert paying.row(SUBJECT) == encode(VelocityRow())
    with pytest.raises(Erased):
        await paying.command("order-2", SUBJECT)
