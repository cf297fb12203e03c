"""Sign in with e-mail address and password; all failures look and cost the same (G49, G96, S27)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import ActorType
from schemas.ids import PLATFORM, ReviewerSessionId, derive_id
from schemas.people import OpenSession, Reviewer, ReviewerSession
from schemas.problems import NotFound, Overloaded, ProblemCode, Refused
from schemas.sign_in import SignedInSession
from streams.audit.commit import act
from streams.audit.rows import write_row
from streams.ports.records import RecordKind
from streams.reviewers.addresses import email_id
from streams.reviewers.context import People
from streams.reviewers.members import Amended, StoredMember, amend, find_by_email
from streams.sign_in.attempt_limits import (
    CountedAttempt,
    Limit,
    SignInLimits,
    TooManyAttempts,
    give_back,
    network_of,
    take,
)
from streams.sign_in.cookies import known_device
from streams.sign_in.session_cookies import session_record
from streams.sign_in.sessions import (
    MOST_SESSIONS,
    SESSION_PREFIX,
    first_lookup,
    fresh_sessions,
    open_session,
    opened,
    show,
)


@dataclass(frozen=True, slots=True)
class SignInRequest:
    """The credentials and the origin of a sign-in."""

    email: str
    password: str = field(repr=False)
    actor: Actor
    """Its address is counted; the actor's id is known only after the password check."""
    key: str | None = None
    """The request's Idempotency-Key."""
    device: str | None = field(default=None, repr=False)
    """The request's device cookie, as it came."""


@dataclass(frozen=True, slots=True)
class SignInAnswer:
    """A new session, or the first answer again."""

    session: SignedInSession
    cookie: str | None = field(repr=False)
    """None when replayed: a secret is shown once (G82)."""

    @property
    def replayed(self) -> bool:
        """Whether this was answered before."""
        return self.cookie is None


class _OpenedAlready(Exception):
    """The same request opened the session concurrently."""


