"""Ask for backtests, and cancel them; a worker runs them (G115)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.backtests import Backtest, BacktestStatus, StoredBacktest
from schemas.base import to_milliseconds
from schemas.ids import AuditEventId, BacktestId, SubjectId, TenantId, derive_id
from schemas.problems import FieldProblem, ProblemCode, Refused
from streams.aggregate import key_reused
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.backtests.records import backtest_records, changed, ended_watch, load_backtest, watch_of
from streams.policies.in_use import KnownLists, any_list
from streams.policies.loading import digest, load
from streams.policies.storage import load_draft, load_revision
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, Records


@dataclass(frozen=True, slots=True)
class NewBacktest:
    """What is to be tested, and on what."""

    backtest_id: BacktestId
    fingerprint: str
    tenant_id: TenantId
    policy: str
    revision: int | None
    """None: the draft as it is now."""
    since: datetime
    until: datetime
    subject_id: SubjectId | None
    livemode: bool


@dataclass(frozen=True, slots=True)
class RequestBacktests:
    """Writes what workers find."""

    records: Records
    commit: Commit
    clock: Callable[[], datetime]
    known_lists: KnownLists = any_list

    async def create(self, new: NewBacktest, actor: Actor) -> tuple[StoredBacktest, bool]:
        """Queue a backtest; the same id again returns the first with True.

        Raises:
            NotFound: There is no such text.
            Refused: POLICY_INVALID, IDEMPOTENCY_KEY_REUSED, VALIDATION_FAILED.
            StoreUnavailable: The outcome is unknown; the same request may be sent again.
        """
        if new.until <= new.since:
            raise _refused("/to", "The end must be after the beginning.")
        text = await self._text(new)
        await asyncio.to_thread(load, text, await self.known_lists(new.tenant_id))
        now = to_milliseconds(self.clock())
        stored = StoredBacktest(
            backtest_id=new.backtest_id,
            tenant_id=new.tenant_id,
            policy=new.policy,
            revision=new.revision,
            sha256=digest(text),
            since=new.since,
            until=min(new.until, now),
            subject_id=new.subject_id,
            livemode=new.livemode,
            created_at=now,
        )
        records = backtest_records(stored, text, new.fingerprint)
        row = _row(stored, actor, now, "was asked for")
        committed = await self.commit(Change(new.tenant_id, records, (row,)))
        if committed.record.fingerprint != new.fingerprint:
            raise key_reused()
        return StoredBacktest.from_bytes(committed.record.body), not committed.won

    async def cancel(self, record: Record, stored: StoredBacktest, actor: Actor) -> StoredBacktest:
        """End a backtest; its process ends within seconds, and one that is over stays as it is.

        Raises:
            StoreUnavailable: The outcome is unknown; the same request may be sent again.
        """
        while stored.finished_at is None:
            now = to_milliseconds(self.clock())
            update = {"status": BacktestStatus.CANCELLED, "finished_at": now}
            row, after = _row(stored, actor, now, "was cancelled"), stored.model_copy(update=update)
            try:
                return await finish(self.records, self.commit, record, after, row)
            except Conflict:  # its worker wrote its progress meanwhile
                record, stored = await load_backtest(self.records, stored.tenant_id, stored.backtest_id)
        return stored

    async def _text(self, new: NewBacktest) -> bytes:
        if new.revision is None:
            return await load_draft(self.records, new.tenant_id, new.policy)
        return (await load_revision(self.records, new.tenant_id, new.policy, new.revision))[1]


async def finish(
    records: Records, commit: Commit, record: Record, after: StoredBacktest, *rows: AuditEvent
) -> StoredBacktest:
    """Write how a backtest ended; nobody looks for it any more.

    Raises:
        Conflict: It changed since it was read.
    """
    watch = await watch_of(records, after.backtest_id)
    ended = () if watch is None else (ended_watch(watch),)
    committed = await commit(Change(after.tenant_id, (changed(record, after), *ended), rows))
    if not committed.won:
        raise Conflict(after.backtest_id)
    return after


def shown_backtest(stored: StoredBacktest) -> Backtest:
    """Return the backtest as its tenant sees it."""
    hidden = {"tenant_id", "claimed_by", "claimed_until", "since", "until"}
    own = {name: value for name, value in dict(stored).items() if name not in hidden}
    return Backtest(**own, **{"from": stored.since, "to": stored.until})


def _row(stored: StoredBacktest, actor: Actor, now: datetime, happened: str) -> AuditEvent:
    about = {"backtest_id": stored.backtest_id, "revision": stored.revision, "sha256": stored.sha256}
    return write_row(
        AuditEventId(derive_id("aud", stored.tenant_id, stored.backtest_id, happened)),
        AuditAction.POLICY_BACKTESTED,
        actor,
        stored.policy,
        now,
        detail=f"A backtest of the policy {stored.policy} {happened}.",
        changes=about,
        livemode=stored.livemode,
    )


def _refused(pointer: str, message: str) -> Refused:
    code = ProblemCode.VALIDATION_FAILED
    return Refused.because(code, message, FieldProblem(code=code, message=message, pointer=pointer))
