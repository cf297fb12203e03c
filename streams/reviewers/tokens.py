"""Issue and redeem one-time tokens for invitations and password resets (G87, G107, S28)."""

import base64
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import PLATFORM
from schemas.people import OneTimeToken, Reviewer, TokenPurpose
from schemas.problems import NotFound, ProblemCode, Refused
from streams.ports.records import BY_AGE, Record, RecordKind
from streams.reviewers.context import People, keyed_hash
from streams.reviewers.members import load_member

LIFETIME_OF: Final = {
    TokenPurpose.INVITATION: timedelta(days=7),
    TokenPurpose.PASSWORD_RESET: timedelta(hours=1),
}
"""Lifetime by purpose: an invited colleague may be away for days, a reset is used at once."""

TOKEN_BYTES: Final = 32
"""256 random bits; guessing is hopeless, so a keyed hash is all that needs to be stored."""

_FORM: Final = re.compile(r"idt_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token; it is valid once member and record are committed in one change."""

    reviewer: Reviewer
    """The member with this token outstanding; an older one is void."""
    record: Record
    """A new record, to be committed beside the member."""
    expires_at: datetime
    text: str = field(repr=False)
    """Shown once."""


def issue_token(people: People, reviewer: Reviewer, purpose: TokenPurpose) -> IssuedToken:
    """Create a token for a member; commits nothing, so it can be part of a larger change."""
    now = people.clock()
    text = "idt_" + base64.urlsafe_b64encode(people.draw(TOKEN_BYTES)).rstrip(b"=").decode()
    token = OneTimeToken(
        tenant_id=reviewer.tenant_id,
        reviewer_id=reviewer.reviewer_id,
        purpose=purpose,
        created_at=now,
        expires_at=now + LIFETIME_OF[purpose],
    )
    token_id = _id_of(text, people.key)
    record = Record(PLATFORM, RecordKind.TOKEN, token_id, token.to_bytes(), now, indexes=(BY_AGE,))
    outstanding = reviewer.model_copy(update={"token_id": token_id})
    return IssuedToken(outstanding, record, token.expires_at, text)


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """A valid token; the member's record decides whether it is still valid when used."""

    token_id: str
    token: OneTimeToken


async def read_token(people: People, text: str) -> PresentedToken:
    """Return the token presented.

    Raises:
        Refused: CREDENTIALS_INVALID; of another form, unknown, used, replaced or expired, or its member is
            suspended; the reason is not disclosed.
    """
    if _FORM.fullmatch(text) is None:
        raise refused_token()
    token_id = _id_of(text, people.key)
    try:
        record = await people.records.get(PLATFORM, RecordKind.TOKEN, token_id)
        token = OneTimeToken.from_bytes(record.body)
        stored = await load_member(people.records, token.tenant_id, token.reviewer_id)
    except NotFound:
        raise refused_token() from None
    if people.clock() >= token.expires_at:
        raise refused_token()
    require_outstanding(stored.reviewer, token_id)
    return PresentedToken(token_id, token)


def require_outstanding(reviewer: Reviewer, token_id: str) -> None:
    """Refuse a token that was used or replaced, or whose member is suspended.

    Raises:
        Refused: CREDENTIALS_INVALID.
    """
    if reviewer.token_id != token_id or not reviewer.active:
        raise refused_token()


def refused_token() -> Refused:
    """Return the one answer to every token that is not good."""
    return Refused.because(ProblemCode.CREDENTIALS_INVALID, "The token is not valid, was used, or expired.")


def _id_of(text: str, key: bytes) -> str:
    return keyed_hash(key, "token", text)
