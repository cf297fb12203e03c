"""Write a signed checkpoint of all chains' heads every minute, to every copy (S57)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

import structlog

from schemas.checkpoints import Checkpoint
from schemas.ids import TenantId
from schemas.problems import StoreUnavailable
from streams.audit.checkpoints import Ledger, SigningKey, next_checkpoints, read_history
from streams.ports.audit import AuditLog

log = structlog.get_logger(__name__)

EVERY_S: Final = 60.0
"""Rows that were sealed this long ago cannot be cut off unnoticed."""

LOOK_EVERY_S: Final = 1.0
"""How soon a worker notices that it became the writer."""

RETRY_S: Final = 5.0
"""Between two attempts to read the copies at the beginning."""

MOST_WAITING: Final = 1_000
"""Checkpoints that wait for a copy that is away; it gets older ones when a writer begins anew."""


class CheckpointCopy(Protocol):
    """One append-only copy of the checkpoints."""

    async def read(self, *, everything: bool = False) -> Sequence[bytes]:
        """Return the lines, oldest first: at least those of the newest two months, or everything.

        Raises:
            StoreUnavailable: The place cannot be read now.
        """
        ...

    async def append(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Add the checkpoints behind those that are there; they are durable when it returns.

        Raises:
            StoreUnavailable: They may be there or not; adding them again does no harm.
        """
        ...


class CheckpointWriter:
    """Continue the newest checkpoint of all copies; several concurrent writers are safe."""

    def __init__(
        self,
        audit_log: AuditLog,
        copies: Mapping[str, CheckpointCopy],
        key: SigningKey,
        now: Callable[[], datetime],
    ) -> None:
        self._log = audit_log
        self._copies = copies
        self._key = key
        self._now = now
        self._ledger: Ledger | None = None
        self._waiting: dict[str, list[Checkpoint]] = {name: [] for name in copies}
        self._reported: set[TenantId] = set()
        self.problems: Counter[str] = Counter(dict.fromkeys((*copies, "went_back"), 0))
        """How often a copy was away, by its name, and a chain found set back, under `went_back`."""

    @property
    def begun(self) -> bool:
        """Whether it has read the copies and writes."""
        return self._ledger is not None

    async def run(self, is_ours: Callable[[], bool], every_s: float = EVERY_S) -> None:
        """Write again and again while it is this process's task."""
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            if not is_ours():
                self._ledger, due = None, clock()  # another writes now
            elif clock() >= due:
                await self._write_if_possible()
                due = clock() + (every_s if self.begun else min(RETRY_S, every_s))
            await asyncio.sleep(min(LOOK_EVERY_S, every_s))

    async def finish(self) -> None:
        """Write a last checkpoint if this process was the writer; for a clean stop."""
        if self.begun:
            await self._write_if_possible()

    async def _write_if_possible(self) -> None:
        try:
            await self.write()
        except StoreUnavailable as error:
            log.warning("audit.checkpointing_deferred", reason=str(error))

    async def write(self) -> int:
        """Write what is due and what a copy still lacks; return how many checkpoints were made.

        Raises:
            StoreUnavailable: The store, or at the beginning a copy, cannot be read; nothing was written.
        """
        ledger = self._ledger if self._ledger is not None else await self._begin()
        heads = await self._log.heads()
        self._report_went_back(ledger, [head.tenant_id for head in ledger.went_back(heads)])
        made, self._ledger = await asyncio.to_thread(next_checkpoints, ledger, heads, self._now(), self._key)
        for name, copy in self._copies.items():
            self._waiting[name] = [*self._waiting[name], *made][-MOST_WAITING:]
            await self._append(name, copy)
        return len(made)

    async def _begin(self) -> Ledger:
        """Read all copies, and note what each of them lacks."""
        lines = {name: await copy.read() for name, copy in self._copies.items()}
        history = await asyncio.to_thread(read_history, lines, self._key)
        for fault in history.faults:
            log.error("audit.checkpoint_refused", fault=fault)
        ledger = history.ledger()
        for name, own in lines.items():
            self._waiting[name] = _lacking(history.checkpoints, ledger, own)
        return ledger

    async def _append(self, name: str, copy: CheckpointCopy) -> None:
        if not self._waiting[name]:
            return
        try:
            await copy.append(self._waiting[name])
        except StoreUnavailable as error:
            self.problems[name] += 1
            log.warning("audit.checkpoint_deferred", copy=name, reason=str(error))
        else:
            self._waiting[name] = []

    def _report_went_back(self, ledger: Ledger, tenants: Sequence[TenantId]) -> None:
        """Log once that a chain was set back; checkpoints go on naming the head it had."""
        for tenant_id in set(tenants) - self._reported:
            self._reported.add(tenant_id)
            self.problems["went_back"] += 1
            log.error(
                "audit.chain_reverted",
                tenant_id=tenant_id,
                position=ledger.heads[tenant_id].position,
                remedy="run: veristream audit verify",
            )


def _lacking(genuine: Sequence[Checkpoint], ledger: Ledger, own: Sequence[bytes]) -> list[Checkpoint]:
    """Return what a copy with these lines needs so that it stands alone, as far as other copies have it."""
    there = set(own)
    present = [one.number for one in genuine if one.line in there]
    since = min(present[-1], ledger.base) if present else ledger.base
    return [one for one in genuine if one.number >= since and one.line not in there]
