"""Members, their passwords and factors over real stores, with a clock that is set by hand."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from argon2 import Parameters
from uuid_utils.compat import uuid7

from app.adapters.security.passwords import PARAMETERS, Argon2Passwords
from schemas.audit import Actor, AuditEvent, AuditFilter
from schemas.enums import ActorType
from schemas.ids import PLATFORM, TenantId, UserId, encode_id
from schemas.people import Reviewer, ReviewerCaller, Role
from schemas.sign_in import FactorMethod
from streams.ports.stores import Stores
from streams.reviewers.context import People
from streams.reviewers.members import add_member, load_member
from streams.sign_in import second_factor
from streams.sign_in.attempt_limits import SignInLimits
from streams.sign_in.factor_check import FactorVerified, Presented, open_seed, verify_factor
from streams.sign_in.session_cookies import RecogniseReviewer
from streams.sign_in.sign_in import SignIn, SignInAnswer, SignInRequest
from streams.sign_in.totp import code_of, step_of
from tests.builders import ACME, NOW

CHEAP: Final = replace(PARAMETERS, memory_cost=64, time_cost=1)
"""Argon2id that costs nothing, for tests that are not about its cost."""

EMAIL: Final = "ada@acme.example"
PASSWORD: Final = "nine green umbrellas"  # noqa: S105 - of nobody
KEY: Final = b"k" * 32
PEPPER: Final = b"p" * 32


@dataclass
class Stage:
    """The use cases about members over one store."""

    stores: Stores
    passwords: Argon2Passwords
    drift_steps: int = 1
    now: datetime = NOW
    limits: SignInLimits = SignInLimits()  # noqa: RUF009 - frozen

    @property
    def people(self) -> People:
        """What the use cases work with."""
        return People(
            records=self.stores.records,
            commit=self.stores.journal.commit,
            vault=self.stores.vault,
            passwords=self.passwords,
            key=KEY,
            cookie_pepper=PEPPER,
            clock=lambda: self.now,
            new_id=lambda prefix: encode_id(prefix, uuid7()),
            totp_drift_steps=self.drift_steps,
        )

    def wait(self, **some: float) -> None:
        """Let time pass."""
        self.now += timedelta(**some)

    async def add(
        self, email: str = EMAIL, password: str | None = PASSWORD, tenant_id: TenantId = ACME
    ) -> Reviewer:
        """Add a member."""
        hashed = None if password is None else await self.passwords.hash(password)
        member = Reviewer(
            reviewer_id=UserId(encode_id("usr", uuid7())), tenant_id=tenant_id, email=email, name="Ada",
            role=Role.REVIEWER, created_at=self.now, updated_at=self.now, password_hash=hashed,
        )  # fmt: skip
        await add_member(self.people, member, ())
        return member

    async def sign_in(
        self,
        email: str = EMAIL,
        password: str = PASSWORD,
        *,
        address: str = "192.0.2.1",
        key: str | None = None,
    ) -> SignInAnswer:
        """Sign in from an address."""
        actor = Actor(actor_type=ActorType.OPERATOR, request_id="req_1", ip=address)
        return await SignIn(self.people, self.limits)(SignInRequest(email, password, actor, key))

    async def recognise(self, cookie: str | None) -> ReviewerCaller:
        """Tell who presents a cookie."""
        recognise = RecogniseReviewer(self.stores.records, self.stores.journal, PEPPER, lambda: self.now)
        return await recognise(cookie or "")

    async def enter(self, **more: str) -> ReviewerCaller:
        """Sign in and return who that is then."""
        return await self.recognise((await self.sign_in(**more)).cookie)

    async def enrol(self, caller: ReviewerCaller) -> tuple[bytes, Sequence[str], str]:
        """Enrol a factor and return its seed, the recovery codes and the new cookie."""
        await second_factor.begin(self.people, caller, None)
        seed = await self.seed_of(caller)
        confirmed = await second_factor.confirm(self.people, caller, self.code(seed), actor_of(caller))
        self.wait(seconds=30)
        return seed, confirmed.answer.recovery_codes, confirmed.cookie

    async def seed_of(self, caller: ReviewerCaller) -> bytes:
        """The seed that waits for its first code."""
        reviewer = await self.member(caller)
        assert reviewer.pending_factor is not None
        return await open_seed(self.people, reviewer, reviewer.pending_factor.sealed_seed)

    def code(self, seed: bytes, steps: int = 0) -> str:
        """The code of now, or of some steps from now."""
        return code_of(seed, step_of(self.now) + steps)

    async def verify_factor(
        self,
        caller: ReviewerCaller,
        text: str,
        method: FactorMethod = FactorMethod.TOTP,
        address: str = "192.0.2.1",
    ) -> FactorVerified:
        """Meet the factor from an address."""
        return await verify_factor(self.people, caller, Presented(method, text), actor_of(caller, address))

    async def member(self, one: ReviewerCaller | Reviewer) -> Reviewer:
        """The member as kept now."""
        return (await load_member(self.stores.records, one.tenant_id, one.reviewer_id)).reviewer

    async def rows(self, tenant_id: TenantId = ACME) -> list[AuditEvent]:
        """The audit log, oldest first."""
        return [*reversed(await self.stores.audit_log.page(tenant_id, AuditFilter(), limit=200))]

    async def actions(self, tenant_id: TenantId = ACME) -> list[str]:
        """What the audit log tells, oldest first."""
        return [str(row.action) for row in await self.rows(tenant_id)]

    async def platform_actions(self) -> list[str]:
        """What the platform's own log tells."""
        return await self.actions(PLATFORM)


def actor_of(caller: ReviewerCaller, address: str = "192.0.2.1") -> Actor:
    """The caller as an actor."""
    return Actor(actor_type=ActorType.REVIEWER, actor_id=caller.reviewer_id, request_id="req_1", ip=address)


@asynccontextmanager
async def staged(stores: Stores, parameters: Parameters = CHEAP) -> AsyncIterator[Stage]:
    """Set the stage over opened stores."""
    passwords = Argon2Passwords(parameters, waiting=500)
    try:
        yield Stage(stores, passwords)
    finally:
        await passwords.aclose()
