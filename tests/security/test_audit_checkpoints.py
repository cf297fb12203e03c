"""Point 9, S57: rows cut off the end of an audit chain are missed by the signed checkpoints."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from app.adapters.files.checkpoint_files import CheckpointFiles
from app.adapters.files.data_dir import CHECKPOINTS_FOLDER, DATABASE_FILE
from app.adapters.security.crypto import RootKey
from app.adapters.security.message_authentication import checkpoint_key
from app.composition.stores import open_deployment
from app.doctor.audit_chains import NONE_FOUND, AuditReport, read_heads, verify_audit
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.audit import Actor, AuditAction, SealAudit
from schemas.checkpoints import ChainHead, Checkpoint
from schemas.enums import ActorType
from schemas.ids import PLATFORM, AuditEventId, TenantId, derive_id
from schemas.problems import StoreUnavailable
from streams.audit.checkpointing import CheckpointCopy, CheckpointWriter
from streams.audit.checkpoints import (
    HEADS_AT_ONCE,
    Ledger,
    inclusion_path,
    is_included,
    next_checkpoints,
    read_history,
)
from streams.audit.commit import act
from streams.audit.handler import SealChain
from streams.audit.rows import write_row
from streams.ports.records import Change
from streams.runtime.producer import MAX_RECORD_BYTES
from tests.builders import ACME, GLOBEX, build_audit_event, build_record
from tests.contracts.adapters import SqliteBreaker
from tests.journeys.service import run_preloaded

KEY = checkpoint_key(RootKey(bytes(range(32))))
THEN = datetime(2026, 3, 30, 12, tzinfo=UTC)


class Deployment:
    """A data folder whose chains grow, and which is tampered with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(data_dir=folder)
        self.now = THEN
        self._rows = 0

    async def grow(self, rows: int, *, checkpoint: bool = True, tenant_id: TenantId = ACME) -> None:
        """Seal rows, and write a checkpoint as a worker that begins anew would."""
        async with open_deployment(self.settings) as stage:
            for _ in range(rows):
                self._rows += 1
                event_id = AuditEventId(derive_id("aud", str(self._rows)))
                row = build_audit_event(event_id=event_id, created_at=THEN + timedelta(seconds=self._rows))
                record = build_record(tenant_id=tenant_id, id=f"ver_{self._rows}")
                await stage.stores.journal.commit(Change(tenant_id, (record,), (row,)))
            await SealChain(stage.stores.audit_log)(SealAudit(tenant_id=tenant_id))
            if checkpoint:
                self.now += timedelta(minutes=1)
                copies = {"file": CheckpointFiles(self.file.parent)}
                writer = CheckpointWriter(
                    stage.stores.audit_log, copies, checkpoint_key(stage.root_key), lambda: self.now
                )
                await writer.write()

    async def serve(self, at: datetime) -> None:
        """Note that a worker began to serve."""
        system = Actor(actor_type=ActorType.SYSTEM)
        row = write_row(
            derive_id("aud", f"start {at}"), AuditAction.SERVICE_STARTED, system, "worker", at, detail="x"
        )
        async with open_deployment(self.settings) as stage:
            await stage.stores.journal.commit(act(PLATFORM, row))

    @property
    def file(self) -> Path:
        """The checkpoints."""
        return self.folder / CHECKPOINTS_FOLDER / f"{self.now:%Y-%m}.jsonl"

    def read_head(self) -> tuple[Any, ...]:
        """Return ACME's head as it stands."""
        with closing(sqlite3.connect(self.folder / DATABASE_FILE)) as connection:
            found: tuple[Any, ...] = connection.execute(
                "SELECT position, prev_hash, hash, seal FROM audit_heads WHERE tenant = ?", (ACME,)
            ).fetchone()
            return found

    def cut_tail(self, head: tuple[Any, ...]) -> None:
        """Remove ACME's rows behind the head, and put the head back."""
        run = SqliteBreaker(self.folder).run
        gone = "tenant = ? AND position > ?"
        run(
            f"DELETE FROM audit WHERE seq IN (SELECT seq FROM audit_chain WHERE {gone})",  # noqa: S608 - constants
            ACME, head[0],
        )  # fmt: skip
        run(f"DELETE FROM audit_chain WHERE {gone}", ACME, head[0])  # noqa: S608 - constants
        run(
            "UPDATE audit_heads SET position = ?, prev_hash = ?, hash = ?, seal = ? WHERE tenant = ?",
            *head,
            ACME,
        )

    async def verify(self, *expected: ChainHead) -> AuditReport:
        """Walk the chains."""
        return await verify_audit(self.settings, None, expected)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """A new data folder."""
    return Deployment(tmp_path / "data")


