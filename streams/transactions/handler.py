"""Decide transactions: from the command to the committed and published decision."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

import structlog
from pydantic import ValidationError

from schemas.base import to_milliseconds
from schemas.ids import SubjectId, TenantId
from schemas.policies import FieldValue
from schemas.problems import NotFound, ProblemCode, Refused, StoreUnavailable
from schemas.tenant_settings import Enforcement, TenantSettings
from schemas.transaction_decisions import (
    ExpireHold,
    ForgetSubject,
    ImportHistory,
    ScreenTransaction,
    ShownCheck,
    StoredTransaction,
    TransactionCommand,
    TransactionScreened,
)
from schemas.transaction_history import HistoryImported
from schemas.transactions import OUTCOME_CLASS, TransactionRequest
from streams.aggregate import Pause, key_reused, retry_conflicts
from streams.audit.commit import CommitAndPublish
from streams.lists.loaded import ListStates, LoadedLists, ValuesAt
from streams.policies.compiling import CompiledPolicy
from streams.ports.errors import Damaged, Erased
from streams.ports.events import EventPublisher
from streams.ports.records import Record, RecordKind
from streams.ports.stores import Stores, WorkingState
from streams.privacy.sealing import open_subject_id, subject_erased
from streams.transactions import events
from streams.transactions.change import Outcome, Standing, change_of, stored_transaction
from streams.transactions.checks import CheckContext, Checks, RuleSuppressions, rules_suppressed_for
from streams.transactions.comparing import (
    AskedList,
    Judged,
    Past,
    circumstances_of,
    decide_again,
    features_beside,
    hits_of,
    outcome_of,
)
from streams.transactions.contact_checks import ContactChecks
from streams.transactions.counters import TransactionCounters
from streams.transactions.features import Earlier
from streams.transactions.fields import fields_of
from streams.transactions.identity import IDENTITY_FIELDS, Identities
from streams.transactions.importing import ImportTransactions
from streams.transactions.keyed.asking import KeyedFeatures
from streams.transactions.keyed_hashes import KeyedHashes, keys_of
from streams.transactions.opening import open_parts, seal_parts
from streams.transactions.published import PublishedPolicies, PublishedPolicy
from streams.transactions.records import request_label
from streams.transactions.row import VelocityRow, newest_id
from streams.transactions.rules import SubjectState, decide
from streams.transactions.sandbox import scenario_for
from streams.transactions.scheduler import ExpireHolds
from streams.transactions.standing import Standings
from streams.transactions.velocity import VelocityRows, event_of
from streams.transactions.wallets import TransactionWallets
from streams.verification.sandbox import Scenario

log = structlog.get_logger(__name__)


class ScreenTransactions:
    """Execute each command about a subject's transactions once; the same command again changes nothing.

    Writes happen in this order: the record with everything that lasts of the decision, its audit rows and
    events in one commit, then the subject's row, then Kafka, then the rows of its other keys. A process
    killed in between leaves a whole commit; the command comes again, finds the decision, and counts it where
    it is not counted yet.
    """

    def __init__(
        self,
        stores: Stores,
        hashes: KeyedHashes,
        policies: PublishedPolicies,
        checks: Checks,
        wallets: TransactionWallets,
        settings: Callable[[TenantId], Awaitable[TenantSettings]],
        clock: Callable[[], datetime],
        table: WorkingState[bytes],
        announcer: EventPublisher,
        keyed: KeyedFeatures,
        pause: Pause = asyncio.sleep,
        counters: TransactionCounters | None = None,
        lists: ListStates | None = None,
        suppressions: RuleSuppressions | None = None,
    ) -> None:
        self._suppressions = suppressions
        self._lists = lists or LoadedLists()
        self._counters = counters or TransactionCounters()
        self._stores = stores
        self._hashes = hashes
        self._policies = policies
        self._checks = checks
        self._wallets = wallets
        self._contacts = ContactChecks(stores.records, hashes)
        self._identities = Identities(stores)
        self._settings = settings
        self._clock = clock
        self._rows = VelocityRows(stores, hashes, table, self._counters.rows)
        self._standings = Standings(stores, hashes)
        self._announcer = announcer
        self._keyed = keyed
        self._commit = CommitAndPublish(stores.journal, announcer)
        self._expire = ExpireHolds(stores.records, self._commit, clock)
        self._import = ImportTransactions(stores, hashes, self._rows, wallets, keyed, policies, clock)
        self._pause = pause

    async def __call__(self, message: TransactionCommand) -> TransactionScreened | HistoryImported | None:
        """Decide, import, end a hold or forget a subject; `replayed`: another request had the same decision.

        Raises:
            Refused: The key was used for another body, a tick of a stream is out of order, or the subject
                was erased. Nothing was created.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
            Conflict: What lasts of the subject changed at every attempt.
        """
        command = message.root
        match command:
            case ScreenTransaction():
                return await retry_conflicts(lambda: self._screen(command), self._pause)
            case ImportHistory():
                return await self._import(command)
            case ForgetSubject():
                self._rows.forget(command)
            case ExpireHold():
                await retry_conflicts(lambda: self._expire(command), self._pause)
        return None

    async def _screen(self, command: ScreenTransaction) -> TransactionScreened:
        tenant_id = command.tenant_id
        try:
            subject_id = await open_subject_id(self._stores.vault, tenant_id, command.subject_id)
            scenario = scenario_for(subject_id, livemode=command.livemode)
            await self._wait(command, scenario)
            now = to_milliseconds(self._clock())
            (record, request, row, standing), (policy, settings, lists) = await asyncio.gather(
                asyncio.gather(  # at once, for a store may answer all in one batch
                    self._find(command),
                    self._open(command, subject_id),
                    self._rows.load(command, subject_id, now),
                    self._standings.of_subject(command),
                ),
                asyncio.gather(
                    self._policies(tenant_id),
                    self._settings(tenant_id),
                    self._lists.state_of(tenant_id),
                ),
            )
            if record is not None:
                return await self._again(command, record, row)
            standing = await self._standings.with_stream(standing, command, request, now)
            state = _state_of(standing, settings, scenario)
            context = CheckContext(tenant_id, command.livemode, command.subject_key, now, lists)
            return await self._decide(command, request, row, standing, policy, state, context)
        except Erased:
            raise subject_erased() from None

    async def _find(self, command: ScreenTransaction) -> Record | None:
        tenant_id, kind = command.tenant_id, RecordKind.TRANSACTION
        try:
            return await self._stores.records.get(tenant_id, kind, command.transaction_id)
        except NotFound:
            return None

    async def _open(self, command: ScreenTransaction, subject_id: SubjectId) -> TransactionRequest:
        label = request_label(command.transaction_id)
        try:
            opened = await self._stores.vault.open(
                command.tenant_id, subject_id, label, command.sealed_request
            )
            return TransactionRequest.from_bytes(opened)
        except (Damaged, ValidationError):
            message = "The request can no longer be read; send it again."
            raise Refused.because(ProblemCode.STORE_FAILED, message) from None

    async def _again(
        self, command: ScreenTransaction, record: Record, row: VelocityRow
    ) -> TransactionScreened:
        """Answer a command that was decided before; what a crash left undone is done now."""
        if record.fingerprint != command.fingerprint:
            raise key_reused()
        first = StoredTransaction.from_bytes(record.first_body or record.body)
        parts = await open_parts(self._stores, command.tenant_id, first)
        outcome = OUTCOME_CLASS[first.transaction.decision]
        self._rows.add(command, row, command.transaction_id, parts.request, outcome)
        policy = await self._policies(command.tenant_id)
        await self._keyed.count(command, command.transaction_id, parts.request, outcome, policy.counted_since)
        replayed = first.request_id != command.request_id
        if not replayed:
            await self._announce(command, first)
        return TransactionScreened(transaction_id=command.transaction_id, replayed=replayed)

    async def _decide(
        self,
        command: ScreenTransaction,
        request: TransactionRequest,
        row: VelocityRow,
        standing: Standing,
        policy: PublishedPolicy,
        state: SubjectState,
        context: CheckContext,
    ) -> TransactionScreened:
        subject_id, now = request.subject_id, context.at
        self._counters.note_policy(command.tenant_id, loads=policy.compiled is not None)
        features = () if state.scenario is not None else policy.asked_of_keys
        since = policy.counted_since
        earlier = Earlier(row, await self._keyed.compute(command, request, features, since))
        judged = await self._judge(context, request, policy, earlier, state)
        decided = judged.decided
        transfers = self._wallets.transfers_of(command.tenant_id, subject_id, request)
        keys = keys_of(self._hashes, command.tenant_id, request, livemode=command.livemode)
        outcome = Outcome(command, subject_id, request, judged, policy.applied, now, tuple(transfers), keys)
        about = command.transaction_id
        sealed = await seal_parts(self._stores, command.tenant_id, about, subject_id, outcome.parts())
        stored = stored_transaction(outcome, sealed)
        uses = self._contacts.uses_of(request, context)
        committed = await self._commit(change_of(outcome, stored, standing, tuple(uses)))
        if not committed.won:
            row = await self._rows.load(command, subject_id, now)  # with what the other worker decided
            return await self._again(command, committed.record, row)
        self._counters.note(decided)
        outcome_class = OUTCOME_CLASS[decided.decision]
        self._rows.add(command, row, command.transaction_id, request, outcome_class)
        await self._keyed.count(command, command.transaction_id, request, outcome_class, since)
        log.info(
            "transaction.decided",
            tenant_id=command.tenant_id,
            transaction_id=command.transaction_id,
            decision_id=stored.transaction.decision_id,
            outcome=decided.decision,
        )
        return TransactionScreened(transaction_id=command.transaction_id)

    async def _judge(
        self,
        context: CheckContext,
        request: TransactionRequest,
        policy: PublishedPolicy,
        earlier: Earlier,
        state: SubjectState,
    ) -> Judged:
        tenant_id, compiled = context.tenant_id, policy.compiled
        if compiled is None or state.scenario is not None:
            return Judged(decide(compiled, fields_of(request, ()), {}, (), state))
        checks, read = await self._examine(compiled, request, context)
        event = event_of(self._hashes, tenant_id, request)
        features = earlier.features(compiled.features, event)
        if not IDENTITY_FIELDS.isdisjoint(policy.names):
            at, livemode = context.at, context.livemode
            read |= await self._identities.read(tenant_id, request.subject_id, at, livemode=livemode)
        lists = {name: AskedList(members) for name, members in _values_of(context).items()}
        weigh = partial(decide, compiled, fields_of(request, checks) | read, features, checks, lists=lists)
        decided = weigh(state)
        if policy.shadow is not None or hits_of(decided.rules):
            state = replace(
                state, suppressed=await rules_suppressed_for(self._suppressions, request, context)
            )
            decided = weigh(state) if state.suppressed else decided
        circumstances = circumstances_of(state, read, newest_id(earlier.row).hex())
        shadow = None
        if policy.shadow is not None:
            past = Past(request, checks, circumstances)
            beside = features_beside(policy.shadow, compiled, earlier, event)
            shadow = outcome_of(policy.shadow, decide_again(policy.shadow, past, beside, lists))
        asked = {name: one.answers for name, one in lists.items()}
        return Judged(decided, circumstances.model_copy(update={"lists": asked}), shadow)

    async def _examine(
        self, compiled: CompiledPolicy, request: TransactionRequest, context: CheckContext
    ) -> tuple[tuple[ShownCheck, ...], dict[str, FieldValue]]:
        """Return the results of the checks, that of the wallet among them, and the fields of the wallet."""
        checks = await self._checks(compiled.document, request, context)
        if request.wallet is None:
            return checks, {}
        wallet = await self._wallets.assess(request.wallet, compiled.document.wallets, context)
        return (*checks, wallet.shown), dict(wallet.fields)

    async def _wait(self, command: ScreenTransaction, scenario: Scenario | None) -> None:
        """Wait as long as a magic subject asks, counted from its request."""
        if scenario is not None and scenario.delay_s:
            waited_s = (self._clock() - command.requested_at).total_seconds()
            await self._pause(max(0.0, scenario.delay_s - max(0.0, waited_s)))

    async def _announce(self, command: ScreenTransaction, first: StoredTransaction) -> None:
        """Publish the events again; when Kafka is away the outbox relay publishes them later."""
        tenant_id = command.tenant_id
        rows = [row.event_id for row in events.audit_rows(tenant_id, first)]
        try:
            await self._announcer.announce(tenant_id, events.decision_events(tenant_id, first), rows)
        except StoreUnavailable:
            log.warning("transaction.publish_failed", transaction_id=command.transaction_id)


def _state_of(standing: Standing, settings: TenantSettings, scenario: Scenario | None) -> SubjectState:
    return SubjectState(
        suspended=standing.subject.suspended_by is not None,
        stream_ended=standing.stream is not None and standing.stream.ended_by is not None,
        advisory=settings.enforcement is Enforcement.ADVISORY,
        scenario=scenario,
    )


def _values_of(context: CheckContext) -> dict[str, ValuesAt]:
    """Return the values of each of the tenant's loaded lists of values."""
    lists = {} if context.lists is None else context.lists.values
    return {name: loaded.at(context.at) for name, loaded in lists.items()}
