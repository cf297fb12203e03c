"""The bodies of requests about review cases (G42, G89)."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from app.intake.dispositions import expiry_problems
from schemas.base import Frozen, TextForm
from schemas.ids import UserId
from schemas.lists import Word
from schemas.name_screenings import ListName
from schemas.problems import FieldProblem, ProblemCode, Refused
from schemas.reasons import ReasonCode
from schemas.reviews import CaseDisposition, CaseOutcome
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


def case_dispositions(body: ConcludeBody, now: datetime) -> tuple[CaseDisposition, ...]:
    """Return what the conclusion says of matches.

    Raises:
        Refused: VALIDATION_FAILED, place by place.
    """
    code = ProblemCode.VALIDATION_FAILED
    errors = tuple(
        FieldProblem(code=code, message=message, pointer=pointer) for pointer, message in _problems(body, now)
    )
    if errors:
        raise Refused.because(code, errors[0].message, *errors)
    return tuple(CaseDisposition(**one.model_dump()) for one in body.dispositions)


def _problems(body: ConcludeBody, now: datetime) -> Iterator[tuple[str, str]]:
    if body.dispositions and body.outcome is not CaseOutcome.APPROVE:
        yield "/dispositions", "Matches are judged to be none only with the outcome APPROVE."
    for place, one in enumerate(body.dispositions):
        for message in expiry_problems(one.expires_at, now):
            yield f"/dispositions/{place}/expires_at", message
