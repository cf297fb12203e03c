"""The decision of a transaction: its command, its answer and its stored form (G39, G40, G129, G130)."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from schemas.base import Command, Event, Frozen, Timestamp
from schemas.enums import CheckKind, DecisionOutcome, Recommendation, ReviewStatus, RiskLevel, TextEnum
from schemas.ids import DecisionId, KeyId, ReviewCaseId, SubjectId, TenantId, TransactionId
from schemas.money import Money
from schemas.policies import FeatureKey, RuleMode, RuleOutcome
from schemas.reasons import ReasonCode
from schemas.transactions import (
    Device,
    Direction,
    MetadataValue,
    Party,
    PaymentStream,
    TransactionRequest,
    TransactionType,
    TransactionWallet,
)


class TransactionReason(Frozen):
    """Why a decision is what it is; the message names no person."""

    code: str
    """Of the catalogue, or a policy's own `POLICY_…`."""
    message: str
    pointer: str | None = Field(default=None, exclude_if=lambda pointer: pointer is None)
    """Where in the request the field stands that the reason is about, if it is about one."""


class AppliedPolicy(Frozen):
    """The policy a transaction was decided by."""

    name: str
    revision: int
    sha256: str
    """Of the text as it was uploaded."""


class ShownInput(Frozen):
    """A value that a rule read; money as a decimal string."""

    value: Any = None
    exact: bool = True


class ShownRule(Frozen):
    """A rule of the policy with what it read."""

    id: str
    mode: RuleMode
    result: RuleOutcome
    decision: DecisionOutcome | None = None
    score: int | None = None
    """What it adds to the risk score."""
    inputs: dict[str, ShownInput] = Field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """What a skipped rule had no value for, or the lists that were not loaded."""
    suppressed_by: str | None = Field(default=None, exclude_if=lambda by: by is None)
    """The disposition because of which its hit does not count (G120)."""


class CheckOutcome(TextEnum):
    """What a check of a transaction found."""

    CLEAR = "CLEAR"
    POSSIBLE = "POSSIBLE"
    MATCH = "MATCH"
    ERROR = "ERROR"
    NOT_EVALUATED = "NOT_EVALUATED"


class ScreenedTarget(TextEnum):
    """Whom or what a check of a transaction looks at."""

    COUNTERPARTY = "counterparty"
    SUBJECT = "subject"
    WALLET = "wallet"


class ShownCheck(Frozen):
    """A check of the policy on one target."""

    check: CheckKind
    target: ScreenedTarget
    result: CheckOutcome
    decision: DecisionOutcome | None = None
    """What it asks for by itself."""
    score: str | None = None
    list_versions: dict[str, str] = Field(default_factory=dict)
    matches: tuple[dict[str, Any], ...] = ()
    findings: tuple[ReasonCode, ...] = ()
    """What it found, or why it is ERROR."""


class ShadowOutcome(Frozen):
    """What the text that runs beside the published policy would have decided."""

    revision: int | None = None
    """None: the text was a draft."""
    sha256: str
    decision: DecisionOutcome
    risk_score: int
    rules: tuple[str, ...]
    """The rules that hit, those of mode SHADOW among them."""


class Transaction(Frozen):
    """The answer: what was decided, and everything it was decided by."""

    transaction_id: TransactionId
    subject_id: SubjectId
    created_at: Timestamp
    type: TransactionType
    direction: Direction
    amount: Money
    base_amount: Money | None = None
    occurred_at: Timestamp
    reference: str | None = None
    decision: DecisionOutcome
    decision_id: DecisionId
    hold_expires_at: Timestamp | None = None
    risk_level: RiskLevel
    risk_score: int
    reasons: tuple[TransactionReason, ...]
    """The most severe first."""
    policy: AppliedPolicy
    rules: tuple[ShownRule, ...] = ()
    checks: tuple[ShownCheck, ...] = ()
    shadow: ShadowOutcome | None = None
    review_case_id: ReviewCaseId | None = None
    review_status: ReviewStatus
    livemode: bool


class DecisionBy(TextEnum):
    """Who made a decision of a transaction."""

    POLICY = "POLICY"
    REVIEWER = "REVIEWER"
    EXPIRY = "EXPIRY"


class DecisionStep(Frozen):
    """One decision of a transaction; the last one stands."""

    decision_id: DecisionId
    decision: DecisionOutcome
    at: Timestamp
    by: DecisionBy


class TransactionDetail(Transaction):
    """A transaction as it stands, with what was sent about it unless its subject was erased."""

    decisions: tuple[DecisionStep, ...]
    counterparty: Party | None = None
    subject: Party | None = None
    wallet: TransactionWallet | None = None
    stream: PaymentStream | None = None
    device: Device | None = None
    metadata: dict[str, MetadataValue] = Field(default_factory=dict)


