"""Collect from the log the commands, their answers, the events, and records that should not be in it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from schemas.enums import FlowType
from schemas.events import DecisionEvent
from schemas.ids import EventId, EvidenceId, TenantId, TransactionId, VerificationId
from schemas.topics import Topic
from schemas.transaction_decisions import ScreenTransaction, TransactionCommand, TransactionScreened
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.invariants import rules
from streams.invariants.rules import Invariant, Violation
from streams.runtime.app import GROUP
from streams.runtime.authentication import RecordKeys, Unauthentic
from streams.runtime.dead_letters import unearth
from streams.runtime.guard import Contract, Poison, read
from streams.runtime.message import Delivery
from streams.runtime.producer import CLOCK_KEY
from streams.runtime.replies import CORRELATION, Reply
from streams.runtime.tables import table_of
from streams.runtime.topics import changelog_of
from streams.verification import agent
from streams.verification.change import Remembered

MEMORY: Final = changelog_of(GROUP, agent.TABLE)
"""The changelog of what the verification agent remembers."""

_SCREENING: Final = Contract(TransactionCommand, lambda command: command.root.subject_key)
_CONTRACT: Final = Contract(SubmitVerification, lambda command: command.verification_id)

Place = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A command in the log."""

    place: Place
    tenant_id: TenantId
    verification_id: VerificationId
    document: EvidenceId
    """An image that was stored for it."""
    correlation_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SentScreening:
    """A `ScreenTransaction` in the log."""

    place: Place
    tenant_id: TenantId
    transaction_id: TransactionId
    correlation_id: str
    at: datetime


