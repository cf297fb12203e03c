"""Store sessions and recognise them by their cookies (G49, S11-S16)."""

import hmac
import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import ALPHABET, PLATFORM
from schemas.people import Reviewer, ReviewerCaller, ReviewerSession
from schemas.problems import NotFound, Unauthenticated
from streams.ports.errors import Conflict
from streams.ports.records import BY_AGE, Change, Journal, Record, RecordKind, Records
from streams.reviewers.context import IDLE
from streams.sign_in.cookies import LOOKUP_BYTES, hash_cookie
from streams.tenants.handler import Clock

TOUCH_AFTER: Final = timedelta(seconds=60)
"""A session's last use is stored at most this often."""

_FORM: Final = re.compile(rf"([{ALPHABET}]{{{LOOKUP_BYTES}}})\.[A-Za-z0-9_-]{{43}}")


def session_record(session: ReviewerSession, version: int) -> Record:
    """Return the session's record, whose id is its cookie's look-up part."""
    return Record(
        tenant_id=PLATFORM,
        kind=RecordKind.REVIEWER_SESSION,
        id=session.lookup,
        body=session.to_bytes(),
        created_at=session.created_at,
        version=version,
        indexes=(BY_AGE,),
    )


def is_fresh(session: ReviewerSession, now: datetime, idle: timedelta = IDLE) -> bool:
    """Return whether the session is within its idle and absolute limits."""
    return now < session.expires_at and now < session.seen_at + idle


class RecogniseReviewer:
    """Authenticate a reviewer by cookie; a revocation, a new role or a suspension counts at once."""

    def __init__(
        self, records: Records, journal: Journal, pepper: bytes, clock: Clock, idle: timedelta = IDLE
    ) -> None:
        self._records = records
        self._journal = journal
        self._pepper = pepper
        self._clock = clock
        self._idle = idle

    async def __call__(self, cookie: str) -> ReviewerCaller:
        """Return the caller behind the cookie, and store the time of use.

        Raises:
            Unauthenticated: Malformed, unknown, ended, rotated away, idle for too long, expired, or of a
                member who is suspended.
            StoreUnavailable: The store cannot be read for now.
        """
        form = _FORM.fullmatch(cookie)
        if form is None:
            raise Unauthenticated("not a session cookie")
        record, session = await self._find(form[1])
        stored_hash = "" if session is None else session.secret_hash
        genuine = hmac.compare_digest(stored_hash.encode(), hash_cookie(cookie, self._pepper).encode())
        fresh = session is not None and is_fresh(session, self._clock(), self._idle)
        if record is None or session is None or not genuine or not fresh:
            raise Unauthenticated("the session is not accepted")
        reviewer = await self._member(session)
        await self._touch(record, session)
        return ReviewerCaller(
            tenant_id=session.tenant_id,
            reviewer_id=session.reviewer_id,
            session_id=session.session_id,
            role=reviewer.role,
            satisfied=session.satisfied,
        )

    async def _find(self, lookup: str) -> tuple[Record | None, ReviewerSession | None]:
        try:
            record = await self._records.get(PLATFORM, RecordKind.REVIEWER_SESSION, lookup)
        except NotFound:
            return None, None
        return record, ReviewerSession.from_bytes(record.body)

    async def _member(self, session: ReviewerSession) -> Reviewer:
        try:
            record = await self._records.get(session.tenant_id, RecordKind.REVIEWER, session.reviewer_id)
        except NotFound:
            raise Unauthenticated("the member is gone") from None
        reviewer = Reviewer.from_bytes(record.body)
        if not reviewer.active:
            raise Unauthenticated("the member is suspended")
        if all(open_one.lookup != session.lookup for open_one in reviewer.open_sessions):
            raise Unauthenticated("the session is over")
        return reviewer

    async def _touch(self, record: Record, session: ReviewerSession) -> None:
        """Store that the session was used; a concurrent change is ignored."""
        now = self._clock()
        if now - session.seen_at < TOUCH_AFTER:
            return
        seen = session.model_copy(update={"seen_at": now})
        changed = replace(record, body=seen.to_bytes(), version=record.version + 1)
        try:
            await self._journal.commit(Change(PLATFORM, (changed,)))
        except Conflict:
            return
