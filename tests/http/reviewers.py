"""Reviewers at a served front: members with passwords, a clock that is set by hand, and their browsers."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pyotp
from uuid_utils.compat import uuid7

from app.adapters.security.passwords import Argon2Passwords
from schemas.ids import TenantId, UserId, encode_id
from schemas.people import Reviewer, Role, TokenPurpose
from streams.reviewers.members import Amended, add_member, amend, load_member
from streams.reviewers.tokens import issue_token
from tests.builders import ACME
from tests.http.support import BASE_URL, Front, Response, now, open_front

EMAIL: Final = "ada@acme.example"
PASSWORD: Final = "nine green umbrellas"  # noqa: S105 - of nobody
WRONG: Final = "nine green umbrellaz"

SESSIONS: Final = "/v1/control/sessions"
CURRENT: Final = f"{SESSIONS}/current"
MFA: Final = "/v1/control/mfa"
VERIFY: Final = f"{MFA}/verify"
TOTP: Final = f"{MFA}/totp"
CONFIRM: Final = f"{TOTP}/confirm"
RECOVERY: Final = f"{MFA}/recovery-codes"
CHANGE: Final = "/v1/control/password"
RESET: Final = f"{CHANGE}/reset"

_COOKIE: Final = re.compile(r"service_session=([^;]*)")


@dataclass
class Clock:
    """The time, moved on by hand."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        """The moment."""
        return now() + self.ahead

    def wait(self, **some: float) -> None:
        """Let time pass."""
        self.ahead += timedelta(**some)


@dataclass
class Browser:
    """Keeps the cookie it was given, as browsers do, and comes from the service's own pages."""

    office: "Office"
    cookie: str | None = None

    async def ask(self, method: str, path: str, **more: Any) -> Response:
        """Send a request with the cookie, if there is one."""
        own = {"Origin": BASE_URL}
        if self.cookie is not None:
            own["Cookie"] = f"service_session={self.cookie}"
        headers = {**own, **dict(more.pop("headers", {}))}
        sent = {name: value for name, value in headers.items() if value is not None}
        response = await self.office.front.ask(method, path, None, headers=sent, **more)
        given = _COOKIE.match(response.headers.get("Set-Cookie", ""))
        if given is not None:
            self.cookie = given[1] or None
        return response

    async def sign_in(self, email: str = EMAIL, password: str = PASSWORD, **more: Any) -> Response:
        """Sign in."""
        return await self.ask("POST", SESSIONS, json={"email": email, "password": password}, **more)

    async def enrol(self) -> pyotp.TOTP:
        """Enrol an authenticator, which meets the factor."""
        begun = await self.ask("POST", TOTP)
        assert begun.status == 201
        device = pyotp.TOTP(begun.json["secret"])
        confirmed = await self.ask("POST", CONFIRM, json={"code": self.office.code(device)})
        assert confirmed.status == 200
        self.office.clock.wait(seconds=30)
        return device

    async def verify(self, device: pyotp.TOTP) -> Response:
        """Meet the factor with the code of now."""
        return await self.ask("POST", VERIFY, json={"code": self.office.code(device)})


@dataclass
class Office:
    """A served front with its members."""

    front: Front
    clock: Clock = field(default_factory=Clock)

    def browser(self, cookie: str | None = None) -> Browser:
        """Another browser."""
        return Browser(self, cookie)

    def code(self, device: pyotp.TOTP) -> str:
        """What an authenticator shows now."""
        return device.at(self.clock())

    async def add(
        self,
        email: str = EMAIL,
        password: str | None = PASSWORD,
        *,
        role: Role = Role.REVIEWER,
        tenant_id: TenantId = ACME,
    ) -> Reviewer:
        """Add a member."""
        people = self.front.ports.people
        hashed = None if password is None else await people.passwords.hash(password)
        member = Reviewer(
            reviewer_id=UserId(encode_id("usr", uuid7())), tenant_id=tenant_id, email=email, name="Ada",
            role=role, created_at=self.clock(), updated_at=self.clock(), password_hash=hashed,
        )  # fmt: skip
        await add_member(people, member, ())
        return member

    async def enter(self, email: str = EMAIL) -> Browser:
        """A browser that is signed in with the first factor."""
        browser = self.browser()
        assert (await browser.sign_in(email)).status == 201
        return browser

    async def enter_fully(self, email: str = EMAIL) -> tuple[Browser, pyotp.TOTP]:
        """A browser that is signed in with a factor enrolled just now, and the authenticator."""
        browser = await self.enter(email)
        return browser, await browser.enrol()

    async def issue(self, member: Reviewer, purpose: TokenPurpose = TokenPurpose.PASSWORD_RESET) -> str:
        """Give out a one-time token."""
        people, texts = self.front.ports.people, list[str]()

        async def with_token(reviewer: Reviewer) -> Amended:
            issued = issue_token(people, reviewer, purpose)
            texts.append(issued.text)
            return Amended(issued.reviewer, (), (issued.record,))

        await amend(people, member.tenant_id, member.reviewer_id, with_token)
        return texts[-1]

    async def stored(self, member: Reviewer) -> Reviewer:
        """The member as kept now."""
        records = self.front.ports.people.records
        return (await load_member(records, member.tenant_id, member.reviewer_id)).reviewer

    async def change(self, member: Reviewer, **changes: Any) -> None:
        """Change the member as a colleague would."""

        async def changed(reviewer: Reviewer) -> Amended:
            return Amended(reviewer.model_copy(update=changes))

        await amend(self.front.ports.people, member.tenant_id, member.reviewer_id, changed)

    def stored_text(self) -> str:
        """All records, keys and bodies, as text."""
        records = self.front.shelves.records.items()
        return " ".join(f"{key} {record.indexes} {record.body!r}" for key, record in records)

    def audited(self, tenant_id: TenantId = ACME) -> list[str]:
        """What the audit log tells, oldest first."""
        return [str(row.action) for row in self.front.shelves.audit.get(tenant_id, {}).values()]


@asynccontextmanager
async def open_office(passwords: Argon2Passwords | None = None, **settings: Any) -> AsyncIterator[Office]:
    """Serve a front whose clock is set by hand."""
    clock = Clock()
    async with open_front(clock=clock, passwords=passwords, **settings) as front:
        yield Office(front, clock)
