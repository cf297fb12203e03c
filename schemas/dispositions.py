"""Dispositions: a person's judgement that a match with a listed entity is none (G120)."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, RootModel, StrictBool, StringConstraints

from schemas.base import Command, Event, Frozen, Timestamp
from schemas.ids import DispositionId, SubjectId, TenantId
from schemas.lists import Word
from schemas.name_screenings import ListName, RescreenNames, ScreenNames
from schemas.people import SentActor
from schemas.transactions import Moment, OwnId
from schemas.verifications import SubjectName

MAX_DAYS: Final = 400
"""The longest time a disposition may last."""


class DispositionKind(StrEnum):
    """What is judged."""

    LIST_MATCH = "LIST_MATCH"


class DispositionRequest(Frozen):
    """The request: this entity of this list is not this subject, or not this counterparty."""

    kind: DispositionKind
    subject_id: SubjectName | None = None
    counterparty_id: OwnId | None = None
    """`counterparty.id` of transactions. One of the two is named."""
    list: ListName
    entity_id: Word
    expires_at: Moment
    """At most 400 days ahead."""
    note: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
    """Stored sealed; not in the audit log."""
    livemode: StrictBool = True


class Disposition(Frozen):
    """A judgement, in force until it expires, is deleted, or the entity's own entry changes."""

    disposition_id: DispositionId
    kind: DispositionKind
    subject_id: SubjectId | None = None
    counterparty_id: str | None = None
    list: str
    entity_id: str
    entry_sha256: str
    """Of the listed entry that was judged."""
    expires_at: Timestamp
    note: str | None = None
    """None once the subject was erased."""
    ended_at: Timestamp | None = None
    """When it was deleted."""
    created_at: Timestamp
    created_by: str
    livemode: bool


class SealedWords(Frozen):
    """The part of a disposition that is sealed under the subject's key, or the tenant's."""

    note: str
    counterparty_id: str | None = None


class StoredDisposition(Frozen):
    """A disposition as it is stored; note and counterparty sealed."""

    disposition: Disposition
    sealed: str
    request_id: str


class CreateDisposition(Command):
    """Judge a match; the worker binds it to the entry as the list has it."""

    kind: Literal["dispose"] = "dispose"
    tenant_id: TenantId
    disposition_id: DispositionId
    fingerprint: str
    livemode: bool
    requested_at: Timestamp
    subject_id: SubjectId | None = None
    """Sealed (`streams.privacy.subject_ids`)."""
    sealed_request: str
    actor: SentActor


class DispositionCreated(Event):
    """The disposition is in the store."""

    disposition_id: DispositionId
    replayed: bool = False


class ScreeningCommand(
    RootModel[Annotated[ScreenNames | RescreenNames | CreateDisposition, Field(discriminator="kind")]]
):
    """Any command of the topic of screenings."""

    @property
    def key(self) -> str:
        """The key of its record: the id of what it makes."""
        command = self.root
        return command.disposition_id if isinstance(command, CreateDisposition) else command.screening_id
