"""Members of a tenant as their colleagues see them, and the forms of their addresses and names (G87)."""

import unicodedata
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints

from schemas.base import Frozen, Timestamp, in_words
from schemas.ids import UserId
from schemas.people import FactorResetRequest, Role

EMAIL_FORM: Final = r"[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,189}"
"""Only what every address has (RFC 5321 section 4.5.3.1); whether one exists, only a message shows."""

MOST_NAME_CHARS: Final = 120


def _printable(text: str) -> str:
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in text):
        raise ValueError("must hold no control characters")
    return text


PlainName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_NAME_CHARS),
    AfterValidator(_printable),
    in_words(f"Write a name of 1 to {MOST_NAME_CHARS} characters, on one line."),
]
"""A name as people write it: trimmed, one line."""

EmailAddress = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=3, max_length=254, pattern=f"^{EMAIL_FORM}$"),
    AfterValidator(_printable),
    in_words("Write an e-mail address such as ada@acme.example, of at most 254 characters."),
]
"""An e-mail address as given; it is stored in its one normal form."""


class Member(Frozen):
    """A member; what is null is not there (yet)."""

    reviewer_id: UserId
    email: str
    name: str
    role: Role
    active: bool
    """False: suspended."""
    password_set: bool
    """False: the invitation was not redeemed yet."""
    mfa_enrolled: bool
    factor_reset: FactorResetRequest | None
    """A reset of the second factor that waits for a second person."""
    created_at: Timestamp
    updated_at: Timestamp


class MemberList(Frozen):
    """A page of a tenant's members, newest first."""

    members: tuple[Member, ...]
    next_cursor: str | None
    """Null at the end."""


class InvitedMember(Member):
    """A member and the token to set the first password with, shown this once."""

    invitation_token: str | None
    """Null when the request is a repeated one (G82)."""
    invitation_expires_at: Timestamp | None
