"""Bodies of the routes of wallets."""

from typing import Annotated, Final

from pydantic import Field

from app.http.problems import Problem
from schemas.base import Frozen
from schemas.wallets import WalletAssessment, WalletAssessmentRequest

MAX_BATCH: Final = 100


class WalletAssessmentList(Frozen):
    """A page of assessments, newest first."""

    assessments: tuple[WalletAssessment, ...]
    next_cursor: str | None
    """Null at the end."""


class WalletBatchRequest(Frozen):
    """Several requests, assessed one by one."""

    assessments: Annotated[tuple[WalletAssessmentRequest, ...], Field(min_length=1, max_length=MAX_BATCH)]


class FailedAssessment(Frozen):
    """What stands in the place of an assessment that could not be made."""

    error: Problem


class WalletBatch(Frozen):
    """The answers, in the order of the requests."""

    assessments: tuple[WalletAssessment | FailedAssessment, ...]
