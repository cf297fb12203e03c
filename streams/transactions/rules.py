"""Decide a transaction: policy, transaction, features and checks in, the decision out; pure (G114).

The same values give the same decision on every machine: nothing here reads a clock or draws a number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from schemas.enums import CheckKind, DecisionOutcome, Recommendation, RiskLevel
from schemas.policies import FeatureValue, FieldValue, RuleMode, RuleOutcome, RuleResult
from schemas.policy_documents import Check, Hold
from schemas.policy_fields import CheckTarget
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import ReasonCode
from schemas.transaction_decisions import (
    CheckOutcome,
    ScreenedTarget,
    ShownCheck,
    SuppressedRule,
    TransactionReason,
)
from schemas.transactions import OUTCOME_CLASS, OutcomeClass
from streams.policies.compiling import CompiledPolicy, ValueLists
from streams.policies.printing import rule_sha256
from streams.transactions.sandbox import OUTCOME_OF
from streams.verification.sandbox import Scenario

GRAVITY: Final = {outcome: gravity for gravity, outcome in enumerate(OUTCOME_CLASS)}
"""The place of each outcome in the order of G40."""

_LEVELS: Final = {level: place for place, level in enumerate(RiskLevel)}

OPENS_CASE: Final = frozenset(
    {DecisionOutcome.BLOCK_RECOMMENDED, DecisionOutcome.REVIEW_REQUIRED, DecisionOutcome.SUSPEND}
)
"""What a person must look at (G121)."""

_FOUND: Final[Mapping[tuple[CheckKind, CheckOutcome], ReasonCode]] = {
    (CheckKind.SANCTIONS, CheckOutcome.MATCH): ReasonCode.SANCTIONS_MATCH,
    (CheckKind.SANCTIONS, CheckOutcome.POSSIBLE): ReasonCode.SANCTIONS_POSSIBLE_MATCH,
    (CheckKind.PEP, CheckOutcome.MATCH): ReasonCode.PEP_MATCH,
    (CheckKind.PEP, CheckOutcome.POSSIBLE): ReasonCode.PEP_MATCH,
    (CheckKind.ADVERSE_MEDIA, CheckOutcome.MATCH): ReasonCode.ADVERSE_MEDIA_MATCH,
    (CheckKind.ADVERSE_MEDIA, CheckOutcome.POSSIBLE): ReasonCode.ADVERSE_MEDIA_MATCH,
}
"""The reason of a name check that found somebody; other checks name theirs in `findings`."""

_WITHOUT_LIST: Final = frozenset(
    {ReasonCode.LIST_MISSING, ReasonCode.LIST_STALE, ReasonCode.CHECK_UNAVAILABLE}
)
"""Findings of a check that lacked a list, or that a list did not answer."""


@dataclass(frozen=True, slots=True)
class SubjectState:
    """What lasts of earlier decisions about the subject, and the tenant's choice."""

    suspended: bool = False
    stream_ended: bool = False
    """Of the stream this tick belongs to."""
    advisory: bool = False
    """The tenant decides by itself: it is advised where others are stopped (G40)."""
    scenario: Scenario | None = None
    """Of a magic subject in test mode."""
    suppressed: Mapping[str, SuppressedRule] = field(default_factory=dict)
    """The rules that persons judged not to concern the subject or the counterparty (G120)."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision with everything that is shown of it."""

    decision: DecisionOutcome
    reasons: tuple[TransactionReason, ...]
    risk_score: int
    risk_level: RiskLevel
    rules: tuple[RuleResult, ...] = ()
    """As they were evaluated; `shown_rules` makes what is shown of them."""
    suppressed: Mapping[str, str] = field(default_factory=dict)
    """The disposition that covers the hits of a rule, by the rule's id."""
    checks: tuple[ShownCheck, ...] = ()
    recommendation: Recommendation | None = None
    """None unless it opens a case."""
    hold_for: timedelta | None = None
    on_expiry: DecisionOutcome | None = None


@dataclass(frozen=True, slots=True)
class _Claim:
    """One voice for an outcome, and its reasons."""

    outcome: DecisionOutcome
    reasons: tuple[TransactionReason, ...]


@dataclass(frozen=True, slots=True)
class _Weighed:
    """What policy, checks and rules came to."""

    claims: list[_Claim] = field(default_factory=list)
    score: int = 0
    rules: tuple[RuleResult, ...] = ()
    suppressed: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[ShownCheck, ...] = ()


