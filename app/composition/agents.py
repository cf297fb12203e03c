"""Registry of the stream agents, with their tables and dependencies."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import faust

from app.adapters.faces.search import InMemoryFaceSearch
from app.adapters.security.crypto import Keys, Purpose
from app.composition.transactions import TransactionAgents
from app.composition.webhooks import Delivering
from schemas.dispositions import CreateDisposition, DispositionCreated, EndDisposition, ScreeningCommand
from schemas.name_screenings import NamesScreened, RescreenNames, ScreenNames
from schemas.privacy import EraseSubject, RedactVerification, RetentionCommand
from schemas.sessions import RecordOutcome
from schemas.topics import Topic
from schemas.verifications import SubmitVerification
from streams.audit import agent as audit_agent
from streams.audit.commit import CommitAndPublish
from streams.audit.handler import SealChain
from streams.catalog.handler import Catalogue
from streams.dispositions.ending import ChangeDispositions
from streams.dispositions.handler import CreateDispositions
from streams.dispositions.records import StoredDispositions
from streams.flows import agent as flows_agent
from streams.flows.handler import ChangeFlow
from streams.lists.loaded import ListStates
from streams.lists.screening import ListScreening
from streams.lists.storage import ListStorage
from streams.name_screenings import agent as screenings_agent
from streams.name_screenings.handler import ScreenNamesOnce
from streams.name_screenings.monitoring import Rescreen
from streams.policies import agent as policies_agent
from streams.policies.handler import ChangePolicy
from streams.policies.in_use import KnownListNames
from streams.ports.events import EventPublisher
from streams.ports.stores import Stores
from streams.retention import agent as retention_agent
from streams.retention.erasure import EraseSubjects
from streams.retention.handler import RedactEvidence
from streams.reviews import agent as reviews_agent
from streams.reviews.dispositions import CaseDispositions
from streams.reviews.handler import ChangeCase
from streams.runtime.guard import Guard
from streams.runtime.producer import LogWriter, Outgoing
from streams.sessions import agent as sessions_agent
from streams.sessions.captured_faces import CapturedFaces
from streams.sessions.handler import ChangeSession
from streams.sessions.movement_commands import MovementCommands
from streams.tenants.settings import read_settings
from streams.transactions.counters import TransactionCounters
from streams.transactions.keyed.asking import AskKey
from streams.transactions.keyed_hashes import KeyedHashes
from streams.verification import agent as verification_agent
from streams.verification.engines import Engines
from streams.verification.evaluation_limits import EvaluationAttempts
from streams.verification.handler import EvaluateVerification
from streams.verification.policy import VerificationPolicy
from streams.wallets.ports import WalletLists
from streams.webhooks import agent as webhooks_agent
from streams.webhooks.handler import HandleDelivery
from streams.webhooks.health import UpdateHealth
from streams.webhooks.replay import DeliverAgain


@dataclass(frozen=True, slots=True)
class AgentDependencies:
    """Dependencies of the agents."""

    stores: Stores
    keys: Keys
    announcer: EventPublisher
    guard: Guard
    writer: LogWriter
    clock: Callable[[], datetime]
    engines: Engines | None
    """None in a worker that sees no images."""
    delivering: Delivering
    tries: EvaluationAttempts | None = None
    """None in a worker that sees no images."""
    screening: ListScreening | None = None
    """None in a worker that screens no names, like the lists of wallets."""
    wallet_lists: WalletLists | None = None
    lists: ListStates | None = None
    ask_key: AskKey | None = None
    transaction_counters: TransactionCounters = field(default_factory=TransactionCounters)

    @property
    def hashes(self) -> KeyedHashes:
        """Keyed hashes of what records and commands must not name."""
        return KeyedHashes(self.keys.derive(Purpose.TRANSACTION_HASHES))

    @property
    def dispositions(self) -> StoredDispositions:
        """The matches that persons judged to be none."""
        return StoredDispositions(self.stores.records, self.hashes, self.clock)


def _verification(app: faust.App, around: AgentDependencies) -> None:
    engines = around.engines
    if engines is None:
        raise ValueError("verifications need engines")

    async def send_outcome(outcome: RecordOutcome) -> None:
        key = outcome.session_id.encode()
        await around.writer.write(Outgoing(Topic.SESSION_COMMANDS, key, outcome.to_bytes()))

    verification_agent.register(
        app,
        around.guard,
        lambda state: EvaluateVerification(
            around.stores,
            engines,
            VerificationPolicy(),
            around.clock,
            state,
            around.announcer,
            send_outcome=send_outcome,
            tries=around.tries,
            faces=InMemoryFaceSearch(around.stores),
            screening=around.screening,
            suppressions=around.dispositions,
        ),
    )


def _flows(app: faust.App, around: AgentDependencies) -> None:
    commit = CommitAndPublish(around.stores.journal, around.announcer)
    catalogue = Catalogue(around.stores.records, commit, around.clock)
    flows_agent.register(
        app,
        around.guard,
        lambda state: ChangeFlow(around.stores, catalogue, around.clock, state, around.announcer),
    )


def _policies(app: faust.App, around: AgentDependencies) -> None:
    records = around.stores.records
    change = ChangePolicy(
        around.stores,
        CommitAndPublish(around.stores.journal, around.announcer),
        lambda tenant_id: read_settings(records, tenant_id),
        around.clock,
        KnownListNames(ListStorage(records, around.stores.journal, around.stores.vault)),
    )
    policies_agent.register(app, around.guard, change)


def _reviews(app: faust.App, around: AgentDependencies) -> None:
    if around.screening is None:
        raise ValueError("conclusions of cases need lists")
    records = around.stores.records
    dispositions = CaseDispositions(around.stores, around.screening, around.hashes)
    reviews_agent.register(
        app,
        around.guard,
        lambda state: ChangeCase(
            around.stores,
            VerificationPolicy(),
            lambda tenant_id: read_settings(records, tenant_id),
            around.clock,
            state,
            around.announcer,
            dispositions,
        ),
    )


def _sessions(app: faust.App, around: AgentDependencies) -> None:
    async def hand(command: SubmitVerification) -> None:
        key = command.verification_id.encode()
        await around.writer.write(Outgoing(Topic.VERIFICATION_COMMANDS, key, command.to_bytes()))

    policy, engines = VerificationPolicy(), around.engines
    faces = CapturedFaces(around.stores.evidence, engines, policy) if engines is not None else None
    sessions_agent.register(
        app,
        around.guard,
        lambda state: ChangeSession(
            around.stores,
            around.clock,
            state,
            around.announcer,
            hand,
            movement_commands=MovementCommands(faces, secrets.choice),
        ),
    )


def _audit(app: faust.App, around: AgentDependencies) -> None:
    seal = SealChain(around.stores.audit_log, around.keys.derive(Purpose.AUDIT_CHAIN))
    audit_agent.register(app, around.guard, seal)


def _retention(app: faust.App, around: AgentDependencies) -> None:
    records = around.stores.records
    commit = CommitAndPublish(around.stores.journal, around.announcer)
    redact = RedactEvidence(
        around.stores, lambda tenant_id: read_settings(records, tenant_id), commit, around.clock
    )
    erase = EraseSubjects(
        around.stores,
        lambda tenant_id: read_settings(records, tenant_id),
        commit,
        around.writer.write,
        around.clock,
    )

    async def carry(command: RetentionCommand) -> None:
        match command.root:
            case EraseSubject() as erasure:
                await erase(erasure)
            case RedactVerification() as redaction:
                await redact(redaction)

    retention_agent.register(app, around.guard, carry)


def _transactions(app: faust.App, around: AgentDependencies) -> None:
    if (
        around.screening is None
        or around.wallet_lists is None
        or around.ask_key is None
        or around.lists is None
    ):
        raise ValueError("transactions need lists, and a way to ask about keys")
    agents = TransactionAgents(
        around.stores, around.keys, around.announcer, around.guard, around.writer, around.clock,
        around.ask_key, around.screening, around.wallet_lists, around.transaction_counters,
        around.dispositions, around.lists,
    )  # fmt: skip
    agents.register(app)


def _screenings(app: faust.App, around: AgentDependencies) -> None:
    if around.screening is None:
        raise ValueError("name screenings need lists")
    stores, dispositions = around.stores, around.dispositions
    screen = ScreenNamesOnce(stores, around.screening, dispositions, around.clock, around.announcer)
    commit = CommitAndPublish(stores.journal, around.announcer)
    dispose = CreateDispositions(
        stores,
        around.screening,
        around.hashes,
        commit,
        around.clock,
        lambda tenant_id: read_settings(stores.records, tenant_id),
    )
    rescreen = Rescreen(stores, around.screening, dispositions, commit, around.clock)

    async def carry(message: ScreeningCommand) -> NamesScreened | DispositionCreated | None:
        match message.root:
            case ScreenNames() as asked:
                return await screen(asked)
            case CreateDisposition() as judged:
                return await dispose(judged)
            case EndDisposition() as over:
                await ChangeDispositions(stores.records, commit, around.clock).expire(over)
                return None
            case RescreenNames() as again:
                await rescreen(again)
                return None

    screenings_agent.register(app, around.guard, carry)


def _webhooks(app: faust.App, around: AgentDependencies) -> None:
    webhooks_agent.register_fan_out(app, around.guard, around.delivering.ports.fan_out)


def _deliveries(app: faust.App, around: AgentDependencies) -> None:
    dispatcher, stores, clock = around.delivering.dispatcher, around.stores, around.clock
    if dispatcher is None:
        raise ValueError("deliveries need a dispatcher")
    commit = CommitAndPublish(stores.journal, around.announcer)
    webhooks_agent.register_deliveries(
        app,
        around.guard,
        lambda state: HandleDelivery(
            dispatcher.offer,
            UpdateHealth(stores.records, commit, clock, state),
            DeliverAgain(stores, around.writer.write, clock),
        ),
    )


AGENTS: Final[Mapping[str, Callable[[faust.App, AgentDependencies], None]]] = {
    "verification": _verification,
    "flows": _flows,
    "policies": _policies,
    "sessions": _sessions,
    "reviews": _reviews,
    "transactions": _transactions,
    "screenings": _screenings,
    "audit": _audit,
    "retention": _retention,
    "webhooks": _webhooks,
    "deliveries": _deliveries,
}
"""Every agent a worker can run, by the name `--streams` knows."""
