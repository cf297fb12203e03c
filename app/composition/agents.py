"""Registry of the stream agents, with their tables and dependencies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import faust

from app.adapters.faces.search import InMemoryFaceSearch
from app.adapters.security.crypto import Keys, Purpose
from app.composition.webhooks import Delivering
from schemas.privacy import EraseSubject, RetentionCommand
from schemas.retention import RedactVerification
from schemas.sessions import RecordOutcome
from schemas.topics import Topic
from schemas.verifications import SubmitVerification
from streams.audit import agent as audit_agent
from streams.audit.commit import CommitAndPublish
from streams.audit.handler import SealChain
from streams.catalog.handler import Catalogue
from streams.flows import agent as flows_agent
from streams.flows.handler import ChangeFlow
from streams.lists.loaded import ListStates
from streams.lists.screening import ListScreening
from streams.lists.storage import ListStorage
from streams.policies import agent as policies_agent
from streams.policies.handler import ChangePolicy
from streams.policies.list_names import KnownListNames
from streams.ports.events import EventPublisher
from streams.ports.stores import Stores
from streams.retention import agent as retention_agent
from streams.retention.erasure import EraseSubjects
from streams.retention.handler import RedactEvidence
from streams.reviews import agent as reviews_agent
from streams.reviews.handler import ChangeCase
from streams.runtime.guard import Guard
from streams.runtime.producer import LogWriter, Outgoing
from streams.sessions import agent as sessions_agent
from streams.sessions.handler import ChangeSession
from streams.tenants.settings import read_settings
from streams.transactions import agent as transactions_agent
from streams.transactions.checks import Checks
from streams.transactions.contact_checks import CONTACT_CHECKS, ContactChecks
from streams.transactions.handler import ScreenTransactions
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.name_checks import name_checks
from streams.transactions.published import StoredPolicies
from streams.transactions.wallets import TransactionWallets
from streams.verification import agent as verification_agent
from streams.verification.checks import Engines
from streams.verification.evaluation_limits import EvaluationAttempts
from streams.verification.handler import EvaluateVerification
from streams.verification.policy import VerificationPolicy
from streams.wallets.judging import JudgeWallets
from streams.wallets.listed import LoadedWalletLists
from streams.wallets.nodes import NodeNames
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
    lists: ListStates | None = None
    """None in a worker that decides no transactions."""


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
    records = around.stores.records
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
        ),
    )


def _sessions(app: faust.App, around: AgentDependencies) -> None:
    async def hand(command: SubmitVerification) -> None:
        key = command.verification_id.encode()
        await around.writer.write(Outgoing(Topic.VERIFICATION_COMMANDS, key, command.to_bytes()))

    sessions_agent.register(
        app,
        around.guard,
        lambda state: ChangeSession(around.stores, around.clock, state, around.announcer, hand),
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
    lists = around.lists
    if lists is None:
        raise ValueError("transactions need lists")
    checks = name_checks(ListScreening(lists, around.clock))
    records = around.stores.records
    names = NodeNames(around.keys.derive(Purpose.WALLET_LEDGER))
    wallets = TransactionWallets(LoadedWalletLists(lists, around.clock), JudgeWallets(records, names))
    hashes = KeyedHashes(around.keys.derive(Purpose.TRANSACTION_HASHES))
    transactions_agent.register(
        app,
        around.guard,
        lambda table: ScreenTransactions(
            around.stores,
            hashes,
            StoredPolicies(records),
            Checks(checks | dict.fromkeys(CONTACT_CHECKS, ContactChecks(records, hashes))),
            wallets,
            lambda tenant_id: read_settings(records, tenant_id),
            around.clock,
            table,
            around.announcer,
            lists=lists,
        ),
    )


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
    "audit": _audit,
    "retention": _retention,
    "webhooks": _webhooks,
    "deliveries": _deliveries,
}
"""Every agent a worker can run, by the name `--streams` knows."""
