"""Carries out `RedactVerification`: the record is redacted first, what it referred to is removed after it.

Whatever ends the process on the way, the evidence is listed by its age until it is gone, and the command
given again does only what is left to do: the record says which part that is.

Commands come by the thousand once their date has passed. A few are carried out at once, and each is followed
by a rest in proportion to what it took: the busier the machine, the fewer, so that decisions do not wait.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from schemas.base import to_milliseconds
from schemas.ids import EvidenceId, TenantId
from schemas.privacy import RedactVerification
from schemas.problems import NotFound
from schemas.tenant_settings import TenantSettings
from schemas.verifications import StoredVerification
from streams.aggregate import Pause, retry_conflicts
from streams.audit.commit import Commit, act
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Record, RecordKind
from streams.ports.stores import Stores
from streams.retention import rules
from streams.retention.rules import redaction

AT_ONCE: Final = 4
"""Commands that one process carries out at the same time."""

REST: Final = 4
"""Pause after a command, in multiples of what it took."""


@dataclass(frozen=True, slots=True)
class RedactEvidence:
    """Removes what of a verification is past its date; the same command again changes nothing."""

    stores: Stores
    settings: Callable[[TenantId], Awaitable[TenantSettings]]
    commit: Commit
    clock: Callable[[], datetime]
    pause: Pause = asyncio.sleep
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def __call__(self, command: RedactVerification) -> None:
        """Redact the verification and remove the evidence, in a turn with a rest after it.

        Raises:
            StoreUnavailable: Some of it may be done; the same command may be given again.
            Conflict: The verification changed at every attempt.
        """
        async with self.turns:
            begun = time.monotonic()
            await self._carry_out(command)
            await self.pause((time.monotonic() - begun) * REST)

    async def _carry_out(self, command: RedactVerification) -> None:
        removable = await retry_conflicts(lambda: self._redact(command), self.pause)
        await self.stores.ages.remove(command.tenant_id, removable)

    async def _redact(self, command: RedactVerification) -> Sequence[EvidenceId]:
        """Commit the redaction unless it stands already; return the evidence that may go."""
        tenant_id, now = command.tenant_id, to_milliseconds(self.clock())
        current = await self._find(command)
        stored = None if current is None else StoredVerification.from_bytes(current.body)
        references = () if stored is None else rules.evidence_of(stored)
        wanted = dict.fromkeys((*command.evidence_ids, *(one.id for one in references)))
        rows = await self._describe(command, wanted)
        retention = (await self.settings(tenant_id)).retention
        policies = rules.due_policies(rows, retention, now)
        due = [row for row in rows if row.retention_policy in policies]
        if not due:
            return ()
        if current is None or stored is None:
            row = rules.unreferenced_row(tenant_id, command.verification_id, due, now)
            await self.commit(act(tenant_id, row))
        elif rules.redacted(stored, policies) != stored:
            await self.commit(redaction(current, policies, now))
        return [row.evidence_id for row in due]

    async def _find(self, command: RedactVerification) -> Record | None:
        try:
            return await self.stores.records.get(
                command.tenant_id, RecordKind.VERIFICATION, command.verification_id
            )
        except NotFound:
            return None

    async def _describe(
        self, command: RedactVerification, evidence_ids: Iterable[EvidenceId]
    ) -> Sequence[EvidenceRow]:
        """Return the rows of the verification's own pieces; one that it only compared with is another's."""
        rows = []
        for evidence_id in evidence_ids:
            try:
                row = await self.stores.evidence.describe(command.tenant_id, evidence_id)
            except NotFound:
                continue
            if row.verification_id == command.verification_id:
                rows.append(row)
        return rows
