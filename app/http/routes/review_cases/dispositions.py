"""The dispositions that a conclusion carries (G120)."""

from collections.abc import Iterator
from datetime import datetime

from app.http.routes.review_cases.bodies import ConcludeBody
from app.intake.dispositions import expiry_problems
from schemas.problems import FieldProblem, ProblemCode, Refused
from schemas.reviews import CaseDisposition, CaseOutcome


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
