"""The result of examining one contact detail, and when a detail is shared by several subjects (G127)."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from schemas.reasons import ReasonCode

SHARED_BY: Final = 3
"""So many other subjects of the mode with the same detail make it a shared one."""

SHARED_WINDOW: Final = timedelta(days=90)
"""How long a subject's use of a detail counts."""


@dataclass(frozen=True, slots=True)
class ContactDetail:
    """What was found about one detail; no findings: it is clear."""

    findings: tuple[ReasonCode, ...] = ()
    normalized: str | None = None
    """The form in which two spellings of one detail are equal; None when the detail is not valid.

    Personal data: it is hashed with a key before it is stored or compared.
    """


def shared(detail: ContactDetail, other_subjects: int, finding: ReasonCode) -> ContactDetail:
    """Add `finding` to a detail that so many other subjects used within `SHARED_WINDOW`."""
    if other_subjects < SHARED_BY:
        return detail
    return replace(detail, findings=(*detail.findings, finding))
