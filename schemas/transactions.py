"""Transactions: the vocabularies of a payment, and the request that asks about one (G39, G40)."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from ipaddress import ip_address
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, StrictInt
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticCustomError

from schemas.base import Frozen, TextForm, Timestamp, to_milliseconds
from schemas.countries import NAME_OF
from schemas.enums import DecisionOutcome, TextEnum
from schemas.money import DecimalText, Money
from schemas.problems import ProblemCode
from schemas.verifications import SubjectName


class TransactionType(TextEnum):
    """What kind of movement of money it is."""

    PAYMENT = "PAYMENT"
    TRANSFER = "TRANSFER"
    DEPOSIT = "DEPOSIT"
    WITHDRAWAL = "WITHDRAWAL"
    CARD = "CARD"
    PAYOUT = "PAYOUT"
    REFUND = "REFUND"
    EXCHANGE = "EXCHANGE"
    CRYPTO_TRANSFER = "CRYPTO_TRANSFER"
    STREAM_TICK = "STREAM_TICK"


class Direction(TextEnum):
    """Whether the money comes to the subject or leaves it."""

    INBOUND = "INBOUND"
    OUTBOUND = "OUTBOUND"


class OutcomeClass(TextEnum):
    """What a decision does with the money: it moves, it waits, it does not move."""

    GO = "GO"
    WAIT = "WAIT"
    STOP = "STOP"


OUTCOME_CLASS: Final[Mapping[DecisionOutcome, OutcomeClass]] = MappingProxyType(
    {
        DecisionOutcome.ALLOW: OutcomeClass.GO,
        DecisionOutcome.FLAG: OutcomeClass.GO,
        DecisionOutcome.WARN: OutcomeClass.GO,
        DecisionOutcome.BLOCK_RECOMMENDED: OutcomeClass.GO,
        DecisionOutcome.HOLD: OutcomeClass.WAIT,
        DecisionOutcome.REVIEW_REQUIRED: OutcomeClass.WAIT,
        DecisionOutcome.BLOCK: OutcomeClass.STOP,
        DecisionOutcome.END_STREAM: OutcomeClass.STOP,
        DecisionOutcome.SUSPEND: OutcomeClass.STOP,
    }
)
"""The outcomes in the order in which they are merged, the most severe last (G40)."""


class PartyKind(TextEnum):
    """What a party of a transaction is."""

    PERSON = "PERSON"
    ORGANISATION = "ORGANISATION"


class Chain(TextEnum):
    """The ledger a wallet belongs to."""

    BTC = "BTC"
    EVM = "EVM"
    TRON = "TRON"
    SOL = "SOL"
    OTHER = "OTHER"


class WalletRole(TextEnum):
    """Whether a wallet pays or is paid."""

    SOURCE = "SOURCE"
    DESTINATION = "DESTINATION"


_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_PARTIAL_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_FRACTION = re.compile(r"(?<=\.)\d+")
_METADATA_CHARS: Final = 512
_METADATA_BELOW: Final = 2**53
"""Where every JSON reader still tells one whole number from the next."""


def _moment(value: object) -> datetime:
    """Accept an RFC 3339 time with its zone; finer than microseconds is cut."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        try:
            return to_milliseconds(datetime.fromisoformat(_FRACTION.sub(lambda found: found[0][:6], value)))
        except (ValueError, OverflowError):
            pass
    message = "Input should be an RFC 3339 time with its zone, such as 2026-05-04T12:00:00Z"
    raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message)


def _partial_date(value: str) -> str:
    whole = value + "-01-01"[len(value) - 4 :] if _PARTIAL_DATE.fullmatch(value) else ""
    try:
        date.fromisoformat(whole)
    except ValueError:
        message = "Input should be a date such as 1970-03-12, or its year and month, or its year"
        raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message) from None
    return value


def _country(value: str) -> str:
    if value not in NAME_OF:
        message = "Input should be two capital letters such as NG (ISO 3166-1)"
        raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message)
    return value


def _address(value: str) -> str:
    try:
        return ip_address(value).compressed
    except ValueError:
        message = "Input should be an IPv4 or IPv6 address"
        raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message) from None


def _scalar(value: object) -> str | float | None:
    if value is None or (isinstance(value, str) and len(value) <= _METADATA_CHARS):
        return value
    if isinstance(value, int | float) and abs(value) < _METADATA_BELOW:
        return value
    message = "Input should be a text of at most 512 characters, a number or a boolean"
    raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message)


_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+$"
"""Text of one line."""


def _line(most: int) -> TextForm:
    return TextForm(
        min_length=1, max_length=most, pattern=_PRINTABLE, words=f"Use one line of 1 to {most} characters."
    )


Moment = Annotated[Timestamp, BeforeValidator(_moment)]
"""A time as a request gives it."""

OwnId = Annotated[str, _line(128)]
"""How the tenant or another system names a thing."""

BirthDate = Annotated[str, AfterValidator(_partial_date)]
CountryCode = Annotated[str, AfterValidator(_country)]
IpAddress = Annotated[str, AfterValidator(_address)]
MetadataKey = Annotated[
    str,
    TextForm(
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        words="Use 1 to 64 letters, digits and the characters _ . - for a key.",
    ),
]
MetadataValue = Annotated[Any, AfterValidator(_scalar)]


class Party(Frozen):
    """A party of the transaction, as the tenant knows it."""

    id: OwnId | None = None
    kind: PartyKind
    name: Annotated[str, _line(2_000)] | None = None
    birth_date: BirthDate | None = None
    country: CountryCode | None = None
    address: Annotated[str, _line(1_000)] | None = None
    email: Annotated[str, _line(320)] | None = None
    phone: Annotated[str, _line(64)] | None = None
    account: OwnId | None = None
    wallet: OwnId | None = None


class TransactionWallet(Frozen):
    """The wallet the money comes from or goes to."""

    chain: Chain
    address: OwnId
    role: WalletRole
    tx_hash: OwnId | None = None


class PaymentStream(Frozen):
    """The stream of small payments that a tick belongs to."""

    stream_id: OwnId
    sequence: Annotated[StrictInt, Field(ge=0, lt=2**53)]
    started_at: Moment
    rate_per_minute: DecimalText
    """In the currency of the amount."""


class Device(Frozen):
    """The device the transaction was ordered at."""

    id: OwnId | None = None
    ip: IpAddress | None = None
    user_agent: Annotated[str, _line(1_000)] | None = None


class TransactionRequest(Frozen):
    """The request: may this money move?"""

    subject_id: SubjectName
    type: TransactionType
    direction: Direction
    amount: Money
    base_amount: Money | None = None
    """The amount in the tenant's base currency; without it what needs it is skipped, never 0."""
    occurred_at: Moment
    reference: OwnId | None = None
    """The tenant's own id of the transaction."""
    counterparty: Party | None = None
    subject: Party | None = None
    wallet: TransactionWallet | None = None
    """Required for CRYPTO_TRANSFER."""
    stream: PaymentStream | None = None
    """Required for STREAM_TICK, and for it alone."""
    device: Device | None = None
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=32)] = Field(default_factory=dict)