class SignIn:
    """Check the password and open a session whose second factor is not verified yet."""

    def __init__(self, people: People, limits: SignInLimits) -> None:
        self._people = people
        self._limits = limits

    async def __call__(self, request: SignInRequest) -> SignInAnswer:
        """Check the password and return the session opened.

        Raises:
            TooManyAttempts: From this address, or failed ones for this account.
            Refused: CREDENTIALS_INVALID; unknown address, wrong password, suspended or not yet a password.
            Overloaded: Too many passwords are being checked.
        """
        people, account = self._people, email_id(request.email, self._people.key)
        taken = await self._count(request, account)
        member = await find_by_email(people, request.email)
        if not await self._is_genuine(member, request.password, taken) or member is None:
            await self._record_failure(request, account, member)
            raise credentials_invalid()
        if taken is not None:
            await give_back(people, taken)
        return await self._replay(member.reviewer, request) or await self._open(member.reviewer, request)

    async def _count(self, request: SignInRequest, account: str) -> CountedAttempt | None:
        """Count the attempt: against the device if the member is known there, else as G96 specifies.

        A device that failed too often counts like any other, so a cookie is never a disadvantage.
        """
        device = await self._known_device(request)
        if device is not None:
            with suppress(TooManyAttempts):
                return await self._take(self._limits.by_device(), device)
        await self._take(self._limits.by_address(), network_of(request.actor.ip))
        try:
            return await self._take(self._limits.by_account(), account)
        except TooManyAttempts as full:
            await self._record_limit(request, account, full)
            raise

    async def _known_device(self, request: SignInRequest) -> str | None:
        """Return the device's id, in the same time whether or not the address is a member's (S27)."""
        if request.device is None or self._limits.attempts is None:
            return None
        member = await find_by_email(self._people, request.email)
        if member is None:
            return None
        return known_device(self._people, member.reviewer, request.device, self._people.clock())

    async def _take(self, limit: Limit, whose: str) -> CountedAttempt | None:
        return None if self._limits.attempts is None else await take(self._people, limit, whose)

    async def _is_genuine(
        self, member: StoredMember | None, password: str, taken: CountedAttempt | None
    ) -> bool:
        """Return whether the password is that of an active member; every other case costs as much."""
        usable = member is not None and member.reviewer.active
        known = member.reviewer.password_hash if member is not None and usable else None
        try:
            return await self._people.passwords.verify(known, password)
        except Overloaded:
            if taken is not None:
                await give_back(self._people, taken)  # the password was not checked
            raise

    async def _record_failure(
        self, request: SignInRequest, account: str, member: StoredMember | None
    ) -> None:
        await self._write_row(self._people.new_id("aud"), request, account, member, "A sign-in failed.", {})

    async def _record_limit(self, request: SignInRequest, account: str, full: TooManyAttempts) -> None:
        """Write one audit row per window for an account whose limit is reached."""
        member = await find_by_email(self._people, request.email)
        changes = {"refused_for_s": full.retry_after_s}
        await self._write_row(
            full.row_id, request, account, member, "Sign-in is refused for a while.", changes
        )

    async def _write_row(
        self,
        row_id: str,
        request: SignInRequest,
        account: str,
        member: StoredMember | None,
        detail: str,
        changes: Mapping[str, Any],
    ) -> None:
        """Write an audit row to the member's tenant, or to the platform for an unknown address (G93)."""
        people = self._people
        known = None if member is None else member.reviewer
        subject = derive_id("eml", account) if known is None else known.reviewer_id
        tenant_id = PLATFORM if known is None else known.tenant_id
        actor = request.actor.model_copy(update={"actor_type": ActorType.SYSTEM, "actor_id": None})
        action = AuditAction.REVIEWER_SIGN_IN_FAILED
        row = write_row(row_id, action, actor, subject, people.clock(), detail=detail, changes=changes)
        await people.commit(act(tenant_id, row))

    async def _replay(self, reviewer: Reviewer, request: SignInRequest) -> SignInAnswer | None:
        """Return the first answer of the request's key, if it had one."""
        if request.key is None:
            return None
        lookup = first_lookup(self._id_of(reviewer, request))
        try:
            record = await self._people.records.get(PLATFORM, RecordKind.REVIEWER_SESSION, lookup)
        except NotFound:
            return None
        return SignInAnswer(show(self._people, reviewer, ReviewerSession.from_bytes(record.first_body)), None)

    def _id_of(self, reviewer: Reviewer, request: SignInRequest) -> ReviewerSessionId:
        if request.key is None:
            return ReviewerSessionId(self._people.new_id(SESSION_PREFIX))
        parts = (reviewer.tenant_id, reviewer.reviewer_id, request.key)
        return ReviewerSessionId(derive_id(SESSION_PREFIX, *parts))

    async def _open(self, checked: Reviewer, request: SignInRequest) -> SignInAnswer:
        """Open the session, unless the member changed since the password was checked."""
        people, rehashed = self._people, await self._rehash(checked, request.password)
        made = open_session(people, checked, self._id_of(checked, request))
        row_id = people.new_id("aud")

        async def with_session(reviewer: Reviewer) -> Amended:
            if reviewer.password_hash != checked.password_hash or not reviewer.active:
                raise credentials_invalid()  # changed while it was checked
            if any(one.session_id == made.session.session_id for one in reviewer.open_sessions):
                raise _OpenedAlready
            member = [opened(session) for session in await fresh_sessions(people, reviewer)]
            ended, staying = member[: 1 - MOST_SESSIONS], member[1 - MOST_SESSIONS :]
            sessions = (*staying, opened(made.session))
            update = {"open_sessions": sessions, "password_hash": rehashed or reviewer.password_hash}
            row = self._row_of(row_id, request, made.session, ended)
            record = session_record(made.session, 1)
            return Amended(reviewer.model_copy(update=update), (row,), (record,))

        try:
            reviewer = await amend(people, checked.tenant_id, checked.reviewer_id, with_session)
        except _OpenedAlready:
            return SignInAnswer(show(people, checked, made.session), None)
        return SignInAnswer(show(people, reviewer, made.session), made.cookie)

    def _row_of(
        self, row_id: str, request: SignInRequest, session: ReviewerSession, ended: Sequence[OpenSession]
    ) -> AuditEvent:
        who = {"actor_type": ActorType.REVIEWER, "actor_id": session.reviewer_id}
        changes = {"session_id": session.session_id, "ended": [one.session_id for one in ended]}
        return write_row(
            row_id, AuditAction.REVIEWER_SIGNED_IN, request.actor.model_copy(update=who),
            session.reviewer_id, session.created_at, detail="A reviewer signed in.", changes=changes,
        )  # fmt: skip

    async def _rehash(self, reviewer: Reviewer, password: str) -> str | None:
        """Return a hash with the current parameters if the stored one has others and there is capacity."""
        member = reviewer.password_hash
        if member is None or not self._people.passwords.is_stale(member):
            return None
        try:
            return await self._people.passwords.hash(password)
        except Overloaded:
            return None


def credentials_invalid() -> Refused:
    """Return the refusal of every failed sign-in."""
    return Refused.because(ProblemCode.CREDENTIALS_INVALID, "The e-mail address or the password is wrong.")
