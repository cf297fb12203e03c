"""Evaluate a verification: from the command to the committed and published decision."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from datetime import date, datetime

import structlog

from schemas.base import to_milliseconds
from schemas.enums import FlowType
from schemas.events import DecisionEvent
from schemas.ids import AuditEventId, EvidenceId
from schemas.problems import (
    NotFound,
    Overloaded,
    ProblemCode,
    Refused,
    StoreUnavailable,
    VeristreamError,
)
from schemas.reasons import ReasonCode
from schemas.sessions import RecordOutcome
from schemas.verifications import (
    DeclaredDocument,
    StoredVerification,
    Submission,
    SubmitVerification,
    VerificationDecided,
)
from streams.aggregate import key_reused
from streams.ports.errors import Damaged, Erased
from streams.ports.events import EventPublisher
from streams.ports.records import RecordKind
from streams.ports.screening import Screening, Suppressions
from streams.ports.stores import Stores, WorkingState
from streams.privacy.sealing import no_longer_stored, open_subject_id
from streams.verification import change as verification_change
from streams.verification import events as verification_events
from streams.verification import evidence as made_evidence
from streams.verification import records, reuse, session_attempts
from streams.verification.change import Decided, Remembered
from streams.verification.checks import RequiredChecks
from streams.verification.command_images import CommandImages
from streams.verification.engines import Engines
from streams.verification.evaluation_limits import EngineSlots, EvaluationAttempts, counted
from streams.verification.face_search import FaceSearch
from streams.verification.known_faces import KnownFaces
from streams.verification.known_images import KnownPictures
from streams.verification.movement_checks import with_movements
from streams.verification.name_checks import ScreenedNames
from streams.verification.observations import Evaluation
from streams.verification.policy import VerificationPolicy
from streams.verification.policy_lookup import policy_for, without_policy
from streams.verification.rules import decide
from streams.verification.sandbox import Scenario, scenario_for, simulate
from streams.vision_ports import Picture, on_behalf_of

SendOutcome = Callable[[RecordOutcome], Awaitable[None]]
"""Write the outcome of an attempt to Kafka for its session; raises `StoreUnavailable`."""

log = structlog.get_logger(__name__)


class EvaluateVerification:
    """Execute `SubmitVerification` once; the same command again returns the first decision.

    Writes happen in this order: evidence, then the record with its audit rows
    and events in one commit, then the working state, then Kafka. A process killed in between leaves
    either only evidence under derived ids, or a whole commit whose events the outbox relay publishes.
    """

    def __init__(
        self,
        stores: Stores,
        engines: Engines,
        policy: VerificationPolicy,
        clock: Callable[[], datetime],
        state: WorkingState[Remembered],
        announcer: EventPublisher,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        send_outcome: SendOutcome | None = None,
        tries: EvaluationAttempts | None = None,
        faces: FaceSearch | None = None,
        screening: Screening | None = None,
        suppressions: Suppressions | None = None,
    ) -> None:
        self._stores = stores
        self._policy = policy
        self._engines = engines
        self._send_outcome = send_outcome
        self._tries = tries
        self._clock = clock
        self._state = state
        self._announcer = announcer
        self._pause = pause
        self._known_pictures = KnownPictures(stores)
        self._slots = EngineSlots()
        self._images = CommandImages(
            stores.evidence, engines.decoder, RequiredChecks(engines, policy), self._slots
        )
        self._names = ScreenedNames(screening, suppressions)
        self._known_faces = KnownFaces(faces, engines.faces, stores.vault)

    async def __call__(self, command: SubmitVerification) -> VerificationDecided:
        """Evaluate and return the decision; `replayed` when another request had made it.

        Raises:
            Refused: The images or the subject cannot be evaluated, the key was used for another body,
                there is no room, or what was stored for the command is gone. Nothing was created, and the
                evidence nobody else refers to is removed, except after OVERLOADED: it will be sent again.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
        """
        known, opened, policy = await asyncio.gather(  # at once, for a store may answer all in one batch
            self._known(command), self._open(command), policy_for(self._stores.records, self._policy, command)
        )
        if known is not None:
            return await self._again(command, known)
        try:
            if isinstance(opened, VeristreamError):
                raise opened
            command, submission = opened
            decided, stored = await self._decide(command, submission, policy)
        except Overloaded as error:
            if command.session_id is not None:
                raise  # the caller is no client that could send it again
            raise Refused.because(ProblemCode.OVERLOADED, "Too much is under way; try again.") from error
        except (NotFound, Erased, Damaged) as error:
            cause = type(error).__name__
            log.warning("evidence.not_found", verification_id=command.verification_id, cause=cause)
            await self._give_back(command, ())
            await self._discard(command)
            memo = self._state.get(command.verification_id)
            if memo is not None and memo.refusal is not None and memo.is_about(command):
                # sent concurrently, by a front end whose clock is ahead
                raise Refused(memo.refusal) from error
            raise no_longer_stored(error) from error
        except Refused as error:
            reasons = session_attempts.reasons_of(error)
            memo = verification_change.refused(command, error.refusal, self._clock(), reasons)
            self._state.put(command.verification_id, memo)
            await self._give_back(command, reasons)
            await self._discard(command)
            raise
        return await self._commit(command, decided, stored)

    async def _known(self, command: SubmitVerification) -> Remembered | None:
        """Return what is remembered of the command, from the working state or the store, or None."""
        memo = self._state.get(command.verification_id)
        if memo is not None and memo.answers(command):
            return memo
        try:
            record = await self._stores.records.get(
                command.tenant_id, RecordKind.VERIFICATION, command.verification_id
            )
        except NotFound:
            return None
        memo = verification_change.remembered(record)
        self._state.put(command.verification_id, memo)
        return memo

    async def _open(
        self, command: SubmitVerification
    ) -> tuple[SubmitVerification, Submission] | VeristreamError:
        """Return the command with its opened subject id, and what was declared, or why neither opens."""
        tenant_id, vault = command.tenant_id, self._stores.vault
        try:
            subject_id = await open_subject_id(vault, tenant_id, command.subject_id)
            label = records.submission_label(command.verification_id)
            opened = await vault.open(tenant_id, subject_id, label, command.sealed_submission)
            submission = records.submission_of(opened)
        except (Refused, Erased, Damaged) as error:
            return error
        return command.model_copy(update={"subject_id": subject_id}), submission

    async def _again(self, command: SubmitVerification, known: Remembered) -> VerificationDecided:
        """Answer a command that was decided before; a redelivery by Kafka is no replay."""
        if known.refusal is not None:
            await self._give_back(command, known.retry_reasons)
        await self._discard(command, keep=known.evidence_ids)
        if known.refusal is not None:
            raise Refused(known.refusal)
        if known.fingerprint != command.fingerprint:
            raise key_reused()
        replayed = known.request_id != command.request_id
        if not replayed:
            tenant_id, kind = command.tenant_id, RecordKind.VERIFICATION
            record = await self._stores.records.get(tenant_id, kind, command.verification_id)
            first = verification_change.first_stored(record)
            events, rows = (
                verification_events.events(tenant_id, first),
                verification_events.audit_ids(tenant_id, first),
            )
            await self._announce(command, events, rows)
            await self._report_outcome(command)
        return VerificationDecided(verification_id=command.verification_id, replayed=replayed)

    async def _decide(
        self, command: SubmitVerification, submission: Submission, chosen: VerificationPolicy | None
    ) -> tuple[Decided, StoredVerification]:
        scenario = scenario_for(command.subject_id, livemode=command.livemode)
        policy, pictures = chosen or self._policy, None
        try:
            tries, real = (self._tries, True) if scenario is None else (None, False)
            with on_behalf_of(command.tenant_id):
                slot = self._slots.taken() if real else nullcontext()
                async with slot, counted(tries, command.verification_id) as may:
                    pictures = await self._images.load(command, pixels=real) if may else None
                    evaluation = await self._evaluate(command, scenario, submission, chosen, pictures)
        except Refused as refused:
            if command.session_id is None or command.may_retry:
                raise
            evaluation = session_attempts.unevaluable(policy, refused)
        again = session_attempts.to_take_again(command, evaluation.results)
        if again:
            raise session_attempts.TakeAgain(again)
        at = to_milliseconds(self._clock())
        evaluation = await self._known_pictures.unless_known(command, evaluation, pictures, at)
        if scenario is None:
            evaluation = await self._known_faces.unless_known(command, evaluation, policy, at)
        decided = Decided(
            command=command,
            evaluation=evaluation,
            judgement=decide(policy, evaluation.results),
            policy=policy,
            at=at,
            ip=submission.ip,
        )
        return decided, await self._store(decided)

    async def _evaluate(
        self,
        command: SubmitVerification,
        scenario: Scenario | None,
        submission: Submission,
        policy: VerificationPolicy | None,
        pictures: tuple[Picture, Picture] | None,
    ) -> Evaluation:
        if policy is None:
            return without_policy(self._policy)
        today, checks = self._clock().date(), RequiredChecks(self._engines, policy)
        if pictures is None:
            return checks.unseen()
        if scenario is None:
            evaluation = await self._see(command, checks, pictures, submission.declared, today)
            return await self._names.screened(command, evaluation, policy)
        waited_s = (self._clock() - command.requested_at).total_seconds()
        await self._pause(max(0.0, scenario.delay_s - max(0.0, waited_s)))
        return session_attempts.fitted(command, simulate(scenario, policy, today))

    async def _see(
        self,
        command: SubmitVerification,
        checks: RequiredChecks,
        pictures: tuple[Picture, Picture],
        declared: DeclaredDocument,
        today: date,
    ) -> Evaluation:
        """Run the checks on the images of this flow type."""
        document, selfie = pictures
        if command.flow_type is FlowType.BIOMETRIC:
            evaluation = await checks.against(document, selfie, today)
        else:
            own = selfie if command.flow_type is not FlowType.DOCUMENT else None
            evaluation = session_attempts.accepted_only(command, await checks(document, own, declared, today))
        evaluation = with_movements(evaluation, command.movements)
        exempt = await self._known_pictures.is_exempt(command, evaluation)
        return reuse.judged(evaluation, exempt=exempt)

    async def _store(self, decided: Decided) -> StoredVerification:
        """Store the evidence of the evaluation and seal its personal fields."""
        command, personal = decided.command, decided.evaluation.personal
        await self._stores.evidence.put(made_evidence.drafts(command, decided.evaluation, decided.at))
        sealed = await self._stores.vault.seal(
            command.tenant_id,
            command.subject_id,
            records.fields_label(command.verification_id),
            personal.to_bytes(),
        )
        return verification_change.stored_verification(decided, sealed, await self._known_faces.seal(decided))

    async def _commit(
        self, command: SubmitVerification, decided: Decided, stored: StoredVerification
    ) -> VerificationDecided:
        change = verification_change.change(decided, stored)
        committed = await self._stores.journal.commit(change)
        won = committed.won
        memo = (
            verification_change.memo_of(committed.record, stored)
            if won
            else verification_change.remembered(committed.record)
        )
        self._state.put(command.verification_id, memo)
        if not won:
            return await self._again(command, memo)
        await self._announce(command, change.events, [row.event_id for row in change.audit])
        await self._report_outcome(command)
        log.info(
            "verification.decided",
            tenant_id=command.tenant_id,
            verification_id=command.verification_id,
            decision_id=stored.verification.decision_id,
            status=stored.verification.status,
            outcome=stored.verification.decision,
        )
        return VerificationDecided(verification_id=command.verification_id)

    async def _announce(
        self, command: SubmitVerification, events: Sequence[DecisionEvent], audit_ids: Sequence[AuditEventId]
    ) -> None:
        """Publish the events; when Kafka is away the outbox relay publishes them later."""
        try:
            await self._announcer.announce(command.tenant_id, events, audit_ids)
        except StoreUnavailable:
            log.warning("verification.publish_failed", verification_id=command.verification_id)

    async def _give_back(self, command: SubmitVerification, reasons: Sequence[ReasonCode]) -> None:
        """Report to the session, if there is one, that its images must be captured again."""
        await self._report_outcome(command, retry=True, reasons=reasons)

    async def _report_outcome(
        self, command: SubmitVerification, *, retry: bool = False, reasons: Sequence[ReasonCode] = ()
    ) -> None:
        """Report the outcome of the attempt to the session, if there is one."""
        outcome = session_attempts.outcome_of(command, self._clock(), retry=retry, reasons=reasons)
        if outcome is not None and self._send_outcome is not None:
            await self._send_outcome(outcome)

    async def _discard(self, command: SubmitVerification, *, keep: Sequence[EvidenceId] = ()) -> None:
        """Remove the evidence of the command unless a verification refers to it."""
        spare = [one for one in made_evidence.brought_and_made(command) if one not in keep]
        if spare:
            await self._stores.evidence.discard(command.tenant_id, spare)
