"""Assess wallets: read the address, ask lists and ledger, conclude, and commit the assessment once (G41)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.base import to_milliseconds
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import AssessmentId, EventId, SubjectId, TenantId, derive_id
from schemas.problems import FieldProblem, NotFound, ProblemCode, Refused
from schemas.transactions import Chain
from schemas.verifications import codes_of
from schemas.wallets import (
    AddressInvalid,
    StoredAssessment,
    WalletAddress,
    WalletAssessment,
    WalletAssessmentRequest,
    WrittenAddress,
)
from streams.aggregate import key_reused
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.ports.errors import Erased
from streams.ports.evidence import Vault
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.wallets import rules
from streams.wallets.formats import read
from streams.wallets.judging import JudgeWallets, NodeNames
from streams.wallets.ports import ListedWallets, WalletLists
from streams.wallets.records import address_label, indexes


@dataclass(frozen=True, slots=True)
class AssessWallet:
    """The command: assess a wallet for a tenant, in a mode."""

    assessment_id: AssessmentId
    fingerprint: str
    tenant_id: TenantId
    livemode: bool
    actor: Actor
    request: WalletAssessmentRequest


@dataclass(frozen=True, slots=True)
class Assessed:
    """The assessment, and whether the same key had asked for it before."""

    assessment: WalletAssessment
    replayed: bool = False


class AssessWallets:
    """Assess wallets and read assessments again; an assessment never changes."""

    def __init__(
        self,
        stores: Stores,
        commit: Commit,
        lists: WalletLists,
        names: NodeNames,
        clock: Callable[[], datetime],
    ) -> None:
        self._stores = stores
        self._commit = commit
        self._lists = lists
        self._judge = JudgeWallets(stores.records, names)
        self._clock = clock

    async def __call__(self, command: AssessWallet) -> Assessed:
        """Return the assessment, which is in the store.

        Raises:
            Refused: ADDRESS_INVALID, IDEMPOTENCY_KEY_REUSED.
            Erased: The subject was erased.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
        """
        try:
            record = await self._stores.records.get(
                command.tenant_id, RecordKind.WALLET_ASSESSMENT, command.assessment_id
            )
        except NotFound:
            committed = await self._assess(command)
            return await self(command) if committed is None else Assessed(await self.shown(committed))
        if record.fingerprint != command.fingerprint:
            raise key_reused()
        return Assessed(await self.shown(record), replayed=True)

    async def reserve(self, tenant_id: TenantId, batch_id: str, fingerprint: str) -> bool:
        """Note the key of a batch; return whether it had been used for the same batch before.

        Raises:
            Refused: IDEMPOTENCY_KEY_REUSED.
        """
        now = to_milliseconds(self._clock())
        marker = Record(tenant_id, RecordKind.TOKEN, batch_id, b"{}", now, fingerprint=fingerprint)
        committed = await self._commit(Change(tenant_id, (marker,)))
        if committed.record.fingerprint != fingerprint:
            raise key_reused()
        return not committed.won

    async def shown(self, record: Record) -> WalletAssessment:
        """Return a stored assessment; without its address once the subject was erased."""
        return await shown_assessment(self._stores.vault, record)

    async def _assess(self, command: AssessWallet) -> Record | None:
        """Return the committed record, or None when another call of the same key was faster."""
        now = to_milliseconds(self._clock())
        lists = await self._lists.current(command.tenant_id, livemode=command.livemode)
        address = address_of(command.request, lists)
        assessment = await self._conclude(command, address, lists, now)
        stored = await self._sealed(command, assessment)
        record = Record(
            command.tenant_id,
            RecordKind.WALLET_ASSESSMENT,
            assessment.assessment_id,
            stored.to_bytes(),
            now,
            fingerprint=command.fingerprint,
            indexes=indexes(assessment),
        )
        change = Change(
            command.tenant_id, (record,), (_row(command, assessment),), (_event(command, assessment),)
        )
        committed = await self._commit(change)
        return committed.record if committed.won else None

    async def _conclude(
        self, command: AssessWallet, address: WalletAddress, lists: ListedWallets, now: datetime
    ) -> WalletAssessment:
        judged = await self._judge(
            command.tenant_id,
            address,
            command.request.address,
            lists,
            now,
            rules.Thresholds(),
            livemode=command.livemode,
        )
        risk, taint = judged.risk, judged.taint
        return WalletAssessment(
            assessment_id=command.assessment_id,
            livemode=command.livemode,
            subject_id=_subject(command.request),
            address=command.request.address,
            normalized=address.normalized,
            chain=address.chain,
            possible_chains=(address.chain,),
            format=address.format,
            coverage=rules.coverage(address.chain, taint, lists),
            list_versions=dict(lists.versions),
            assessed_at=now,
            **{name: getattr(risk, name) for name in type(risk).model_fields},
        )

    async def _sealed(self, command: AssessWallet, assessment: WalletAssessment) -> StoredAssessment:
        """Return the assessment with its address under the subject's key, if it is about a subject."""
        subject_id = assessment.subject_id
        if subject_id is None:
            return StoredAssessment(assessment=assessment)
        written = WrittenAddress(address=assessment.address, normalized=assessment.normalized)
        label = address_label(assessment.assessment_id)
        sealed = await self._stores.vault.seal(command.tenant_id, subject_id, label, written.to_bytes())
        without = assessment.model_copy(update={"address": None, "normalized": None})
        return StoredAssessment(assessment=without, sealed=sealed)


