"""The consent notice shown before images are taken, in its two versions, and the consent to it (G66)."""

from dataclasses import dataclass
from typing import Final

from schemas.problems import ProblemCode, Refused
from schemas.sessions import Consent, StoredSession
from schemas.tenant_settings import DuplicateFaces, PolicyChoice

LOCALE: Final = "en"
"""The language of the notices; a notice is never translated by a machine (P6)."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A consent notice; another wording is another version."""

    version: str
    text: str


_TAKEN: Final = (
    "To verify your identity we take a picture of your document and of your face, read the document and "
    "compare the two faces. "
)
_SEARCHED: Final = (
    "We also compare your face with the faces of the other people whose identity was verified for the same "
    "company, to notice when one person registers twice; for that, numbers computed from your face are kept "
    "with your verification, encrypted, and are erased with your data. If your face is like another one, a "
    "person looks before anything is decided. "
)
_RETAINED: Final = (
    "Pictures of your face are biometric data; they are kept encrypted, for 30 days, "
    "pictures of your document for 90 days, and used for nothing else. You may decline; then nothing is "
    "taken, and whoever sent you here will offer you another way."
)

NOTICE: Final = Notice("2026-11", _TAKEN + _RETAINED)
NOTICE_OF_SEARCH: Final = Notice("2026-11-search", _TAKEN + _SEARCHED + _RETAINED)
"""Shown where the tenant's policy has `duplicate_faces: review`."""


def notice_for(choice: PolicyChoice) -> Notice:
    """Return the notice for a person who has not agreed yet."""
    return NOTICE if choice.duplicate_faces is DuplicateFaces.OFF else NOTICE_OF_SEARCH


def shown_notice(consent: Consent | None, choice: PolicyChoice) -> Notice:
    """Return the notice the person agreed to, or else the one to show."""
    if consent is not None and consent.accepted:
        return NOTICE_OF_SEARCH if agreed_to_search(consent) else NOTICE
    return notice_for(choice)


def agreed_to_search(consent: Consent | None) -> bool:
    """Return whether the person agreed to a notice that mentions the face search."""
    return consent is not None and consent.accepted and consent.notice_version == NOTICE_OF_SEARCH.version


def require_consent(stored: StoredSession) -> None:
    """Raise unless consent was given.

    Raises:
        Refused: CONSENT_REQUIRED.
    """
    if stored.consent is None or not stored.consent.accepted:
        message = "The notice was not accepted; see POST /v1/capture/consent."
        raise Refused.because(ProblemCode.CONSENT_REQUIRED, message)
