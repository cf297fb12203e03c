"""Decide by another text what was decided: beside the decision, or from what was stored; pure (G115)."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from schemas.policies import Feature, FeatureKey, FeatureValue, FieldValue, RuleOutcome
from schemas.policy_documents import PolicyDocument
from schemas.transaction_decisions import (
    CheckOutcome,
    Circumstances,
    ScreenedTarget,
    ShadowOutcome,
    ShownCheck,
)
from schemas.transactions import TransactionRequest
from streams.policies.compiling import CompiledPolicy, ValueLists
from streams.transactions.features import Earlier, values
from streams.transactions.fields import fields_of
from streams.transactions.identity import IDENTITY_FIELDS
from streams.transactions.row import VelocityEvent
from streams.transactions.rules import Decided, SubjectState, decide
from streams.verification.sandbox import Scenario


@dataclass(frozen=True, slots=True)
class Judged:
    """A decision, what it was made from, and what another text would have decided."""

    decided: Decided
    circumstances: Circumstances | None = None
    shadow: ShadowOutcome | None = None


class EvaluatedRule(Protocol):
    """What a rule came to, now or then; a comparison needs nothing of what it read."""

    @property
    def id(self) -> str:
        """Its id in the text."""
        ...

    @property
    def result(self) -> RuleOutcome:
        """What it came to."""
        ...

    @property
    def missing(self) -> tuple[str, ...]:
        """Of an ERROR the features and lists that were not there."""
        ...


class AskedList:
    """A list of values that remembers what it was asked."""

    def __init__(self, members: Container[str]) -> None:
        self._members = members
        self.answers: dict[str, bool] = {}

    def __contains__(self, value: object) -> bool:
        """Return whether the value is on the list."""
        if not isinstance(value, str):
            return False
        self.answers[value] = value in self._members
        return self.answers[value]


@dataclass(frozen=True, slots=True)
class Past:
    """A stored transaction as another text sees it."""

    request: TransactionRequest
    checks: tuple[ShownCheck, ...] = ()
    circumstances: Circumstances = field(default_factory=Circumstances)
    scenario: Scenario | None = None

    @property
    def lists(self) -> ValueLists:
        """The values that each list was found to have."""
        return {
            name: frozenset(value for value, is_on in answers.items() if is_on)
            for name, answers in self.circumstances.lists.items()
        }


def decide_again(
    policy: CompiledPolicy, past: Past, features: Mapping[str, FeatureValue], lists: ValueLists | None = None
) -> Decided:
    """Return what the text decides, by check results and circumstances as they were.

    Without `lists` each list has the values that it was found to have then.
    """
    then = past.circumstances
    checks = checks_for(policy.document, past.checks)
    state = SubjectState(then.suspended, then.stream_ended, then.advisory, past.scenario, then.suppressed)
    fields = fields_of(past.request, checks) | then.fields
    return decide(policy, fields, features, checks, state, past.lists if lists is None else lists)


def circumstances_of(state: SubjectState, read: Mapping[str, FieldValue], after: str) -> Circumstances:
    """Return what is stored of the state that a decision was made in."""
    return Circumstances(
        suspended=state.suspended,
        stream_ended=state.stream_ended,
        advisory=state.advisory,
        fields=dict(read),
        suppressed=dict(state.suppressed),
        after=after,
    )


_BESIDE: Final = "beside."
"""Begins the names of features that only the text beside the published one has; none of a policy does so."""


def keyed_features_beside(published: CompiledPolicy, shadow: CompiledPolicy | None) -> tuple[Feature, ...]:
    """Return the features by other keys than the subject that the text beside has and the published has not.

    They have names of their own, because both texts may use one name for two features.
    """
    if shadow is None:
        return ()
    known = {_definition(one) for one in published.features}
    return tuple(
        one.model_copy(update={"name": _BESIDE + one.name})
        for one in shadow.features
        if one.key is not FeatureKey.SUBJECT_ID and _definition(one) not in known
    )


def features_beside(
    policy: CompiledPolicy, published: CompiledPolicy, earlier: Earlier, event: VelocityEvent
) -> dict[str, FeatureValue]:
    """Return the features of a text that runs beside the published one, over the same rows."""
    own = [one for one in policy.features if one.key is FeatureKey.SUBJECT_ID]
    names = {_definition(one): one.name for one in published.features}
    others = {
        one.name: earlier.by_keys[names.get(_definition(one), _BESIDE + one.name)]
        for one in policy.features
        if one.key is not FeatureKey.SUBJECT_ID
    }
    return {**values(own, earlier.row, event), **others}


def _definition(feature: Feature) -> Feature:
    return feature.model_copy(update={"name": ""})


def outcome_of(policy: CompiledPolicy, decided: Decided) -> ShadowOutcome:
    """Return a decision of another text as it is shown."""
    return ShadowOutcome(
        revision=policy.revision or None,
        sha256=policy.sha256,
        decision=decided.decision,
        risk_score=decided.risk_score,
        rules=hits_of(decided.rules),
    )


def hits_of(rules: Iterable[EvaluatedRule]) -> tuple[str, ...]:
    """Return the rules that hit, those of mode SHADOW among them."""
    return tuple(rule.id for rule in rules if rule.result is RuleOutcome.HIT)


def is_unknown(policy: CompiledPolicy, past: Past, decided: Decided, before: Sequence[EvaluatedRule]) -> bool:
    """Return whether the text named a check, field or list that was not looked at then."""
    if past.scenario is not None:
        return False
    request, made = past.request, {(one.check, one.target) for one in past.checks}
    for check in policy.document.checks:
        for target in check.targets:
            is_made = (check.check, ScreenedTarget(target)) in made
            if getattr(request, target) is not None and not is_made:
                return True
    if request.wallet is not None and all(target is not ScreenedTarget.WALLET for _, target in made):
        return True
    if not past.circumstances.fields.keys() >= IDENTITY_FIELDS.intersection(policy.names):
        return True
    return not _unloaded(decided.rules) <= _unloaded(before)


def _unloaded(rules: Iterable[EvaluatedRule]) -> set[str]:
    return {name for rule in rules if rule.result is RuleOutcome.ERROR for name in rule.missing}


def checks_for(document: PolicyDocument, made: Sequence[ShownCheck]) -> tuple[ShownCheck, ...]:
    """Return the results for the checks of a text; one that was not made is NOT_EVALUATED.

    A result stays what it was by the thresholds it was made with; what it asks for is the text's choice. The
    wallet's row stays whole.
    """
    found = {(one.check, one.target): one for one in made}
    results = []
    for check in document.checks:
        for place in check.targets:
            target = ScreenedTarget(place)
            none = ShownCheck(check=check.check, target=target, result=CheckOutcome.NOT_EVALUATED)
            one = found.get((check.check, target), none)
            results.append(one.model_copy(update={"decision": None}))
    return (*results, *(one for one in made if one.target is ScreenedTarget.WALLET))
