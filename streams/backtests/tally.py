"""Count how the decisions of another text differ from those that were made; pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from schemas.backtests import BacktestResult, ChangedDecision, Matrix, RuleHits
from schemas.enums import DecisionOutcome
from schemas.ids import TransactionId

MOST_EXAMPLES: Final = 50


class Tally:
    """Counts transactions one by one; `rules` are those of the other text, in its order."""

    def __init__(self, rules: Iterable[str]) -> None:
        self.evaluated = 0
        self.changed = 0
        self.unknown = 0
        self.examples: list[ChangedDecision] = []
        self._rules = tuple(rules)
        self._pairs = Counter[tuple[DecisionOutcome, DecisionOutcome]]()
        self._hits = Counter[str]()
        self._hits_before = Counter[str]()

    def add(
        self,
        about: TransactionId,
        before: DecisionOutcome,
        after: DecisionOutcome,
        hits: Sequence[str],
        hits_before: Sequence[str] = (),
    ) -> None:
        """Count a transaction that was decided `before` and is decided `after` by the other text."""
        self.evaluated += 1
        self._pairs[before, after] += 1
        self._hits.update(hits)
        self._hits_before.update(hits_before)
        if before is not after:
            self.changed += 1
            if len(self.examples) < MOST_EXAMPLES:
                changed = ChangedDecision(transaction_id=about, before=before, after=after, rules=tuple(hits))
                self.examples.append(changed)

    @property
    def matrix(self) -> Matrix:
        """Return the number of transactions by both decisions, the mildest first."""
        found: Matrix = {}
        for before in DecisionOutcome:
            row = {after: n for after in DecisionOutcome if (n := self._pairs[before, after])}
            if row:
                found[before] = row
        return found

    @property
    def rules(self) -> tuple[RuleHits, ...]:
        """Return how often each rule hit."""
        return tuple(
            RuleHits(id=rule, hits=self._hits[rule], hits_before=self._hits_before[rule])
            for rule in self._rules
        )

    @property
    def result(self) -> BacktestResult:
        """Return all of it as a backtest's result."""
        return BacktestResult(
            evaluated=self.evaluated,
            changed=self.changed,
            unknown=self.unknown,
            matrix=self.matrix,
            rules=self.rules,
            examples=tuple(self.examples),
        )