def faults_of(report: AuditReport) -> list[tuple[str, str, int | None]]:
    """What is wrong with the chains: tenant, fault, first bad place."""
    return [(c.tenant_id, c.fault.value, c.position) for c in report.chains if c.fault is not None]


async def test_s57_untouched_chains_and_checkpoints_hold(deployment: Deployment) -> None:
    await deployment.grow(3)
    await deployment.grow(2, tenant_id=GLOBEX)
    await deployment.grow(4, checkpoint=False)  # sealed behind the newest checkpoint

    report = await deployment.verify()

    heads = {chain.tenant_id: chain.head.position for chain in report.chains if chain.head is not None}
    assert (report.ok, heads, report.checkpoints.newest) == (True, {ACME: 7, GLOBEX: 2}, 2)


async def test_s57_a_tail_cut_with_an_older_head_makes_the_command_fail(deployment: Deployment) -> None:
    await deployment.grow(3)
    head = deployment.read_head()
    await deployment.grow(4)

    deployment.cut_tail(head)

    status, out, err = await run_preloaded(deployment.folder, "audit", "verify", "--json")
    found = json.loads(out)
    bad = [(c["tenant_id"], c["fault"], c["position"], c["head"]) for c in found["chains"] if not c["ok"]]
    assert (status, found["ok"]) == (1, False), err
    assert bad == [(ACME, "cut", 4, f"{ACME}:3:{head[2]}")]


async def test_s57_a_person_reads_which_tenant_lost_rows_from_where(deployment: Deployment) -> None:
    await deployment.grow(3)
    head = deployment.read_head()
    await deployment.grow(1)
    deployment.cut_tail(head)

    status, out, _ = await run_preloaded(deployment.folder, "audit", "verify")

    assert (status, "cut at position 4" in out, f"{ACME}:3:{head[2]}" in out) == (1, True, True)
    assert (await key_of(deployment)).public in out


async def test_s57_without_checkpoints_a_head_kept_elsewhere_shows_the_cut(deployment: Deployment) -> None:
    await deployment.grow(3, checkpoint=False)
    head = deployment.read_head()
    await deployment.grow(4, checkpoint=False)
    stored = next(c.head for c in (await deployment.verify()).chains if c.tenant_id == ACME)
    assert stored is not None
    deployment.cut_tail(head)

    assert faults_of(await deployment.verify()) == []
    status, out, _ = await run_preloaded(
        deployment.folder, "audit", "verify", "--json", "--expect", str(stored)
    )
    assert status == 1
    assert [(c["tenant_id"], c["position"]) for c in json.loads(out)["chains"] if not c["ok"]] == [(ACME, 4)]


async def test_s57_missing_checkpoints_are_a_fault_of_their_own(deployment: Deployment) -> None:
    await deployment.grow(3)
    await deployment.serve(THEN)
    deployment.file.unlink()

    report = await deployment.verify()

    assert (report.ok, report.checkpoints.faults) == (False, (NONE_FOUND,))


async def test_what_commands_sealed_before_a_worker_began_needs_no_checkpoint(deployment: Deployment) -> None:
    await deployment.grow(3, checkpoint=False)
    before = await deployment.verify()
    await deployment.serve(datetime.now(UTC))
    at_once = await deployment.verify()

    assert [(one.ok, one.checkpoints.faults) for one in (before, at_once)] == [(True, ())] * 2


async def test_s57_an_expected_head_that_still_stands_is_fine(deployment: Deployment) -> None:
    await deployment.grow(3)
    stored = [chain.head for chain in (await deployment.verify()).chains if chain.head is not None]
    await deployment.grow(2)

    assert (await deployment.verify(*stored)).ok


@pytest.mark.parametrize("text", ["", "ten_x", "ten_x:0:" + "0" * 64, "ten_x:1:ab", "a:1:" + "g" * 64])
def test_s57_a_malformed_head_is_refused(text: str) -> None:
    with pytest.raises(CannotStart, match="tenant:position:hash"):
        read_heads([text])


async def test_s57_other_rows_sealed_where_the_tail_was_are_found(deployment: Deployment) -> None:
    await deployment.grow(3)
    head = deployment.read_head()
    await deployment.grow(2)
    deployment.cut_tail(head)
    await deployment.grow(5)

    assert faults_of(await deployment.verify()) == [(ACME, "replaced", 4)]


async def test_s57_a_worker_never_takes_a_rolled_back_head_for_the_newest(deployment: Deployment) -> None:
    await deployment.grow(3)
    head = deployment.read_head()
    await deployment.grow(2)
    deployment.cut_tail(head)
    await deployment.grow(0)

    newest = read_history(
        {"file": await CheckpointFiles(deployment.file.parent).read()}, await key_of(deployment)
    )
    assert newest.ledger().heads[ACME].position == 5
    assert faults_of(await deployment.verify()) == [(ACME, "cut", 4)]


