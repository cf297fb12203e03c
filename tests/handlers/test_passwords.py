"""Passwords changed with the old one or set with a one-time token, over the store."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.adapters.sqlite.stores import open_sqlite_stores
from schemas.audit import Actor
from schemas.people import Reviewer, ReviewerCaller, TokenPurpose
from schemas.problems import ProblemCode, Refused, Unauthenticated
from streams.reviewers.members import Amended, amend
from streams.reviewers.tokens import LIFETIME_OF, issue_token
from streams.sign_in.attempt_limits import TooManyAttempts
from streams.sign_in.passwords import ChangePassword, ResetPassword
from tests.handlers.people_stage import PASSWORD, Stage, actor_of, staged

ROOT_KEY = RootKey(bytes(range(32)))
NEW = "seven brass kettles"
WRONG = "nine green umbrellaz"


@pytest.fixture
def shelves() -> Shelves:
    """What is kept."""
    return Shelves()


@pytest.fixture
async def stage(shelves: Shelves) -> AsyncIterator[Stage]:
    """A stage in memory."""
    async with staged(open_memory_stores(ROOT_KEY, shelves)) as set_up:
        yield set_up


@pytest.fixture
async def sqlite_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage over SQLite, whose threads let rivals meet."""
    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores, staged(stores) as set_up:
        yield set_up


async def change(stage: Stage, caller: ReviewerCaller, current: str = PASSWORD, new: str = NEW) -> str:
    """Change the caller's password and return the new cookie."""
    change = ChangePassword(stage.people, stage.limits)
    return (await change(caller, current, new, actor_of(caller))).cookie


async def reset(stage: Stage, token: str, new: str = NEW) -> None:
    """Set a password with a token."""
    await ResetPassword(stage.people, stage.limits)(token, new, Actor(request_id="req_1"))


async def issue(stage: Stage, member: Reviewer, purpose: TokenPurpose = TokenPurpose.PASSWORD_RESET) -> str:
    """Give a token out as the command line does."""
    texts: list[str] = []

    async def with_token(reviewer: Reviewer) -> Amended:
        issued = issue_token(stage.people, reviewer, purpose)
        texts.append(issued.text)
        return Amended(issued.reviewer, (), (issued.record,))

    await amend(stage.people, member.tenant_id, member.reviewer_id, with_token)
    return texts[-1]


async def refusal(stage: Stage, token: str, new: str = NEW) -> ProblemCode:
    """The code a reset is refused with."""
    with pytest.raises(Refused) as response:
        await reset(stage, token, new)
    return response.value.refusal.code


async def test_a_changed_password_counts_and_the_old_one_does_not(stage: Stage) -> None:
    await stage.add()
    await change(stage, await stage.enter())

    assert (await stage.sign_in(password=NEW)).cookie is not None
    with pytest.raises(Refused):
        await stage.sign_in()


async def test_s14_a_changed_password_ends_every_other_session(stage: Stage) -> None:
    await stage.add()
    mine, other = (await stage.sign_in()).cookie, (await stage.sign_in()).cookie

    renewed = await change(stage, await stage.recognise(mine))

    await stage.recognise(renewed)
    for old in (mine, other):
        with pytest.raises(Unauthenticated):
            await stage.recognise(old)


async def test_a_change_needs_the_old_password(stage: Stage) -> None:
    member = await stage.add()
    caller = await stage.enter()

    with pytest.raises(Refused) as response:
        await change(stage, caller, WRONG)

    assert response.value.refusal.code is ProblemCode.CREDENTIALS_INVALID
    assert (await stage.member(member)).password_hash == member.password_hash


async def test_wrong_old_passwords_count_as_failed_sign_ins(stage: Stage) -> None:
    await stage.add()
    caller = await stage.enter()
    for _ in range(10):
        with pytest.raises(Refused):
            await change(stage, caller, WRONG)

    with pytest.raises(TooManyAttempts):
        await change(stage, caller)
    with pytest.raises(TooManyAttempts):
        await stage.sign_in(address="192.0.2.2")


async def test_a_new_password_must_be_allowed(stage: Stage) -> None:
    member = await stage.add()
    caller = await stage.enter()

    with pytest.raises(Refused) as response:
        await change(stage, caller, new="ada@acme.example!")

    assert [error.pointer for error in response.value.refusal.errors] == ["/new_password"]
    assert (await stage.member(member)).password_hash == member.password_hash


async def test_a_change_is_one_row(stage: Stage) -> None:
    await stage.add()
    await change(stage, await stage.enter())

    (_, row) = await stage.rows()
    assert row.context["changes"] == {"password_changed": True}