class SuppressedRule(Frozen):
    """A rule whose hits a person judged to be false positives about somebody."""

    disposition_id: str
    rule_sha256: str
    """Of the rule as it was judged; a rule that was changed counts again."""


class Circumstances(Frozen):
    """What a decision was made from beside request, features and checks; by it another text is tried."""

    suspended: bool = False
    stream_ended: bool = False
    advisory: bool = False
    fields: dict[str, Any] = Field(default_factory=dict)
    """What was read of the wallet and of the subject's verifications, by the names of rules."""
    lists: dict[str, dict[str, bool]] = Field(default_factory=dict)
    """The loaded lists of values: whether each value that was looked for stood on them."""
    suppressed: dict[str, SuppressedRule] = Field(default_factory=dict)
    """The rules that did not count, by id; looked up only where a rule hit."""
    after: str = ""
    """What stands for the subject's transaction before it, hexadecimal: two may have one time."""


class SealedParts(Frozen):
    """What is stored of a transaction only sealed under the subject's key."""

    request: TransactionRequest
    rules: tuple[ShownRule, ...] = ()
    checks: tuple[ShownCheck, ...] = ()
    circumstances: Circumstances | None = None
    """None: no policy was asked, or an earlier version decided it."""


class StoredTransfer(Frozen):
    """An edge of the ledger that a transaction is once its money has moved; its ends name nobody."""

    source: str
    destination: str
    base_amount: Decimal | None = None


class StoredTransaction(Frozen):
    """A stored transaction; rules and checks, which may name a person, are sealed."""

    transaction: Transaction
    sealed_parts: str
    """`SealedParts`, sealed under the subject's key, base64."""
    decisions: tuple[DecisionStep, ...]
    recommendation: Recommendation | None = None
    on_expiry: DecisionOutcome | None = None
    """What a hold becomes at its end, by the policy that decided it."""
    transfers: tuple[StoredTransfer, ...] = ()
    keys: dict[FeatureKey, str] = Field(default_factory=dict)
    """Keyed hashes of the account, device and other keys it has, by which it is found (G113)."""
    subject_key: str
    request_id: str
    key_id: KeyId


class TransactionCommandBase(Command):
    """The fields of every command about a subject's transactions; keyed by `subject_key`."""

    tenant_id: TenantId
    subject_key: str
    """Tenant, mode and a keyed hash of the subject id."""
    livemode: bool
    requested_at: Timestamp


class ScreenTransaction(TransactionCommandBase):
    """Decide whether the money may move."""

    kind: Literal["screen"] = "screen"
    transaction_id: TransactionId
    subject_id: SubjectId
    """Sealed (`streams.privacy.sealing`)."""
    fingerprint: str
    sealed_request: str
    """`TransactionRequest`, sealed under the subject's key, base64."""
    key_id: KeyId
    request_id: str


class ExpireHold(TransactionCommandBase):
    """End a hold whose time has passed."""

    kind: Literal["expire"] = "expire"
    transaction_id: TransactionId


class ForgetSubject(TransactionCommandBase):
    """Drop what the table holds of an erased subject."""

    kind: Literal["forget"] = "forget"


class ImportHistory(TransactionCommandBase):
    """Store and count transactions of the past (G119)."""

    kind: Literal["import"] = "import"
    import_id: str
    subject_id: SubjectId
    """Sealed (`streams.privacy.sealing`)."""
    sealed_history: str
    """`SealedHistory`, sealed under the subject's key, base64."""
    part: int
    """Which of the commands of one import and subject it is, from 0."""


AnyTransactionCommand = ScreenTransaction | ExpireHold | ForgetSubject | ImportHistory


class TransactionCommand(RootModel[Annotated[AnyTransactionCommand, Field(discriminator="kind")]]):
    """Any command about a subject's transactions."""


class TransactionScreened(Event):
    """The answer to `ScreenTransaction`: the decision is stored."""

    transaction_id: TransactionId
    replayed: bool = False


class HoldWatch(Frozen):
    """When a hold ends; the platform's record, by which one sweep finds those of every tenant."""

    tenant_id: TenantId
    transaction_id: TransactionId
    subject_key: str
    livemode: bool
    due: Timestamp


class SealedNote(Frozen):
    """A reviewer's note about a subject, sealed under its key."""

    author_id: str
    sealed_text: str
    created_at: Timestamp


class SubjectStanding(Frozen):
    """What lasts of decisions about a subject in a mode (G40)."""

    suspended_by: TransactionId | None = None
    """The transaction whose decision suspended it; None: it is not suspended."""
    suspended_at: Timestamp | None = None
    notes: tuple[SealedNote, ...] = ()
    """Of its last reinstatements."""


class StreamStanding(Frozen):
    """The state of a stream of payments (G122)."""

    subject_key: str
    last_sequence: int
    last_transaction_id: TransactionId
    ended_by: TransactionId | None = None