def decide(
    policy: CompiledPolicy | None,
    transaction: Mapping[str, FieldValue],
    features: Mapping[str, FeatureValue],
    checks: Sequence[ShownCheck],
    state: SubjectState,
    lists: ValueLists | None = None,
) -> Decided:
    """Return the decision: the most severe of what checks, rules, score and the subject's state ask for.

    `transaction` holds the fields of `streams.transactions.fields`, the results of `checks` among them.
    Without a policy the money waits.
    """
    if state.scenario is not None:
        return _simulated(state.scenario, policy, advisory=state.advisory)
    weighed = (
        _unavailable(checks)
        if policy is None
        else _weigh(policy, transaction, features, checks, lists or {}, _suppressed(policy, state))
    )
    outcome = max(
        (claim.outcome for claim in weighed.claims), key=GRAVITY.__getitem__, default=DecisionOutcome.ALLOW
    )
    claims = list(weighed.claims)
    for ended, code in (
        (state.stream_ended, ReasonCode.STREAM_ENDED),
        (state.suspended, ReasonCode.SUBJECT_SUSPENDED),
    ):
        if ended:
            outcome = DecisionOutcome.BLOCK
            claims.insert(0, _Claim(DecisionOutcome.SUSPEND, (reason_of(code),)))
    if state.advisory and OUTCOME_CLASS[outcome] is OutcomeClass.STOP:
        outcome = DecisionOutcome.BLOCK_RECOMMENDED
    ordered = sorted(claims, key=lambda claim: -GRAVITY[claim.outcome])
    reasons = tuple(dict.fromkeys(reason for claim in ordered for reason in claim.reasons))
    return _with_consequences(outcome, reasons, policy, weighed)


def reason_of(code: ReasonCode) -> TransactionReason:
    """Return a reason of the catalogue with the text that the payer may see."""
    return TransactionReason(code=code, message=CATALOGUE[code].subject_message)


def _with_consequences(
    outcome: DecisionOutcome,
    reasons: tuple[TransactionReason, ...],
    policy: CompiledPolicy | None,
    weighed: _Weighed,
) -> Decided:
    hold = Hold() if policy is None else policy.document.hold
    waits = outcome is DecisionOutcome.HOLD
    matched = any(check.result is CheckOutcome.MATCH for check in weighed.checks)
    return Decided(
        decision=outcome,
        reasons=reasons,
        risk_score=weighed.score,
        risk_level=_risk_level(outcome, policy, weighed),
        rules=weighed.rules,
        suppressed=weighed.suppressed,
        checks=weighed.checks,
        recommendation=_recommendation(outcome, matched=matched),
        hold_for=hold.expires_after if waits else None,
        on_expiry=hold.on_expiry if waits else None,
    )


def _recommendation(outcome: DecisionOutcome, *, matched: bool) -> Recommendation | None:
    if outcome not in OPENS_CASE:
        return None
    if matched or outcome is not DecisionOutcome.REVIEW_REQUIRED:
        return Recommendation.REJECTED
    return Recommendation.APPROVED


def _risk_level(outcome: DecisionOutcome, policy: CompiledPolicy | None, weighed: _Weighed) -> RiskLevel:
    """Return the level of the score, at least HIGH where the money does not move, CRITICAL if listed."""
    listed = any(
        check.check is CheckKind.SANCTIONS and check.result is CheckOutcome.MATCH for check in weighed.checks
    )
    if listed:
        return RiskLevel.CRITICAL
    risk = {} if policy is None else policy.document.risk
    levels = [RiskLevel.LOW, *(level for level, least in risk.items() if weighed.score >= least)]
    if OUTCOME_CLASS[outcome] is not OutcomeClass.GO:
        levels.append(RiskLevel.HIGH)
    return max(levels, key=_LEVELS.__getitem__)


def _unavailable(checks: Sequence[ShownCheck]) -> _Weighed:
    claim = _Claim(DecisionOutcome.HOLD, (reason_of(ReasonCode.POLICY_UNAVAILABLE),))
    return _Weighed(claims=[claim], checks=tuple(checks))


