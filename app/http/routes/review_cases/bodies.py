"""The bodies of requests about review cases (G42, G89)."""

from typing import Annotated

from pydantic import Field, StringConstraints

from schemas.base import Frozen, TextForm
from schemas.ids import UserId
from schemas.lists import Word
from schemas.name_screenings import ListName
from schemas.reasons import ReasonCode
from schemas.reviews import CaseOutcome
from schemas.transactions import Moment


def _id_of(prefix: str, thing: str) -> TextForm:
    """Return the form of an id."""
    words = f"Name a {thing} by its id, which begins with {prefix}_."
    return TextForm(pattern=rf"^{prefix}_[0-9a-hjkmnp-tv-z]{{26}}$", words=words)


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000)]
MemberId = Annotated[UserId, _id_of("usr", "member")]
FlowName = Annotated[str, _id_of("vf", "flow")]


class NothingSaid(Frozen):
    """A body without fields, for claim and release."""


class AssignBody(Frozen):
    """To whom the case is given."""

    reviewer_id: MemberId


class TextBody(Frozen):
    """A remark."""

    text: Text


class NoteBody(Frozen):
    """Why."""

    note: Text


class DispositionBody(Frozen):
    """A listed entity that is not whom the case is about."""

    list: ListName
    entity_id: Word
    expires_at: Moment
    """At most 400 days ahead."""


class ConcludeBody(Frozen):
    """The decision, its reasons, and a note for colleagues."""

    outcome: CaseOutcome
    reason_codes: Annotated[tuple[ReasonCode, ...], Field(max_length=20)] = ()
    note: Text
    flow_id: FlowName | None = None
    """Where the subject is asked again; only for REQUEST_INPUT."""
    dispositions: Annotated[tuple[DispositionBody, ...], Field(max_length=20)] = ()
    """Matches that no longer count from now on; only for APPROVE."""