async def key_of(deployment: Deployment) -> Any:
    """The key of the deployment's checkpoints."""
    async with open_deployment(deployment.settings) as stage:
        return checkpoint_key(stage.root_key)


async def test_s57_a_chain_taken_away_with_its_tenant_is_found(deployment: Deployment) -> None:
    await deployment.grow(2)
    run = SqliteBreaker(deployment.folder).run
    for table in ("audit", "audit_chain", "audit_heads", "audit_waiting"):
        run(f"DELETE FROM {table} WHERE tenant = ?", ACME)  # noqa: S608 - names of the test

    assert faults_of(await deployment.verify()) == [(ACME, "cut", 1)]


def edit(line: bytes) -> bytes:
    """Put the first head of a checkpoint back by one."""
    checkpoint = Checkpoint.from_bytes(line)
    head = checkpoint.heads[0]
    earlier = head.model_copy(update={"position": head.position - 1})
    return checkpoint.model_copy(update={"heads": (earlier,)}).line


def resign(line: bytes) -> bytes:
    """Sign an edited checkpoint with another key."""
    draft = Checkpoint.from_bytes(edit(line)).model_copy(update={"key": KEY.public, "signature": ""})
    return draft.model_copy(update={"signature": KEY.sign(draft.signed_bytes)}).line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [lines[0], edit(lines[1]), lines[2]], ("line 2", "is missing")),
        (lambda lines: [lines[0], lines[1], edit(lines[2])], ("checkpoint 3 is not signed",)),
        (lambda lines: [lines[0], lines[1], resign(lines[2])], ("checkpoint 3 is not signed",)),
        (lambda lines: [lines[0], lines[2]], ("checkpoint 2, which 3 follows, is missing",)),
        (lambda lines: [lines[1], lines[2]], ("checkpoints 1 to 1 are missing",)),
        (lambda lines: [lines[0], b"{}", *lines[1:]], ("line 2 is no checkpoint",)),
    ],
    ids=[
        "edited",
        "newest edited",
        "signed by another",
        "taken out",
        "beginning taken away",
        "no checkpoint",
    ],
)
async def test_s57_altered_checkpoints_are_found(
    deployment: Deployment, change: Any, words: Sequence[str]
) -> None:
    for _ in range(3):
        await deployment.grow(2)
    lines = deployment.file.read_bytes().splitlines()
    deployment.file.write_bytes(b"\n".join(change(lines)) + b"\n")

    report = await deployment.verify()

    text = "; ".join(report.checkpoints.faults)
    assert (report.ok, [word for word in words if word not in text]) == (False, [])


async def test_s57_an_append_that_was_cut_short_is_no_fault(deployment: Deployment) -> None:
    await deployment.grow(2)
    with deployment.file.open("ab") as file:
        file.write(deployment.file.read_bytes()[:40])
    during = await deployment.verify()

    await deployment.grow(2)

    assert (during.ok, (await deployment.verify()).ok) == (True, True)
    assert len(deployment.file.read_bytes().splitlines()) == 3


async def test_s57_the_file_is_for_its_owner_and_holds_no_more_than_ids(deployment: Deployment) -> None:
    await deployment.grow(2)

    folder = deployment.file.parent
    assert (folder.stat().st_mode & 0o777, deployment.file.stat().st_mode & 0o777) == (0o700, 0o600)
    (line,) = deployment.file.read_bytes().splitlines()
    named = json.loads(line)
    assert set(named) == set(Checkpoint.model_fields)
    assert set(named["heads"][0]) == {"tenant_id", "position", "hash"}


def heads(count: int, position: int = 1) -> list[ChainHead]:
    """The heads of so many tenants."""
    return [
        ChainHead(tenant_id=TenantId(derive_id("ten", str(n))), position=position, hash=f"{n:064x}")
        for n in range(count)
    ]


def test_s57_the_heads_of_many_tenants_are_parted_and_each_part_fits_a_record() -> None:
    many = heads(2 * HEADS_AT_ONCE + 1)
    made, ledger = next_checkpoints(Ledger(), many, THEN, KEY)
    grown = [head.model_copy(update={"position": 2}) for head in many[:1]]
    later, after = next_checkpoints(ledger, [*grown, *many[1:]], THEN + timedelta(minutes=1), KEY)

    history = read_history({"file": [one.line for one in (*made, *later)]}, KEY).judged()

    assert [len(one.heads) for one in (*made, *later)] == [HEADS_AT_ONCE, HEADS_AT_ONCE, 1, 1]
    assert max(len(one.line) for one in made) < MAX_RECORD_BYTES / 2
    assert (history.faults, history.ledger()) == ((), after)
    assert [one.chains for one in later] == [len(many)]


