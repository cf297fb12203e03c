"""Import history: sealed by subject, stored by the actors of its subjects, answered the same again (G119)."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from app.intake.transactions import refuse_impossible
from app.intake.verifications import RequestContext, RequestReply
from schemas.audit import Actor, AuditAction
from schemas.base import to_milliseconds
from schemas.enums import ActorType
from schemas.ids import AuditEventId, SubjectId, derive_id
from schemas.problems import FieldProblem, NotFound, Refused
from schemas.topics import Topic
from schemas.transaction_decisions import ImportHistory
from schemas.transaction_history import (
    HistoricTransaction,
    HistoryImport,
    HistoryImported,
    RejectedHistory,
    SealedHistory,
)
from streams.aggregate import key_reused
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.ports.evidence import Vault
from streams.ports.records import BY_AGE, Change, Record, RecordKind, Records
from streams.privacy.sealing import refusing_erased, seal_subject_id
from streams.transactions.importing import history_label
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.records import import_id
from streams.transactions.sandbox import scenario_for
from streams.transactions.wallets import address_of

OLDEST: Final = timedelta(days=400)
"""How long ago an imported transaction may have occurred."""

PART: Final = 100
"""Transactions of one command: at most some 600 KB sealed, and stored in one go."""

AT_ONCE: Final = 32
"""Commands of one import under way."""

ANSWER_TIMEOUT_S: Final = 30.0
"""How long each is waited for; afterwards the same key goes on where this request ended."""


_Stored = HistoryImported | list[RejectedHistory]
"""What became of the transactions of one command."""


@dataclass(frozen=True, slots=True)
class ParsedHistory:
    """A request whose transactions were validated one by one."""

    sent: tuple[Mapping[str, Any], ...]
    valid: Mapping[int, HistoricTransaction]
    """By their place in the request."""
    rejected: tuple[RejectedHistory, ...]


@dataclass(frozen=True, slots=True)
class _Import:
    """One import under way."""

    id: str
    fingerprint: str
    asked: RequestContext


@dataclass(frozen=True, slots=True)
class HistoryIntake:
    """Imports history; a repeated request gets the first answer."""

    request_reply: RequestReply
    records: Records
    commit: Commit
    vault: Vault
    hashes: KeyedHashes
    clock: Callable[[], datetime]
    answer_timeout_s: float = ANSWER_TIMEOUT_S

    async def submit(
        self, history: ParsedHistory, asked: RequestContext, key: str
    ) -> tuple[HistoryImport, bool]:
        """Import what is valid; return what became of all, and whether it is the first request's answer.

        Raises:
            Refused: The key was used for another body.
            DecisionPending, Overloaded, StoreUnavailable: Some may be stored; the same request with the
                same key imports the others.
        """
        caller = asked.caller
        canonical = json.dumps(history.sent, sort_keys=True, separators=(",", ":"))
        under = _Import(
            import_id(caller.tenant_id, key, livemode=caller.livemode),
            self.hashes.of(caller.tenant_id, "history", canonical).hex(),
            asked,
        )
        first = await self._first(under)
        if first is not None:
            return first, True
        rejected = [*history.rejected, *self._impossible(history, livemode=caller.livemode)]
        wrong = {one.index for one in rejected}
        possible = [(index, one) for index, one in history.valid.items() if index not in wrong]
        unique = {one.reference: (index, one) for index, one in reversed(possible)}
        answers = await self._import(under, sorted(unique.values(), key=lambda found: found[0]))
        accepted, duplicates = 0, len(possible) - len(unique)
        for answer in answers:
            if isinstance(answer, HistoryImported):
                accepted += answer.accepted
                duplicates += answer.duplicates
            else:
                rejected += answer
        rejected.sort(key=lambda one: one.index)
        result = HistoryImport(accepted=accepted, duplicates=duplicates, rejected=tuple(rejected))
        return await self._remember(under, result)

    async def _first(self, under: _Import) -> HistoryImport | None:
        tenant_id, kind = under.asked.caller.tenant_id, RecordKind.HISTORY_IMPORT
        try:
            record = await self.records.get(tenant_id, kind, under.id)
        except NotFound:
            return None
        if record.fingerprint != under.fingerprint:
            raise key_reused()
        return HistoryImport.from_bytes(record.body)

    def _impossible(self, history: ParsedHistory, *, livemode: bool) -> Iterator[RejectedHistory]:
        """Yield those whose parts do not fit each other, or whose time does not fit the clock."""
        now = self.clock()
        for index, one in history.valid.items():
            try:
                scenario_for(one.subject_id, livemode=livemode)
                refuse_impossible(one, now, OLDEST)
                if one.wallet is not None:
                    address_of(one.wallet)
            except Refused as refused:
                yield _rejected(index, refused)

    async def _import(
        self, under: _Import, history: Iterable[tuple[int, HistoricTransaction]]
    ) -> list[_Stored]:
        """Have the transactions stored, those of a subject in parts of their order."""
        by_subject = dict[SubjectId, list[tuple[int, HistoricTransaction]]]()
        for index, one in history:
            by_subject.setdefault(one.subject_id, []).append((index, one))
        places = asyncio.Semaphore(AT_ONCE)

        async def store(part: int, those: list[tuple[int, HistoricTransaction]]) -> _Stored:
            async with places:
                return await self._store(under, part, those)

        return await asyncio.gather(
            *(
                store(part, those[start : start + PART])
                for those in by_subject.values()
                for part, start in enumerate(range(0, len(those), PART))
            )
        )

    async def _store(
        self, under: _Import, part: int, history: list[tuple[int, HistoricTransaction]]
    ) -> _Stored:
        """Return how many were stored, or why none of them was: their subject was erased."""
        try:
            with refusing_erased():
                command = await self._command(under, part, [one for _, one in history])
            return await self.request_reply.request(
                Topic.TRANSACTION_COMMANDS,
                command.subject_key,
                command,
                HistoryImported,
                self.answer_timeout_s,
            )
        except Refused as refused:
            return [_rejected(index, refused) for index, _ in history]

    async def _command(self, under: _Import, part: int, history: list[HistoricTransaction]) -> ImportHistory:
        caller, subject_id = under.asked.caller, history[0].subject_id
        sealed = await self.vault.seal(
            caller.tenant_id,
            subject_id,
            history_label(under.id, part),
            SealedHistory(transactions=tuple(history)).to_bytes(),
        )
        return ImportHistory(
            tenant_id=caller.tenant_id,
            subject_key=self.hashes.subject_key(caller.tenant_id, subject_id, livemode=caller.livemode),
            livemode=caller.livemode,
            requested_at=self.clock(),
            import_id=under.id,
            subject_id=await seal_subject_id(self.vault, caller.tenant_id, subject_id),
            sealed_history=sealed,
            part=part,
        )

    async def _remember(self, under: _Import, result: HistoryImport) -> tuple[HistoryImport, bool]:
        """Write the answer and its audit row once; of two requests at once the first answer stays."""
        caller, now = under.asked.caller, to_milliseconds(self.clock())
        record = Record(
            caller.tenant_id,
            RecordKind.HISTORY_IMPORT,
            under.id,
            result.to_bytes(),
            now,
            fingerprint=under.fingerprint,
            indexes=(BY_AGE,),
        )
        row = write_row(
            AuditEventId(derive_id("aud", caller.tenant_id, under.id)),
            AuditAction.TRANSACTION_IMPORTED,
            Actor(
                actor_type=ActorType.API_KEY,
                actor_id=caller.key_id,
                request_id=under.asked.request_id,
                ip=under.asked.address,
            ),
            under.id,
            now,
            detail=f"{result.accepted} transactions of the past were imported.",
            changes={
                "import_id": under.id,
                "accepted": result.accepted,
                "duplicates": result.duplicates,
                "rejected": len(result.rejected),
            },
            livemode=caller.livemode,
        )
        committed = await self.commit(Change(caller.tenant_id, (record,), (row,)))
        if committed.record.fingerprint != under.fingerprint:
            raise key_reused()
        return HistoryImport.from_bytes(committed.record.body), not committed.won


def _rejected(index: int, refused: Refused) -> RejectedHistory:
    refusal, at = refused.refusal, f"/transactions/{index}"
    errors = refusal.errors or (
        FieldProblem(code=refusal.code, message=refusal.detail, pointer="/subject_id"),
    )
    moved = (one.model_copy(update={"pointer": at + (one.pointer or "")}) for one in errors)
    return RejectedHistory(index=index, errors=tuple(moved))
