"""How far a document was read, by the confidence of the fields it must have (G10)."""

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.enums import ExtractionStatus

ENOUGH: Final = 0.5
"""Confidence below which a field does not count as read."""


def grade(confidence: Mapping[str, float], required: Sequence[str]) -> ExtractionStatus:
    """Return EXTRACTED when every required field was read, FAILED when none was, else PARTIAL."""
    missing = unread(confidence, required)
    if not missing:
        return ExtractionStatus.EXTRACTED
    return ExtractionStatus.PARTIAL if len(missing) < len(required) else ExtractionStatus.FAILED


def unread(confidence: Mapping[str, float], required: Sequence[str]) -> tuple[str, ...]:
    """Return the required fields that are missing or in doubt."""
    return tuple(name for name in required if confidence.get(name, 0.0) < ENOUGH)