def test_s57_a_head_is_proved_to_be_under_the_signed_root_alone() -> None:
    (checkpoint,), ledger = next_checkpoints(Ledger(), heads(5), THEN, KEY)
    entries = [str(ledger.heads[tenant]).encode() for tenant in sorted(ledger.heads)]
    root = bytes.fromhex(checkpoint.root)

    path = inclusion_path(entries, 3)

    assert KEY.is_signed(checkpoint.signed_bytes, checkpoint.signature)
    assert is_included(entries[3], 3, checkpoint.chains, path, root)
    assert not is_included(entries[2], 3, checkpoint.chains, path, root)


def test_s57_nothing_is_written_while_nothing_grows_but_once_an_hour() -> None:
    _, ledger = next_checkpoints(Ledger(), heads(2), THEN, KEY)

    soon, _ = next_checkpoints(ledger, heads(2), THEN + timedelta(minutes=59), KEY)
    late, _ = next_checkpoints(ledger, heads(2), THEN + timedelta(hours=1), KEY)

    assert (soon, [one.heads for one in late]) == ([], [()])


async def test_s57_a_months_file_stands_alone(deployment: Deployment) -> None:
    await deployment.grow(2)
    await deployment.grow(2, tenant_id=GLOBEX)
    march = deployment.file
    deployment.now += timedelta(days=3)
    await deployment.grow(1)
    assert deployment.file != march
    assert (await deployment.verify()).ok

    march.unlink()

    assert (await deployment.verify()).ok
    history = read_history({"file": deployment.file.read_bytes().splitlines()}, await key_of(deployment))
    assert {head.tenant_id: head.position for head in history.ledger().heads.values()} == {ACME: 3, GLOBEX: 2}


class MemoryCopy(CheckpointCopy):
    """A copy that can be away."""

    def __init__(self, lines: Sequence[bytes] = ()) -> None:
        self.lines = list(lines)
        self.away = False

    @override
    async def read(self, *, everything: bool = False) -> Sequence[bytes]:
        del everything
        if self.away:
            raise StoreUnavailable("away")
        return list(self.lines)

    @override
    async def append(self, checkpoints: Sequence[Checkpoint]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.lines += [one.line for one in checkpoints]


async def write_rounds(
    deployment: Deployment, copies: Mapping[str, CheckpointCopy], *, grow: Sequence[int], back: int = -1
) -> CheckpointWriter:
    """Let one writer write after each growth; before round `back` the copy named topic returns."""
    async with open_deployment(deployment.settings) as stage:
        writer = CheckpointWriter(
            stage.stores.audit_log, copies, checkpoint_key(stage.root_key), lambda: deployment.now
        )
    for number, rows in enumerate(grow):
        await deployment.grow(rows, checkpoint=False)
        deployment.now += timedelta(minutes=1)
        async with open_deployment(deployment.settings) as stage:
            writer._log = stage.stores.audit_log
            topic = copies["topic"]
            assert isinstance(topic, MemoryCopy)
            topic.away = 0 < number < back
            await writer.write()
    return writer


async def test_s57_a_copy_that_was_away_gets_what_it_missed(deployment: Deployment) -> None:
    file, topic = MemoryCopy(), MemoryCopy()

    writer = await write_rounds(deployment, {"file": file, "topic": topic}, grow=(1, 1, 1, 1), back=3)

    assert (len(file.lines), topic.lines) == (4, file.lines)
    assert writer.problems == {"file": 0, "topic": 2, "went_back": 0}


async def test_s57_a_writer_on_a_new_machine_goes_on_from_the_topic(deployment: Deployment) -> None:
    topic = MemoryCopy()
    await write_rounds(deployment, {"file": MemoryCopy(), "topic": topic}, grow=(1, 1))

    here = MemoryCopy()
    await write_rounds(deployment, {"file": here, "topic": topic}, grow=(1,))

    assert here.lines == topic.lines
    assert [Checkpoint.from_bytes(line).number for line in here.lines] == [1, 2, 3]


async def test_s57_two_writers_at_once_do_no_harm(deployment: Deployment) -> None:
    file, topic = MemoryCopy(), MemoryCopy()
    copies = {"file": file, "topic": topic}
    await write_rounds(deployment, copies, grow=(1,))
    other = {"file": MemoryCopy(file.lines), "topic": MemoryCopy(topic.lines)}
    await write_rounds(deployment, copies, grow=(1,))
    await write_rounds(deployment, other, grow=(1,))

    both = {"one": file.lines, "other": other["file"].lines}
    assert read_history(both, await key_of(deployment)).judged().faults == ()


async def test_s57_platform_and_tenants_are_walked_once_each(deployment: Deployment) -> None:
    await deployment.grow(1)

    report = await deployment.verify()

    assert [chain.tenant_id for chain in report.chains] == [PLATFORM, ACME]