def _weigh(
    policy: CompiledPolicy,
    transaction: Mapping[str, FieldValue],
    features: Mapping[str, FeatureValue],
    checks: Sequence[ShownCheck],
    lists: ValueLists,
    suppressed: Mapping[str, str],
) -> _Weighed:
    results = policy.evaluate(transaction, features, lists)
    judged = tuple(_judged(check, policy.document.checks) for check in checks)
    counted = [
        one
        for one in results
        if one.result is RuleOutcome.ERROR or (one.result is RuleOutcome.HIT and one.id not in suppressed)
    ]
    score = sum(result.score for result in counted if _counts(result))
    claims = [*_claims_of_checks(judged), *_claims_of_rules(counted), *_claims_of_score(policy, score)]
    return _Weighed(claims, score, results, suppressed, judged)


def _suppressed(policy: CompiledPolicy, state: SubjectState) -> Mapping[str, str]:
    """Return the dispositions by the rules they are about; one of another state of a rule covers nothing."""
    return {
        rule_id: one.disposition_id
        for rule_id, one in state.suppressed.items()
        if rule_sha256(policy.document, rule_id) == one.rule_sha256
    }


def _judged(shown: ShownCheck, checks: Iterable[Check]) -> ShownCheck:
    """Return the check with what the policy makes of its result; a wallet's was assessed before."""
    if shown.target is ScreenedTarget.WALLET:
        return shown
    target = CheckTarget(shown.target.value)
    check = next((one for one in checks if one.check is shown.check and target in one.targets), None)
    return shown if check is None else shown.model_copy(update={"decision": _decision_of(check, shown)})


def _decision_of(check: Check, shown: ShownCheck) -> DecisionOutcome | None:
    """Return what the policy makes of a result; where a list was lacking `on_error` has a say too."""
    found = _decision_of_result(check, shown)
    if found is None or _WITHOUT_LIST.isdisjoint(shown.findings):
        return found
    return max(found, check.on_error, key=GRAVITY.__getitem__)


def _decision_of_result(check: Check, shown: ShownCheck) -> DecisionOutcome | None:
    match shown.result:
        case CheckOutcome.MATCH:
            counted = not check.findings or bool(set(check.findings) & set(shown.findings))
            return check.on_match if counted else None
        case CheckOutcome.POSSIBLE:
            return check.on_possible or check.on_match
        case CheckOutcome.ERROR:
            return check.on_error
        case CheckOutcome.CLEAR | CheckOutcome.NOT_EVALUATED:
            return None


def _claims_of_checks(checks: Iterable[ShownCheck]) -> Iterator[_Claim]:
    for check in checks:
        if check.decision is not None:
            found = (
                _FOUND.get((check.check, check.result)) if check.target is not ScreenedTarget.WALLET else None
            )
            codes = check.findings if found is None else (found,)
            yield _Claim(check.decision, tuple(reason_of(code) for code in codes))


def _claims_of_rules(results: Iterable[RuleResult]) -> Iterator[_Claim]:
    for result in results:
        if result.mode is not RuleMode.ACTIVE:
            continue
        if result.result is RuleOutcome.ERROR:
            yield _Claim(DecisionOutcome.HOLD, (reason_of(_cause(result)),))
        elif result.result is RuleOutcome.HIT and result.reason is not None:
            reason = TransactionReason(code=result.reason.code, message=result.reason.message)
            yield _Claim(result.decision or DecisionOutcome.ALLOW, (reason,))


def _cause(result: RuleResult) -> ReasonCode:
    """Return why a rule is an ERROR: a list is not loaded, or a feature it reads is not available."""
    features_alone = all(name in result.inputs for name in result.missing)
    return ReasonCode.CHECK_UNAVAILABLE if features_alone else ReasonCode.LIST_MISSING


def _claims_of_score(policy: CompiledPolicy, score: int) -> Iterator[_Claim]:
    for outcome, least in policy.document.score.items():
        if score >= least:
            yield _Claim(outcome, (reason_of(ReasonCode.SCORE_THRESHOLD),))


def _counts(result: RuleResult) -> bool:
    return result.mode is RuleMode.ACTIVE and result.result is RuleOutcome.HIT


def _simulated(scenario: Scenario, policy: CompiledPolicy | None, *, advisory: bool) -> Decided:
    """Return the decision that a magic subject asks for; no check and no rule has a say."""
    outcome = OUTCOME_OF[scenario.name]
    if advisory and OUTCOME_CLASS[outcome] is OutcomeClass.STOP:
        outcome = DecisionOutcome.BLOCK_RECOMMENDED
    reasons = () if scenario.reason is None else (reason_of(scenario.reason),)
    return _with_consequences(outcome, reasons, policy, _Weighed())
