"""The fields of a transaction that rules may read, with their types and words (G112)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from schemas.enums import CheckKind, RiskLevel, TextEnum, VerificationStatus
from schemas.reasons import ReasonCode
from schemas.transactions import Direction, TransactionType


class FieldType(TextEnum):
    """The type of a field or feature, which decides the operators and values it takes."""

    STRING = "STRING"
    MONEY = "MONEY"
    """Written as a decimal string."""
    NUMBER = "NUMBER"
    BOOLEAN = "BOOLEAN"
    WORDS = "WORDS"
    """Several words of a vocabulary."""


class MetadataType(TextEnum):
    """The type that a policy declares for a key of a transaction's metadata."""

    STRING = "STRING"
    NUMBER = "NUMBER"
    BOOLEAN = "BOOLEAN"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What is known of a field."""

    type: FieldType
    words: frozenset[str] = frozenset()
    """The closed vocabulary of a STRING or WORDS field; empty: any text."""
    personal: bool = False
    """Personal data, which no reason may repeat (G114)."""


class CheckTarget(TextEnum):
    """Whom a check of a policy looks at."""

    COUNTERPARTY = "counterparty"
    SUBJECT = "subject"


NAME_CHECKS: Final = (CheckKind.SANCTIONS, CheckKind.PEP, CheckKind.ADVERSE_MEDIA)
"""The checks that compare names with lists."""
CONTACT_CHECKS: Final = (CheckKind.PHONE, CheckKind.EMAIL, CheckKind.ADDRESS)
"""The checks of telephone numbers, e-mail and postal addresses."""
POLICY_CHECKS: Final = NAME_CHECKS + CONTACT_CHECKS
"""The checks a policy may name; the others belong to verifications."""
CHECK_RESULTS: Final = ("CLEAR", "POSSIBLE", "MATCH", "ERROR", "NOT_EVALUATED")
"""What a check can come to (G39), the words of `checks.<CHECK>.<target>`."""
WALLET_CHECK_FIELD: Final = "checks.SANCTIONS.wallet"
"""The assessment of the transaction's wallet, which needs no entry under `checks`."""


def findings_of(check: CheckKind) -> tuple[ReasonCode, ...]:
    """Return what a contact check may find."""
    if check not in CONTACT_CHECKS:
        return ()
    return tuple(code for code in ReasonCode if code.startswith(f"{check}_"))


def _words(words: Iterable[str]) -> FieldSpec:
    return FieldSpec(FieldType.STRING, frozenset(str(word) for word in words))


_TEXT: Final = FieldSpec(FieldType.STRING)
_PERSONAL: Final = FieldSpec(FieldType.STRING, personal=True)
_MONEY: Final = FieldSpec(FieldType.MONEY)
_NUMBER: Final = FieldSpec(FieldType.NUMBER)
_CHECK_RESULT: Final = _words(CHECK_RESULTS)

_PARTY: Final = {
    "id": _PERSONAL,
    "kind": _words(("PERSON", "ORGANISATION")),
    "name": _PERSONAL,
    "country": _TEXT,
    "account": _PERSONAL,
    "phone": _PERSONAL,
    "email": _PERSONAL,
    "wallet": _PERSONAL,
}

FIELDS: Final[Mapping[str, FieldSpec]] = MappingProxyType(
    {
        "type": _words(TransactionType),
        "direction": _words(Direction),
        "amount": _MONEY,
        "currency": _TEXT,
        "base_amount": _MONEY,
        "base_currency": _TEXT,
        "hour": _NUMBER,
        "weekday": _NUMBER,
        "reference": _PERSONAL,
        **{f"{party}.{name}": spec for party in CheckTarget for name, spec in _PARTY.items()},
        "wallet.chain": _words(("BTC", "EVM", "TRON", "SOL", "OTHER")),
        "wallet.address": _PERSONAL,
        "wallet.role": _words(("SOURCE", "DESTINATION")),
        "wallet.sanctioned": FieldSpec(FieldType.BOOLEAN),
        "wallet.risk_level": _words(RiskLevel),
        "wallet.score": _NUMBER,
        "stream.sequence": _NUMBER,
        "stream.rate_per_minute": _MONEY,
        "stream.elapsed_s": _NUMBER,
        "device.id": _PERSONAL,
        "device.ip": _PERSONAL,
        "subject.verification_status": _words(VerificationStatus),
        "subject.verification_risk": _words(RiskLevel),
        "subject.verified_country": _TEXT,
        "subject.age_days": _NUMBER,
        "findings": FieldSpec(
            FieldType.WORDS,
            frozenset(str(code) for check in CONTACT_CHECKS for code in findings_of(check)),
        ),
        WALLET_CHECK_FIELD: _CHECK_RESULT,
        **{f"checks.{check}.{target}": _CHECK_RESULT for check in POLICY_CHECKS for target in CheckTarget},
    }
)
"""The fields of every policy. `hour` is 0-23 and `weekday` 1 (Monday) to 7, both of `occurred_at` in UTC."""

METADATA_PREFIX: Final = "metadata."


def field_spec(name: str, metadata: Mapping[str, MetadataType]) -> FieldSpec | None:
    """Return what is known of a field, among them the declared metadata, or None if there is none."""
    if not name.startswith(METADATA_PREFIX):
        return FIELDS.get(name)
    declared = metadata.get(name.removeprefix(METADATA_PREFIX))
    return None if declared is None else FieldSpec(FieldType(declared), personal=True)
