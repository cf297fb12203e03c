"""Wallets: addresses of five kinds of chain, their rules, and the assessment of one (G41, G123, G124)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import StringConstraints

from schemas.base import Frozen, TextForm, Timestamp
from schemas.enums import DecisionOutcome, RiskLevel, TextEnum
from schemas.ids import AssessmentId, SubjectId
from schemas.transactions import Chain, Direction
from schemas.verifications import Reason, SubjectName

ADDRESS_MAX_CHARS: Final = 1_000
"""Longest text that is looked at; an address of any chain is shorter, and says LENGTH."""


class WalletFormat(TextEnum):
    """How an address is written."""

    P2PKH = "P2PKH"
    P2SH = "P2SH"
    P2WPKH = "P2WPKH"
    P2WSH = "P2WSH"
    P2TR = "P2TR"
    SEGWIT_FUTURE = "SEGWIT_FUTURE"
    """A witness version without a meaning yet."""
    EVM_HEX = "EVM_HEX"
    TRON_BASE58 = "TRON_BASE58"
    TRON_HEX = "TRON_HEX"
    SOL_BASE58 = "SOL_BASE58"
    UNVERIFIED = "UNVERIFIED"
    """Of another chain: taken as it is."""


class AddressRule(TextEnum):
    """The rule an address fails."""

    EMPTY = "EMPTY"
    LENGTH = "LENGTH"
    CHARSET = "CHARSET"
    MIXED_CASE = "MIXED_CASE"
    CHECKSUM = "CHECKSUM"
    VERSION = "VERSION"
    WITNESS_VERSION = "WITNESS_VERSION"
    WITNESS_LENGTH = "WITNESS_LENGTH"
    PADDING = "PADDING"
    NETWORK = "NETWORK"
    CHAIN_MISMATCH = "CHAIN_MISMATCH"
    UNKNOWN_FORMAT = "UNKNOWN_FORMAT"


WORDS_OF: Final[Mapping[AddressRule, str]] = MappingProxyType(
    {
        AddressRule.EMPTY: "The address is empty.",
        AddressRule.LENGTH: "No address of the chain has this length.",
        AddressRule.CHARSET: "A character of it stands in no address of the chain; space around it counts.",
        AddressRule.MIXED_CASE: "The address mixes lower and upper case, which BIP-173 does not allow.",
        AddressRule.CHECKSUM: "The checksum does not fit: a character is wrong.",
        AddressRule.VERSION: "Its version byte is of no kind of address that is known.",
        AddressRule.WITNESS_VERSION: "Its witness version is above 16.",
        AddressRule.WITNESS_LENGTH: "Its witness program has a length that its version does not allow.",
        AddressRule.PADDING: "The bits after its witness program are not four zeros at most.",
        AddressRule.NETWORK: "It is an address of a test network.",
        AddressRule.CHAIN_MISMATCH: "It is an address of another chain than the one given.",
        AddressRule.UNKNOWN_FORMAT: "It has the form of no chain that is known.",
    }
)


class AddressInvalid(ValueError):
    """The address fails the rule."""

    def __init__(self, rule: AddressRule) -> None:
        super().__init__(WORDS_OF[rule])
        self.rule = rule


class WalletAddress(Frozen):
    """An address that keeps the rules of its chain."""

    normalized: str
    """The one spelling of the wallet; what lists are asked for."""
    chain: Chain
    format: WalletFormat


class ExposureType(TextEnum):
    """Whether a wallet is listed itself, or money of a listed one reached it."""

    DIRECT = "DIRECT"
    INDIRECT = "INDIRECT"


class Listing(Frozen):
    """That a wallet stands on a list."""

    list: str
    category: str
    entity_id: str | None = None
    entity_name: str | None = None
    sanctions: bool = False
    """Whether it is a list of sanctions."""
    official: bool = True
    """Whether the list blocks; one that nobody answers for flags (UNOFFICIAL, G124)."""


class Exposure(Frozen):
    """How a wallet touches a listed one."""

    type: ExposureType
    category: str
    hops: int
    """0 direct; else those of the heaviest path."""
    share: str
    """What part of what came in is of the listed wallet, a decimal of at most six places."""
    list: str
    entity_id: str | None = None
    entity_name: str | None = None


class Coverage(Frozen):
    """What was looked at, and what was not."""

    lists: tuple[str, ...]
    graph: Literal["TENANT_LEDGER"] = "TENANT_LEDGER"
    note: str


class WalletAssessmentRequest(Frozen):
    """The request: how risky is this wallet?"""

    address: Annotated[str, StringConstraints(max_length=ADDRESS_MAX_CHARS)]
    chain: Chain | None = None
    """None: its form says so."""
    subject_id: SubjectName | None = None
    direction: Direction | None = None
    asset: (
        Annotated[
            str,
            TextForm(
                min_length=1,
                max_length=32,
                pattern=r"^[!-~]+$",
                words="Use 1 to 32 letters, digits and signs without a space, such as USDT.",
            ),
        ]
        | None
    ) = None


class WalletRisk(Frozen):
    """What the rules conclude of lists and ledger."""

    sanctioned: bool
    risk_level: RiskLevel
    score: int
    decision: DecisionOutcome
    exposures: tuple[Exposure, ...]
    reasons: tuple[Reason, ...]


class WalletAssessment(WalletRisk):
    """The assessment of a wallet; absence from every list is not clearance."""

    assessment_id: AssessmentId
    livemode: bool
    subject_id: SubjectId | None = None
    address: str | None = None
    """As it was asked for; null once the subject was erased, and so is `normalized`."""
    normalized: str | None = None
    chain: Chain
    possible_chains: tuple[Chain, ...]
    format: WalletFormat
    coverage: Coverage
    list_versions: dict[str, str]
    assessed_at: Timestamp


class WrittenAddress(Frozen):
    """The part of an assessment that is sealed under its subject's key."""

    address: str | None
    normalized: str | None


class StoredAssessment(Frozen):
    """An assessment as it is stored."""

    assessment: WalletAssessment
    sealed: str | None = None
    """`WrittenAddress` under the subject's key; None without a subject."""
