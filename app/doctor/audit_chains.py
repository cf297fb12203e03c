"""Verify audit chains and compare them with the signed checkpoints."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import computed_field

from app.adapters.files.checkpoint_files import CheckpointFiles
from app.adapters.security.message_authentication import checkpoint_key
from app.composition.stores import Deployment, every_tenant, now, open_existing
from app.process.output import out, say_json, table
from app.process.startup import CannotStart
from app.settings import Settings, checkpoints_dir_of
from schemas.audit import AuditAction, AuditFilter
from schemas.base import Frozen, Timestamp
from schemas.checkpoints import ChainHead
from schemas.ids import PLATFORM, TenantId
from schemas.problems import StoreUnavailable
from streams.audit.checkpoints import History, read_history
from streams.audit.handler import ChainReport, verify_chain

if TYPE_CHECKING:
    from streams.audit.checkpointing import CheckpointCopy

EVERY_S = 60.0
"""A worker writes the first checkpoint sooner (`streams.audit.checkpointing`)."""

NONE_FOUND = (
    "no checkpoint can be read although rows are sealed: a worker writes the first within seconds; "
    "SERVICE_AUDIT_CHECKPOINTS_DIR names their folder"
)


class CheckpointsReport(Frozen):
    """The state of the copies of the checkpoints."""

    key: str
    """The Ed25519 public key of this deployment, hexadecimal; the signatures are verified with it."""
    copies: dict[str, str]
    """For each copy how many lines it has, or why it cannot be read."""
    newest: int | None = None
    at: Timestamp | None = None
    """When the newest was written; what was sealed before cannot be cut off unnoticed."""
    faults: tuple[str, ...] = ()
    """Lines that were altered or not signed by this deployment, and checkpoints that are missing."""


class AuditReport(Frozen):
    """The result of `veristream audit verify`."""

    chains: tuple[ChainReport, ...]
    checkpoints: CheckpointsReport

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.checkpoints.faults and all(chain.ok for chain in self.chains)


def read_heads(texts: Sequence[str]) -> list[ChainHead]:
    """Return the heads a caller expects.

    Raises:
        CannotStart: One has another form.
    """
    try:
        return [ChainHead.parse(text) for text in texts]
    except ValueError as error:
        raise CannotStart(f"--expect: {error}") from error


async def verify_audit(
    settings: Settings, tenant: str | None = None, expected: Sequence[ChainHead] = ()
) -> AuditReport:
    """Verify the chain of one tenant or of all, the platform's included, up to every known head."""
    async with open_existing(settings) as deployment:
        return await walk_chains(settings, deployment, tenant, expected)


async def walk_chains(
    settings: Settings, deployment: Deployment, tenant: str | None = None, expected: Sequence[ChainHead] = ()
) -> AuditReport:
    """Walk the chains of opened stores; the checkpoints are read first, so rows sealed later are fine."""
    copies, history = await _read_copies(settings, deployment)
    known = history.expected()
    for head in expected:
        known.setdefault(head.tenant_id, {}).setdefault(head.position, set()).add(head.hash)
    if tenant is not None:
        named = [TenantId(tenant), *(head.tenant_id for head in expected)]
    else:
        sealed = sorted(head.tenant_id for head in await deployment.stores.audit_log.heads())
        named = [PLATFORM, *await every_tenant(deployment), *sealed, *sorted(known)]
    chains = [
        await verify_chain(deployment.stores.audit_log, one, known.get(one)) for one in dict.fromkeys(named)
    ]
    newest = history.newest
    bare = newest is None and any(chain.rows for chain in chains) and await _has_served(deployment)
    report = CheckpointsReport(
        key=checkpoint_key(deployment.root_key).public,
        copies=copies,
        newest=None if newest is None else newest.number,
        at=None if newest is None else newest.at,
        faults=(*history.faults, *((NONE_FOUND,) if bare else ())),
    )
    return AuditReport(chains=tuple(chains), checkpoints=report)


async def _has_served(deployment: Deployment) -> bool:
    """Return whether a process began to serve so long ago that a checkpoint must have been written since.

    Before, only commands of an operator wrote and sealed rows.
    """
    chosen = AuditFilter(action=AuditAction.SERVICE_STARTED, until=now() - timedelta(seconds=EVERY_S))
    return bool(await deployment.stores.audit_log.page(PLATFORM, chosen, limit=1))


async def _read_copies(settings: Settings, deployment: Deployment) -> tuple[dict[str, str], History]:
    """Return the state of each copy, and what the readable ones prove in combination."""
    copies: dict[str, CheckpointCopy] = {"file": CheckpointFiles(checkpoints_dir_of(settings))}
    states: dict[str, str] = {}
    lines: dict[str, Sequence[bytes]] = {}
    try:
        copies |= _topic_of(settings)
    except CannotStart as error:
        states["topic"] = f"not reachable: {error}"
    for name, copy in copies.items():
        try:
            lines[name] = await copy.read(everything=True)
            states[name] = f"{len(lines[name])} checkpoints"
        except StoreUnavailable as error:
            states[name] = f"not reachable: {error}"
    return states, read_history(lines, checkpoint_key(deployment.root_key)).judged()


def _topic_of(settings: Settings) -> dict[str, "CheckpointCopy"]:
    """Return the topic's copy where there is a log at all; the one place that imports its client.

    Raises:
        CannotStart: No log was ever opened here, or its access is unusable.
    """
    if settings.kafka_bootstrap is None and not settings.broker_dir.is_dir():
        raise CannotStart("this data folder has no broker, and SERVICE_KAFKA_BOOTSTRAP names none")
    from app.kafka.cluster import access_of  # noqa: PLC0415 - seconds, where it is used
    from streams.audit.checkpoint_topic import CheckpointTopic  # noqa: PLC0415 - the same client

    return {"topic": CheckpointTopic(access_of(settings))}


def print_audit_report(report: AuditReport, *, as_json: bool) -> None:
    """Print what the walks found."""
    if as_json:
        chains = [
            {**chain.model_dump(mode="json"), "ok": chain.ok, "head": chain.head and str(chain.head)}
            for chain in report.chains
        ]
        checkpoints = report.checkpoints.model_dump(mode="json")
        say_json({"ok": report.ok, "chains": chains, "checkpoints": checkpoints})
        return
    columns = ("tenant", "rows", "not yet sealed", "verdict")
    out.print(table("Audit chains", columns, [_chain_row(chain) for chain in report.chains]))
    _say("Heads: keep them elsewhere, and give them back with --expect.")
    for chain in report.chains:
        if chain.head is not None:
            _say(f"  {chain.head}")
    state = report.checkpoints
    newest = (
        "none" if state.newest is None or state.at is None else f"{state.newest} of {state.at.isoformat()}"
    )
    _say(f"Newest checkpoint: {newest}")
    _say(f"  public key (Ed25519): {state.key}")
    for name, found in sorted(state.copies.items()):
        _say(f"  {name}: {found}")
    for fault in state.faults:
        out.print(f"  [bold red]{fault}[/]", highlight=False, soft_wrap=True)


def _say(line: str) -> None:
    out.print(line, highlight=False, markup=False, soft_wrap=True)


def _chain_row(chain: ChainReport) -> tuple[object, ...]:
    place = "" if chain.position is None else f" at position {chain.position}"
    row = "" if chain.event_id is None else f": {chain.event_id}"
    verdict = "[green]holds[/]" if chain.ok else f"[bold red]{chain.fault}[/]{place}{row}"
    return chain.tenant_id, chain.rows, chain.waiting, verdict
