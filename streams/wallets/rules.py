"""Conclude the risk of a wallet from where it is listed and from its taint (G41, G123, G124); pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Final

from schemas.enums import DecisionOutcome, RiskLevel
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import ReasonCode
from schemas.transactions import Chain
from schemas.verifications import Reason
from schemas.wallets import Coverage, Exposure, ExposureType, Listing, WalletFormat, WalletRisk
from streams.wallets.ledger import MAX_EDGES, Path, Taint
from streams.wallets.ports import ListedWallets

_PLACES: Final = 6
_LISTED_SCORE: Final = 100
_MAX_INDIRECT_SCORE: Final = 90
_EXPOSED_SCORE: Final = 40
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which share of listed money a wallet is exposed; a policy may set others."""

    block_share: Decimal = Decimal("0.10")
    flag_share: Decimal = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class _Grade:
    """The level, the score and the decision of a risk."""

    level: RiskLevel
    score: int
    decision: DecisionOutcome


def assess(
    form: WalletFormat, direct: Sequence[Listing], taint: Taint, lists: ListedWallets, thresholds: Thresholds
) -> WalletRisk:
    """Return the risk of a wallet; where no list is loaded nothing is cleared."""
    grade = _grade(direct, taint, thresholds, missing=not lists.clears)
    exposures = (*_direct(direct), *_indirect(taint.paths))
    codes = []
    if direct:
        codes.append(ReasonCode.WALLET_LISTED)
    if grade.decision is not DecisionOutcome.ALLOW and taint.paths:
        codes.append(ReasonCode.WALLET_EXPOSED)
    if not lists.versions:
        codes.append(ReasonCode.LIST_MISSING)
    if form is WalletFormat.UNVERIFIED:
        codes.append(ReasonCode.WALLET_UNVERIFIED)
    return WalletRisk(
        sanctioned=any(listing.sanctions for listing in direct),
        risk_level=grade.level,
        score=grade.score,
        decision=grade.decision,
        exposures=exposures,
        reasons=tuple(Reason(code=code, message=CATALOGUE[code].subject_message) for code in codes),
    )


def coverage(chain: Chain, taint: Taint, lists: ListedWallets) -> Coverage:
    """Return what was looked at; the note says what was not."""
    sentences = [
        "Absence from the lists and the ledger is not clearance.",
        "The ledger is of your own transfers alone, two hops deep.",
    ]
    if not lists.versions:
        sentences.insert(0, "No list of wallets is loaded: the address was compared with nothing.")
    if chain is Chain.SOL:
        sentences.append("Addresses of this chain have no checksum: a mistyped one is another wallet.")
    if chain is Chain.OTHER:
        sentences.append("The format of the address was not checked.")
    if taint.cut:
        sentences.append(f"A wallet has more than {MAX_EDGES} sources: the heaviest were followed.")
    if taint.unweighted:
        sentences.append(f"{taint.unweighted} transfers without a base amount were left out.")
    return Coverage(lists=tuple(sorted(lists.versions)), note=" ".join(sentences))


def _grade(direct: Sequence[Listing], taint: Taint, thresholds: Thresholds, *, missing: bool) -> _Grade:
    if any(listing.official for listing in direct):
        return _Grade(RiskLevel.CRITICAL, _LISTED_SCORE, DecisionOutcome.BLOCK)
    official = taint.share(official=True)
    share = Fraction(1) if direct else taint.share(official=False)
    if official >= Fraction(thresholds.block_share):
        return _Grade(RiskLevel.HIGH, _score(share), DecisionOutcome.BLOCK_RECOMMENDED)
    if (share and share >= Fraction(thresholds.flag_share)) or missing:
        return _Grade(RiskLevel.MEDIUM, _score(share), DecisionOutcome.FLAG)
    return _Grade(RiskLevel.LOW, round(_PERCENT * share), DecisionOutcome.ALLOW)


def _score(share: Fraction) -> int:
    return min(_MAX_INDIRECT_SCORE, round(_PERCENT * share) + _EXPOSED_SCORE)


def _direct(listings: Iterable[Listing]) -> list[Exposure]:
    return [_exposure(ExposureType.DIRECT, listing, 0, Fraction(1)) for listing in listings]


def _indirect(paths: Sequence[Path]) -> list[Exposure]:
    """Return one exposure a listed entity, the largest share first."""
    ways: dict[tuple[str, str, str | None], list[tuple[Path, Listing]]] = {}
    for path in paths:
        for listing in path.listings:
            ways.setdefault((listing.list, listing.category, listing.entity_id), []).append((path, listing))
    found = []
    for of_entity in ways.values():
        heaviest, listing = max(of_entity, key=lambda way: (way[0].share, -way[0].hops))
        share = sum((path.share for path, _ in of_entity), Fraction(0))
        found.append((share, _exposure(ExposureType.INDIRECT, listing, heaviest.hops, share)))
    return [
        exposure for _, exposure in sorted(found, key=lambda one: (-one[0], one[1].list, one[1].category))
    ]


def _exposure(kind: ExposureType, listing: Listing, hops: int, share: Fraction) -> Exposure:
    return Exposure(
        type=kind,
        category=listing.category,
        hops=hops,
        share=_written(share),
        list=listing.list,
        entity_id=listing.entity_id,
        entity_name=listing.entity_name,
    )


def _written(share: Fraction) -> str:
    """Return the share as a decimal of six places, half to even, without zeros at its end."""
    millionths = round(share * 10**_PLACES)
    number = Decimal(millionths).scaleb(-_PLACES).quantize(Decimal("0.000001"), ROUND_HALF_EVEN)
    return f"{number:f}".rstrip("0").rstrip(".")
