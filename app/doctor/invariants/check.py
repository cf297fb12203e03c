"""Check every invariant of a running deployment and report violations."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from rich.markup import escape

from app.adapters.files.blobs import BlobFiles
from app.composition.stores import Deployment, every_tenant, now, open_existing
from app.doctor.invariants.deliveries import walk_deliveries
from app.doctor.invariants.log_state import LogState
from app.doctor.invariants.store_state import DECISIONS_RETENTION_MS, StoreState
from app.doctor.invariants.topic_reader import read_topics
from app.doctor.invariants.transactions import TransactionState
from app.kafka.cluster import access_of
from app.process.output import out, say_json
from app.process.startup import CannotStart
from app.settings import Settings, blobs_dir_of
from schemas.base import Frozen
from schemas.ids import PLATFORM
from schemas.problems import StoreUnavailable
from schemas.topics import TOPICS, Topic
from streams.invariants import rules
from streams.invariants.rules import COUNTED, MEANING, NOT_BUILT, Invariant, Violation
from streams.runtime.app import GROUP
from streams.runtime.kafka_client_config import LogAccess

SWEPT_AFTER: Final = timedelta(hours=3)
"""A file of evidence no row names is an orphan until the sweeper has surely come by."""

_BLOCK: Final = 1 << 20
_MARGIN: Final = timedelta(minutes=10)
"""How much earlier than it may a topic is taken to forget."""


@dataclass(frozen=True, slots=True)
class Question:
    """Options of the check: canaries, log files, and the age of due commands."""

    due_after: timedelta = timedelta(seconds=60)
    """What is younger may still be under way."""
    canaries: tuple[str, ...] = ()
    """Planted values that must be found nowhere."""
    logs: tuple[Path, ...] = ()
    """Log files and saved metrics in which they are looked for as well."""


class InvariantCheck(Frozen):
    """The result of one invariant."""

    invariant: Invariant
    meaning: str
    """What must hold, as a sentence."""
    counted: str
    """What `looked_at` is a number of."""
    looked_at: int
    """0: there was nothing to look at."""
    violations: int
    not_built: str | None = None
    """What it also speaks of and could not be looked at."""


class Report(Frozen):
    """What was checked, and the violations."""

    looks: tuple[InvariantCheck, ...]
    violations: tuple[Violation, ...]


def check_and_print(settings: Settings, asked: Question, *, as_json: bool) -> int:
    """Check every invariant and print the report; return the exit status.

    Raises:
        CannotStart: Store or broker cannot be reached.
    """
    report = asyncio.run(check_deployment(settings, asked))
    if as_json:
        say_json(report.model_dump(mode="json"))
    else:
        print_report(report)
    return 1 if report.violations else 0


async def check_deployment(settings: Settings, asked: Question) -> Report:
    """Open the deployment's stores and check every invariant.

    Raises:
        CannotStart: Store or broker cannot be reached.
    """
    access = access_of(settings)
    async with open_existing(settings) as deployment:
        try:
            return await check_invariants(deployment, access, blobs_dir_of(settings), asked)
        except StoreUnavailable as error:
            raise CannotStart(f"{error}; see: veristream doctor --data-dir {settings.data_dir}") from error


async def check_invariants(
    deployment: Deployment, access: LogAccess, blobs_dir: Path, asked: Question
) -> Report:
    """Check every invariant; read-only, safe while the service runs.

    Raises:
        StoreUnavailable: Store or broker are away.
    """
    moment, needles = now(), rules.hidden(asked.canaries)
    log_state = LogState(deployment.record_keys, needles)
    retained_since = moment - timedelta(milliseconds=DECISIONS_RETENTION_MS) + _MARGIN
    due_before = moment - asked.due_after
    transactions = TransactionState(deployment.stores, moment, due_before, retained_since, needles)
    store_state = StoreState(
        stores=deployment.stores,
        transactions=transactions,
        due_before=due_before,
        retained_since=retained_since,
        needles=needles,
    )
    await read_topics(access, lambda name: _ours(name) and name != Topic.DECISIONS, log_state.add)
    tenants = await every_tenant(deployment)
    for tenant_id in tenants:
        await store_state.walk_records(tenant_id)
        await transactions.walk_records(tenant_id)
    await store_state.compare_with_commands(log_state)
    await transactions.compare_with_commands(log_state)
    await read_topics(
        access, lambda name: name == Topic.DECISIONS, log_state.add
    )  # after the records its events must match
    await store_state.compare_with_events(log_state)
    transactions.compare_with_events(log_state)
    for tenant_id in tenants:
        await walk_deliveries(store_state, tenant_id)
    for tenant_id in [PLATFORM, *tenants]:
        await store_state.walk_audit(tenant_id)
    await store_state.walk_blobs(BlobFiles(blobs_dir), moment - SWEPT_AFTER)
    spilt = await asyncio.to_thread(lambda: list(_search(needles, asked.logs)))
    store_state.looked_at[Invariant.I9] += len(needles) * (log_state.records + len(asked.logs))
    store_state.looked_at.update(transactions.looked_at)
    found = [*log_state.violations, *store_state.violations, *transactions.violations, *spilt]
    return _report(store_state, found)


def _ours(name: str) -> bool:
    return name in {spec.topic for spec in TOPICS} or name.startswith(f"{GROUP}-")


def _search(needles: Sequence[Sequence[bytes]], logs: Sequence[Path]) -> Iterator[Violation]:
    """Search files of any size for planted values."""
    longest = max((len(form) for forms in needles for form in forms), default=0)
    for path in logs:
        found: dict[str, Violation] = {}
        with path.open("rb") as file:
            tail = b""
            while block := file.read(_BLOCK):
                found |= {v.found: v for v in rules.judge_canaries(needles, str(path), tail + block)}
                tail = block[-longest:]
        yield from found.values()


def _report(store_state: StoreState, violations: Sequence[Violation]) -> Report:
    looks = [
        InvariantCheck(
            invariant=invariant,
            meaning=MEANING[invariant],
            counted=COUNTED[invariant],
            looked_at=store_state.looked_at[invariant],
            violations=sum(violation.invariant is invariant for violation in violations),
            not_built=NOT_BUILT.get(invariant),
        )
        for invariant in Invariant
    ]
    return Report(looks=tuple(looks), violations=tuple(violations))


def print_report(report: Report) -> None:
    """Print each invariant in words with what was counted, then one line for each violation."""
    for look in report.looks:
        out.print(
            f"{look.invariant:<4}{_verdict(look)}  {escape(look.meaning)}", soft_wrap=True, highlight=False
        )
        out.print(f"    {escape(_counted(look))}", soft_wrap=True, highlight=False, style="dim")
    for violation in report.violations:
        line = f"{violation.invariant} {violation.about}: {violation.found}"
        out.print(escape(line), soft_wrap=True, highlight=False)
    broken = sum(look.violations > 0 for look in report.looks)
    said = f"{len(report.violations)} violations of {broken} invariants." if broken else "No violations."
    out.print(said, style="bold", highlight=False)


def _verdict(look: InvariantCheck) -> str:
    if look.violations:
        return "[bold red]BROKEN[/]     "
    return "[green]holds[/]      " if look.looked_at else "not checked"


def _counted(look: InvariantCheck) -> str:
    checked = f"{look.looked_at} {look.counted}" if look.looked_at else f"no {look.counted}"
    if look.invariant is Invariant.I9 and not look.looked_at:
        checked = "no value was given to look for: --canary"
    return checked if look.not_built is None else f"{checked}; not covered: {look.not_built}"
