"""Rules for accepting and normalising passwords (G50, R5, S26). Pure."""

import unicodedata
from typing import Final

from zxcvbn.frequency_lists import FREQUENCY_LISTS

from schemas.problems import ProblemCode, Refused

MIN_LENGTH: Final = 12
MAX_LENGTH: Final = 128
"""Code points after normalisation (G50)."""

MAX_GIVEN: Final = 1024
"""Code points of a password as sent; composed and decomposed forms differ in length."""

PRODUCT: Final = "veristream"

_MIN_LOCAL_PART: Final = 4
"""Characters; a shorter local part of an address occurs in too many words to be refused (R5)."""

_LISTED: Final = frozenset(FREQUENCY_LISTS["passwords"])
"""Thirty thousand passwords of breaches, in lower case."""

NEW_PASSWORD: Final = "/new_password"  # noqa: S105 - a place in the body


def normal_password(password: str) -> str:
    """Return the password in Unicode NFC (RFC 8265 section 4)."""
    return unicodedata.normalize("NFC", password)


def password_bytes(password: str) -> bytes:
    """Return the bytes to hash, without truncation."""
    return normal_password(password).encode("utf-8", "surrogatepass")


def require_acceptable(password: str, email: str, pointer: str) -> None:
    """Raise unless the policy allows the new password; any characters may be in it.

    Raises:
        Refused: VALIDATION_FAILED at the pointer, with the rule that was broken.
    """
    complaint = _complaint(normal_password(password), email)
    if complaint is not None:
        raise Refused.at(pointer, ProblemCode.VALIDATION_FAILED, complaint)


def _complaint(password: str, email: str) -> str | None:
    """Return the violated rule, or None; there is none about repetition or patterns (R5)."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        return f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters."
    caseless, address = password.casefold(), email.casefold()
    if PRODUCT in caseless:
        return "A password must not contain the name of the service."
    local = address.partition("@")[0]
    if (address and address in caseless) or (len(local) >= _MIN_LOCAL_PART and local in caseless):
        return "A password must not contain the e-mail address, nor the part of it before the at sign."
    if caseless in _LISTED:
        return "The password is too common: it is on the list of those that are guessed first."
    return None
