"""Dispositions: a person's judgement that a listed entity, or a rule, does not concern somebody (G120)."""

from typing import Annotated, Final, Literal

from pydantic import Field, RootModel, StrictBool, StringConstraints

from schemas.base import Command, Event, Frozen, Timestamp
from schemas.enums import TextEnum
from schemas.ids import DispositionId, SubjectId, TenantId
from schemas.lists import Word
from schemas.name_screenings import ListName, RescreenNames, ScreenNames
from schemas.people import SentActor
from schemas.transactions import Moment, OwnId
from schemas.verifications import SubjectName

MAX_DAYS: Final = 400
"""The longest time a disposition may last."""


class DispositionKind(TextEnum):
    """What is judged."""

    LIST_MATCH = "LIST_MATCH"
    RULE = "RULE"
    """That a rule of the published policy hits somebody is a false positive."""


class DispositionStatus(TextEnum):
    """Whether a disposition counts."""

    PROPOSED = "PROPOSED"
    """A second person must approve it (G43); until then it does not count."""
    ACTIVE = "ACTIVE"
    ENDED = "ENDED"
    """It expired or was deleted."""


class DispositionRequest(Frozen):
    """The request: this entity, or this rule, does not concern this subject, or this counterparty."""

    kind: DispositionKind
    subject_id: SubjectName | None = None
    counterparty_id: OwnId | None = None
    """`counterparty.id` of transactions. One of the two is named."""
    list: ListName | None = None
    """Of a LIST_MATCH, like `entity_id`."""
    entity_id: Word | None = None
    rule_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """Of a RULE: its id in the published policy."""
    expires_at: Moment
    """At most 400 days ahead."""
    note: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
    """Stored sealed; not in the audit log."""
    livemode: StrictBool = True


class Disposition(Frozen):
    """A judgement, in force until it expires, is deleted, or what it is bound to changes."""

    disposition_id: DispositionId
    kind: DispositionKind
    status: DispositionStatus = DispositionStatus.ACTIVE
    subject_id: SubjectId | None = None
    counterparty_id: str | None = None
    list: str | None = None
    entity_id: str | None = None
    entry_sha256: str | None = None
    """Of the listed entry that was judged."""
    rule_id: str | None = None
    rule_sha256: str | None = None
    """Of the rule that was judged, with the features it reads."""
    expires_at: Timestamp
    note: str | None = None
    """None once the subject was erased."""
    review_case_id: str | None = None
    """The case whose conclusion carried it."""
    approved_by: str | None = None
    """The second person, where one had to agree."""
    ended_at: Timestamp | None = None
    """When it expired or was deleted."""
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
    """Sealed (`streams.privacy.sealing`)."""
    sealed_request: str
    actor: SentActor


class EndDisposition(Command):
    """End a disposition whose time has passed."""

    kind: Literal["end_disposition"] = "end_disposition"
    tenant_id: TenantId
    disposition_id: DispositionId
    requested_at: Timestamp


class DispositionWatch(Frozen):
    """When a disposition expires; the platform's record, so that one sweep finds those of every tenant."""

    tenant_id: TenantId
    disposition_id: DispositionId
    due: Timestamp


class DispositionCreated(Event):
    """The disposition is in the store."""

    disposition_id: DispositionId
    replayed: bool = False


class ScreeningCommand(
    RootModel[
        Annotated[
            ScreenNames | RescreenNames | CreateDisposition | EndDisposition, Field(discriminator="kind")
        ]
    ]
):
    """Any command of the topic of screenings."""

    @property
    def key(self) -> str:
        """The key of its record: the id of what it makes or changes."""
        command = self.root
        if isinstance(command, CreateDisposition | EndDisposition):
            return command.disposition_id
        return command.screening_id