@dataclass(slots=True)
class LogState:
    """The state of each command in the log; built from its records, each read once, in any order."""

    keys: RecordKeys
    needles: Sequence[Sequence[bytes]] = ()
    records: int = 0
    commands: dict[VerificationId, list[Sent]] = field(default_factory=dict)
    poison: dict[Place, datetime] = field(default_factory=dict)
    """Records of the commands' topic that hold no command of ours, with the time they were written."""
    dead_letters: Counter[Place] = field(default_factory=Counter)
    refused: set[str] = field(default_factory=set)
    """Correlation ids of commands that were answered with a refusal."""
    remembered_refusals: set[VerificationId] = field(default_factory=set)
    answered: set[VerificationId] = field(default_factory=set)
    """Verifications whose decision was sent as a reply."""
    events: dict[EventId, set[bytes]] = field(default_factory=dict)
    screenings: list[SentScreening] = field(default_factory=list)
    screened: set[TransactionId] = field(default_factory=set)
    """Transactions whose decision was sent as a reply."""
    decided: dict[VerificationId, TenantId] = field(default_factory=dict)
    """Verifications with an event in the decision topic."""
    violations: list[Violation] = field(default_factory=list)

    def add(self, delivery: Delivery, written_at: datetime) -> None:
        """Add one record of the log."""
        self.records += 1
        place = (delivery.topic, delivery.partition, delivery.offset)
        self.violations += rules.judge_canaries(
            self.needles, _at(place), delivery.key, delivery.value, *_flat(delivery)
        )
        match delivery.topic:
            case Topic.VERIFICATION_COMMANDS:
                self._add_command(delivery, place, written_at)
            case Topic.TRANSACTION_COMMANDS:
                self._add_screening(delivery, place, written_at)
            case Topic.DECISIONS:
                self._add_event(delivery, place)
            case Topic.REPLIES:
                self._add_reply(delivery, place)
            case Topic.DEAD_LETTERS:
                self._add_dead_letter(delivery, place)
            case name if name == MEMORY:
                self._add_memory(delivery)
            case _:
                pass

    def _add_command(self, delivery: Delivery, place: Place, written_at: datetime) -> None:
        try:
            self.keys.check(delivery)
            command = read(delivery, _CONTRACT)
        except (Unauthentic, Poison):
            self.poison[place] = written_at
            return
        sent = Sent(
            place=place,
            tenant_id=command.tenant_id,
            verification_id=command.verification_id,
            document=_brought(command),
            correlation_id=delivery.headers.get(CORRELATION, b"").decode(errors="replace"),
            at=written_at,
        )
        self.commands.setdefault(command.verification_id, []).append(sent)

    def _add_screening(self, delivery: Delivery, place: Place, written_at: datetime) -> None:
        try:
            self.keys.check(delivery)
            command = read(delivery, _SCREENING).root
        except (Unauthentic, Poison):
            self.poison[place] = written_at
            return
        if isinstance(command, ScreenTransaction):
            correlation_id = delivery.headers.get(CORRELATION, b"").decode(errors="replace")
            self.screenings.append(
                SentScreening(place, command.tenant_id, command.transaction_id, correlation_id, written_at)
            )

    def _add_event(self, delivery: Delivery, place: Place) -> None:
        try:
            self.keys.check(delivery)
            event = DecisionEvent.from_bytes(delivery.value or b"")
        except (Unauthentic, ValidationError):
            self._wrong(Invariant.I4, place, "holds no decision event")
            return
        self.events.setdefault(event.id, set()).add(delivery.value or b"")
        if event.data.verification_id is not None:
            verification_id = VerificationId(event.data.verification_id)
            other = self.decided.setdefault(verification_id, event.tenant_id)
            if other != event.tenant_id:
                self._wrong(Invariant.I6, place, "names one tenant's verification to another")
        self.violations += rules.judge_tenant(event.tenant_id, _at(place), delivery.value or b"")

    def _add_reply(self, delivery: Delivery, place: Place) -> None:
        if delivery.key == CLOCK_KEY:
            return
        try:
            self.keys.check(delivery)
            reply = Reply.from_bytes(delivery.value or b"")
            if reply.refusal is not None:
                self.refused.add((delivery.key or b"").decode(errors="replace"))
            elif reply.answer == VerificationDecided.__name__:
                self.answered.add(VerificationDecided.model_validate(reply.body).verification_id)
            elif reply.answer == TransactionScreened.__name__:
                self.screened.add(TransactionScreened.model_validate(reply.body).transaction_id)
        except (Unauthentic, ValidationError):
            self._wrong(Invariant.I7, place, "holds no answer")

    def _add_dead_letter(self, delivery: Delivery, place: Place) -> None:
        letter = unearth(delivery, self.keys, redriven=False)
        if letter.record_id is None:
            self._wrong(Invariant.I1, place, "holds no dead letter")
            return
        dead = letter.delivery
        self.dead_letters[dead.topic, dead.partition, dead.offset] += 1

    def _add_memory(self, delivery: Delivery) -> None:
        verification_id = VerificationId((delivery.key or b"").decode(errors="replace"))
        self.remembered_refusals.discard(verification_id)
        if delivery.value is None:
            return
        try:
            entry = self.keys.open_entry(table_of(agent.TABLE), delivery.key or b"", delivery.value)
            memo = Remembered.from_bytes(entry or b"")
        except ValidationError:
            self._wrong(
                Invariant.I7,
                (delivery.topic, delivery.partition, delivery.offset),
                "holds nothing remembered",
            )
            return
        if memo.refusal is not None:
            self.remembered_refusals.add(verification_id)

    def _wrong(self, invariant: Invariant, place: Place, found: str) -> None:
        self.violations.append(Violation(invariant=invariant, about=_at(place), found=found))

    def without_dead_letter(self, due_before: datetime) -> Iterator[Violation]:
        """Yield a violation for each unreadable record of the commands' topic without a dead letter."""
        for place, written_at in self.poison.items():
            if written_at <= due_before and not self.dead_letters[place]:
                found = "holds no command and has no dead letter"
                yield Violation(invariant=Invariant.I1, about=_at(place), found=found)

    def ended(self, sent: Sent) -> bool:
        """Return whether a command ended in a refusal or a dead letter."""
        return (
            sent.correlation_id in self.refused
            or sent.verification_id in self.remembered_refusals
            or self.dead_letters[sent.place] > 0
        )


def _flat(delivery: Delivery) -> Iterator[bytes]:
    for name, content in delivery.headers.items():
        yield name.encode()
        yield content


def _at(place: Place) -> str:
    return f"{place[0]}/{place[1]}@{place[2]}"


def moment(timestamp_ms: int) -> datetime:
    """Return the moment of a record's timestamp."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def _brought(command: SubmitVerification) -> EvidenceId:
    """Return an image stored for the command; a BIOMETRIC run's document is another verification's."""
    biometric = command.flow_type is FlowType.BIOMETRIC
    return command.selfie_evidence_id if biometric else command.document_evidence_id