async def test_of_two_changes_at_once_one_is_made(sqlite_stage: Stage) -> None:
    await sqlite_stage.add()
    callers = [await sqlite_stage.enter(), await sqlite_stage.enter()]
    words = [NEW, "eleven copper pans"]

    results = await asyncio.gather(
        *(change(sqlite_stage, caller, new=new) for caller, new in zip(callers, words, strict=True)),
        return_exceptions=True,
    )

    assert sum(isinstance(one, str) for one in results) == 1
    assert (await sqlite_stage.actions()).count("reviewer.password_changed") == 1


async def test_a_token_sets_the_first_password(stage: Stage) -> None:
    member = await stage.add(password=None)
    token = await issue(stage, member, TokenPurpose.INVITATION)

    await reset(stage, token)

    assert (await stage.sign_in(password=NEW)).cookie is not None


async def test_a_token_is_good_once(stage: Stage) -> None:
    token = await issue(stage, await stage.add())
    await reset(stage, token)

    assert await refusal(stage, token, "eleven copper pans") is ProblemCode.CREDENTIALS_INVALID


async def test_of_many_posts_of_one_token_at_once_one_counts(sqlite_stage: Stage) -> None:
    token = await issue(sqlite_stage, await sqlite_stage.add())
    words = [f"{word} copper pans today" for word in ("one", "two", "three", "four", "five")]

    results = await asyncio.gather(
        *(reset(sqlite_stage, token, new) for new in words), return_exceptions=True
    )

    assert sum(one is None for one in results) == 1
    assert sum(isinstance(one, Refused) for one in results) == 4


async def test_a_newer_token_voids_the_older_one(stage: Stage) -> None:
    member = await stage.add()
    older, newer = await issue(stage, member), await issue(stage, member)

    assert await refusal(stage, older) is ProblemCode.CREDENTIALS_INVALID
    await reset(stage, newer)


@pytest.mark.parametrize("purpose", TokenPurpose)
async def test_a_token_expires(stage: Stage, purpose: TokenPurpose) -> None:
    token = await issue(stage, await stage.add(), purpose)
    stage.now += LIFETIME_OF[purpose] - timedelta(milliseconds=1)
    assert await refusal(stage, token, "short") is ProblemCode.VALIDATION_FAILED
    stage.wait(milliseconds=1)

    assert await refusal(stage, token) is ProblemCode.CREDENTIALS_INVALID


async def test_a_refused_password_leaves_the_token_good(stage: Stage) -> None:
    token = await issue(stage, await stage.add())

    assert await refusal(stage, token, "password1234") is ProblemCode.VALIDATION_FAILED
    await reset(stage, token)


async def test_a_suspended_member_resets_nothing(stage: Stage) -> None:
    member = await stage.add()
    token = await issue(stage, member)

    async def inactive(reviewer: Reviewer) -> Amended:
        return Amended(reviewer.model_copy(update={"active": False}))

    await amend(stage.people, member.tenant_id, member.reviewer_id, inactive)

    assert await refusal(stage, token) is ProblemCode.CREDENTIALS_INVALID


@pytest.mark.parametrize("token", ["", "x", "idt_" + "A" * 43, "idt_" + "A" * 44, "idt_" + "é" * 43])
async def test_what_is_no_token_is_refused_alike(stage: Stage, token: str) -> None:
    await stage.add()

    assert await refusal(stage, token) is ProblemCode.CREDENTIALS_INVALID


async def test_a_reset_ends_every_session_and_keeps_the_factor(stage: Stage) -> None:
    member = await stage.add()
    _, _, cookie = await stage.enrol(await stage.enter())

    await reset(stage, await issue(stage, member))

    with pytest.raises(Unauthenticated):
        await stage.recognise(cookie)
    answer = await stage.sign_in(password=NEW)
    assert (answer.session.mfa.enrolled, answer.session.mfa.satisfied) == (True, False)


async def test_a_reset_lets_a_full_account_in_again(stage: Stage) -> None:
    member = await stage.add()
    for number in range(10):
        with pytest.raises(Refused):
            await stage.sign_in(password=WRONG, address=f"192.0.2.{number}")

    await reset(stage, await issue(stage, member))

    assert (await stage.sign_in(password=NEW, address="192.0.2.99")).cookie is not None


async def test_a_token_is_kept_hashed(stage: Stage, shelves: Shelves) -> None:
    token = await issue(stage, await stage.add())

    stored = " ".join(f"{key} {record.body!r}" for key, record in shelves.records.items())
    assert token not in stored
    assert token.removeprefix("idt_") not in stored
