"""Report how the text beside the published policy would have decided, from the stored transactions (G115)."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from schemas.backtests import ShadowReport, ShadowRuleHits
from schemas.enums import DecisionOutcome
from schemas.ids import TenantId, TransactionId
from schemas.policies import RuleMode
from schemas.policy_records import StoredShadow
from schemas.problems import NotFound, Refused
from streams.backtests.tally import Tally
from streams.policies.loading import load
from streams.policies.storage import load_policy, load_shadow
from streams.ports.records import Position, Record, RecordKind, Records
from streams.verification.records import by_mode

MOST_READ: Final = 50_000
"""Transactions of a mode that one report reads, the newest: `since` then says from when on they are."""

PAGE: Final = 500


class _Shadow(msgspec.Struct):
    sha256: str
    decision: DecisionOutcome
    rules: list[str]


class _Decided(msgspec.Struct):
    transaction_id: str
    shadow: _Shadow | None = None


class _Step(msgspec.Struct):
    decision: DecisionOutcome


class _Stored(msgspec.Struct):
    """The part of a stored transaction that a report reads."""

    transaction: _Decided
    decisions: list[_Step]


_READ: Final = msgspec.json.Decoder(_Stored)


async def report_shadow(
    records: Records, tenant_id: TenantId, policy: str, modes: Sequence[bool]
) -> ShadowReport:
    """Return how often and how the shadow differs from what was decided.

    Raises:
        NotFound: No text runs beside the published one.
        StoreUnavailable: The store cannot be read for now.
    """
    shadow = (await load_policy(records, tenant_id, policy)).stored.shadow
    if shadow is None:
        raise NotFound(policy)
    tally = Tally(await _rules(records, tenant_id, policy))
    since = shadow.since
    for livemode in modes:
        read = 0
        async for record in _newest(records, tenant_id, shadow.since, livemode=livemode):
            if read == MOST_READ:
                since = max(since, record.created_at)
                break
            _count(tally, record, shadow)
            read += 1
    return ShadowReport(
        since=since,
        evaluated=tally.evaluated,
        changed=tally.changed,
        matrix=tally.matrix,
        rules=tuple(ShadowRuleHits(id=one.id, hits=one.hits) for one in tally.rules),
        examples=tuple(tally.examples),
    )


def _count(tally: Tally, record: Record, shadow: StoredShadow) -> None:
    stored = _READ.decode(record.body)
    found = stored.transaction.shadow
    if found is not None and found.sha256 == shadow.sha256:
        about = TransactionId(stored.transaction.transaction_id)
        tally.add(about, stored.decisions[0].decision, found.decision, found.rules)


async def _rules(records: Records, tenant_id: TenantId, policy: str) -> list[str]:
    """Return the rules of the shadow; none if its text does not load any more."""
    try:
        document = load(await load_shadow(records, tenant_id, policy))
    except Refused:
        return []
    return [rule.id for rule in document.rules if rule.mode is not RuleMode.DISABLED]


async def _newest(
    records: Records, tenant_id: TenantId, since: datetime, *, livemode: bool
) -> AsyncIterator[Record]:
    """Yield the transactions of a mode that were decided since then, the newest first."""
    kind, index, before = RecordKind.TRANSACTION, by_mode(livemode), None
    page: Sequence[Record]
    while page := await records.page(tenant_id, kind, index, limit=PAGE, before=before):
        for record in page:
            if record.created_at < since:
                return
            yield record
        before = Position(page[-1].created_at, page[-1].id)