def address_of(request: WalletAssessmentRequest, lists: ListedWallets) -> WalletAddress:
    """Return the address in its one spelling; of no known format it may still be on a list.

    Raises:
        Refused: ADDRESS_INVALID, with the rule it fails.
    """
    try:
        return read(request.address, request.chain)
    except AddressInvalid as invalid:
        if request.chain is None and lists.of(request.address):
            return read(request.address, Chain.OTHER)
        code = ProblemCode.ADDRESS_INVALID
        field = FieldProblem(code=code, message=str(invalid), pointer="/address", rule=invalid.rule)
        raise Refused.because(code, f"{invalid.rule}: {invalid}", field) from None


def _subject(request: WalletAssessmentRequest) -> SubjectId | None:
    return None if request.subject_id is None else SubjectId(request.subject_id)


def _row(command: AssessWallet, assessment: WalletAssessment) -> AuditEvent:
    codes = ", ".join(codes_of(assessment.reasons)) or "no reason"
    return write_row(
        derive_id("aud", command.tenant_id, assessment.assessment_id),
        AuditAction.WALLET_ASSESSED,
        command.actor,
        assessment.subject_id or assessment.assessment_id,
        assessment.assessed_at,
        detail=f"A wallet was assessed and ended {assessment.decision} with {codes}.",
        changes={
            "assessment_id": assessment.assessment_id,
            "decision": assessment.decision,
            "risk_level": assessment.risk_level,
            "list_versions": assessment.list_versions,
        },
        livemode=assessment.livemode,
    )


def _event(command: AssessWallet, assessment: WalletAssessment) -> DecisionEvent:
    return DecisionEvent(
        id=EventId(derive_id("evt", command.tenant_id, assessment.assessment_id)),
        type=EventType.WALLET_ASSESSED,
        timestamp=assessment.assessed_at,
        tenant_id=command.tenant_id,
        livemode=assessment.livemode,
        sequence=1,
        data=EventData(
            assessment_id=assessment.assessment_id,
            subject_id=assessment.subject_id,
            decision=assessment.decision,
            risk_level=assessment.risk_level,
            reason_codes=codes_of(assessment.reasons),
        ),
    )


async def shown_assessment(vault: Vault, record: Record) -> WalletAssessment:
    """Return a stored assessment; without its address once the subject was erased."""
    stored = StoredAssessment.from_bytes(record.body)
    assessment = stored.assessment
    if stored.sealed is None or assessment.subject_id is None:
        return assessment
    label = address_label(assessment.assessment_id)
    try:
        opened = await vault.open(record.tenant_id, assessment.subject_id, label, stored.sealed)
    except Erased:
        return assessment
    return assessment.model_copy(update=WrittenAddress.from_bytes(opened).model_dump())
