"""Decide the stored transactions of a span again by another text, and compare (G115).

It only reads: features are computed anew from the stored transactions, check results and what lasted of the
subject are as they were, and earlier transactions count with the answer that was given. The velocity rows of
every key of the span are in memory, few of them decoded at once.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from schemas.backtests import BacktestProgress, BacktestResult, StoredBacktest
from schemas.ids import TransactionId
from schemas.policies import FeatureKey, FeatureValue, RuleMode
from schemas.transaction_decisions import Circumstances
from schemas.transactions import TransactionRequest
from streams.backtests.past import StoredSpan
from streams.backtests.tally import Tally
from streams.policies.compiling import CompiledPolicy
from streams.ports.stores import Stores
from streams.transactions import row as velocity_row
from streams.transactions.comparing import Past, decide_again, hits_of, is_unknown
from streams.transactions.features import values
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.opening import FirstDecision
from streams.transactions.row import VelocityEvent, VelocityRow
from streams.transactions.sandbox import scenario_for
from streams.transactions.velocity import REBUILT_FROM, event_of
from streams.verification.records import Index, by_mode, by_subject

MOST_DECODED: Final = 512

Key = tuple[FeatureKey, str]
EVERY_S: Final = 1.0
"""Between two reports of the progress."""

Tell = Callable[[BacktestProgress], None]


class SpanRows:
    """Rows by kind of key and value."""

    def __init__(self) -> None:
        self._decoded = OrderedDict[Key, VelocityRow]()
        self._encoded: dict[Key, bytes] = {}

    def row(self, key: Key) -> VelocityRow:
        """Return the row of a key; a new one knows of nothing."""
        row = self._decoded.get(key)
        if row is None:
            encoded = self._encoded.pop(key, None)
            row = VelocityRow() if encoded is None else velocity_row.decode(encoded)
            self._decoded[key] = row
            if len(self._decoded) > MOST_DECODED:
                oldest, other = self._decoded.popitem(last=False)
                self._encoded[oldest] = velocity_row.encode(other)
        self._decoded.move_to_end(key)
        return row

    def add(self, key: Key, about: str, event: VelocityEvent) -> None:
        """Count a transaction in the row of a key, once."""
        velocity_row.add(self.row(key), about, event)


@dataclass(slots=True)
class Replay:
    """One run of a backtest."""

    stores: Stores
    hashes: KeyedHashes
    policy: CompiledPolicy
    job: StoredBacktest
    tell: Tell = lambda _: None
    _rows: SpanRows = field(default_factory=SpanRows)

    async def run(self) -> BacktestResult:
        """Return how the text decides the transactions of the span.

        Raises:
            StoreUnavailable: The transactions cannot be read for now.
        """
        rules = self.policy.document.rules
        tally = Tally(rule.id for rule in rules if rule.mode is not RuleMode.DISABLED)
        job = self.job
        span = StoredSpan(self.stores, job.tenant_id, self._index(), job.since - REBUILT_FROM, job.until)
        self.tell(BacktestProgress(total=None))
        starts, total = await span.pages(job.since)
        done, reported_at = 0, time.monotonic()
        async for one in span.oldest_first(starts):
            request, about = one.opened.request, TransactionId(one.record.id)
            event = event_of(self.hashes, job.tenant_id, request, one.opened.outcome)
            if one.opened.decided is not None and one.record.created_at >= job.since:
                done += 1
                if job.subject_id in (None, request.subject_id):
                    self._decide(about, request, one.opened.decided, event, tally)
            for key in self._keys(request):
                self._rows.add(key, about, event)
            if time.monotonic() - reported_at >= EVERY_S:
                self.tell(BacktestProgress(done=done, total=total))
                reported_at = time.monotonic()
        self.tell(BacktestProgress(done=done, total=total))
        return tally.result

    def _decide(
        self,
        about: TransactionId,
        request: TransactionRequest,
        first: FirstDecision,
        event: VelocityEvent,
        tally: Tally,
    ) -> None:
        scenario = scenario_for(request.subject_id, livemode=self.job.livemode)
        past = Past(request, first.checks, first.circumstances or Circumstances(), scenario)
        decided = decide_again(self.policy, past, self._features(request, event))
        if is_unknown(self.policy, past, decided, first.rules):
            tally.unknown += 1
        tally.add(about, first.decision, decided.decision, hits_of(decided.rules), hits_of(first.rules))

    def _features(self, request: TransactionRequest, event: VelocityEvent) -> dict[str, FeatureValue]:
        found = {feature.name: FeatureValue(None) for feature in self.policy.features}
        for key in self._keys(request):
            own = [feature for feature in self.policy.features if feature.key is key[0]]
            found |= values(own, self._rows.row(key), event)
        return found

    def _index(self) -> Index:
        """Return the shortest list that holds every transaction that the text's features count."""
        job, kinds = self.job, {feature.key for feature in self.policy.features}
        if job.subject_id is not None and kinds <= {FeatureKey.SUBJECT_ID}:
            return by_subject(job.livemode, job.subject_id)
        return by_mode(job.livemode)

    def _keys(self, request: TransactionRequest) -> Iterator[Key]:
        """Yield the keys of a transaction that the text's features look at."""
        for kind in dict.fromkeys(feature.key for feature in self.policy.features):
            found: object = request
            for name in kind.split("."):
                found = getattr(found, name, None)
            if isinstance(found, str):
                yield kind, found
