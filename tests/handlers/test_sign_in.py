"""Sign-in over the store: limits, sessions, hashes, and what the audit log tells of it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.adapters.security.passwords import PARAMETERS, Argon2Passwords
from app.adapters.sqlite.stores import open_sqlite_stores
from schemas.audit import Actor
from schemas.enums import ActorType
from schemas.ids import PLATFORM
from schemas.people import Reviewer
from schemas.problems import Overloaded, ProblemCode, Refused, Unauthenticated
from streams.reviewers.members import Amended, add_member, amend
from streams.sign_in.attempt_limits import SignInLimits, TooManyAttempts, network_of
from streams.sign_in.cookies import hash_cookie
from streams.sign_in.session_cookies import RecogniseReviewer
from streams.sign_in.sessions import MOST_SESSIONS, end_session
from streams.sign_in.sign_in import SignIn, SignInRequest
from tests.builders import ACME, GLOBEX
from tests.handlers.people_stage import CHEAP, EMAIL, PASSWORD, PEPPER, Stage, actor_of, staged

ROOT_KEY = RootKey(bytes(range(32)))
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


async def refused(stage: Stage, email: str = EMAIL, password: str = WRONG, **more: str) -> Refused:
    """Fail to sign in."""
    with pytest.raises(Refused) as response:
        await stage.sign_in(email, password, **more)
    return response.value


async def test_a_member_signs_in_with_the_first_factor_met(stage: Stage) -> None:
    member = await stage.add()

    answer = await stage.sign_in()

    caller = await stage.recognise(answer.cookie)
    assert (caller.reviewer_id, caller.tenant_id, caller.satisfied) == (member.reviewer_id, ACME, False)
    assert (answer.session.mfa.enrolled, answer.session.mfa.satisfied) == (False, False)


@pytest.mark.parametrize("email", ["ADA@acme.example", "  ada@acme.example "])
async def test_an_address_is_the_same_in_any_case(stage: Stage, email: str) -> None:
    await stage.add()

    assert (await stage.sign_in(email)).session.reviewer.email == EMAIL


async def test_s27_every_failure_is_answered_alike(stage: Stage) -> None:
    suspended = await stage.add("gone@acme.example")
    await stage.add()
    await stage.add("invited@acme.example", None)
    await suspend(stage, suspended)

    refusal = [
        await refused(stage),
        await refused(stage, "nobody@acme.example", PASSWORD),
        await refused(stage, "gone@acme.example", PASSWORD),
        await refused(stage, "invited@acme.example", PASSWORD),
    ]

    assert {(one.refusal.code, one.refusal.detail, one.refusal.errors) for one in refusal} == {
        (ProblemCode.CREDENTIALS_INVALID, "The e-mail address or the password is wrong.", ())
    }


async def suspend(stage: Stage, member: Reviewer) -> None:
    """Suspend a member as a colleague would."""
    standing = await stage.member(member)
    await change(stage, standing, active=False)


async def change(stage: Stage, member: Reviewer, **changes: object) -> None:
    """Change the member as kept."""

    async def changed(reviewer: Reviewer) -> Amended:
        return Amended(reviewer.model_copy(update=changes))

    await amend(stage.people, member.tenant_id, member.reviewer_id, changed)


async def test_a_sign_in_is_one_row_of_the_tenant(stage: Stage) -> None:
    member = await stage.add()
    answer = await stage.sign_in()

    (row,) = await stage.rows()

    assert (row.action, row.actor_type, row.actor_id) == (
        "reviewer.signed_in", ActorType.REVIEWER, member.reviewer_id,
    )  # fmt: skip
    assert row.subject_id == member.reviewer_id
    assert row.context["changes"]["session_id"] == answer.session.session_id


async def test_a_failed_sign_in_of_a_member_is_one_row_of_its_tenant(stage: Stage) -> None:
    member = await stage.add()
    await refused(stage)

    (row,) = await stage.rows()

    assert (row.action, row.subject_id) == ("reviewer.sign_in_failed", member.reviewer_id)
    assert row.actor_type is ActorType.SYSTEM
    assert await stage.platform_actions() == []


async def test_a_failed_sign_in_of_nobody_is_one_row_of_the_platform(stage: Stage) -> None:
    await stage.add()
    await refused(stage, "nobody@acme.example")

    (row,) = await stage.rows(PLATFORM)

    assert row.action == "reviewer.sign_in_failed"
    assert "nobody@" not in row.model_dump_json()
    assert await stage.actions() == []


async def test_the_same_unknown_address_has_the_same_subject(stage: Stage) -> None:
    for email in ("nobody@x.example", "NOBODY@x.example", "other@x.example"):
        await refused(stage, email)

    subjects = [row.subject_id for row in await stage.rows(PLATFORM)]

    assert subjects[0] == subjects[1] != subjects[2]


async def test_ten_failures_of_an_account_are_looked_at_in_a_window(stage: Stage) -> None:
    await stage.add()
    for number in range(10):
        await refused(stage, address=f"192.0.2.{number}")

    full = await refused(stage, password=PASSWORD, address="198.51.100.1")
    assert isinstance(full, TooManyAttempts)
    assert full.refusal.code is ProblemCode.RATE_LIMITED
    assert full.retry_after_s == 15 * 60

    stage.wait(minutes=15)
    assert (await stage.sign_in()).cookie is not None


async def test_s27_an_unknown_account_fills_up_just_the_same(stage: Stage) -> None:
    for number in range(10):
        await refused(stage, "nobody@x.example", address=f"192.0.2.{number}")

    assert isinstance(await refused(stage, "nobody@x.example", address="192.0.2.99"), TooManyAttempts)


async def test_that_an_account_is_full_is_reported_once_a_window(stage: Stage) -> None:
    await stage.add()
    for number in range(13):
        await refused(stage, address=f"192.0.2.{number}")

    assert await stage.actions() == ["reviewer.sign_in_failed"] * 11


async def test_ten_attempts_of_an_address_are_looked_at_whatever_their_account(stage: Stage) -> None:
    await stage.add()
    for number in range(9):
        await refused(stage, f"{number}@x.example")
    await stage.sign_in()

    assert isinstance(await refused(stage, password=PASSWORD), TooManyAttempts)
    assert (await stage.sign_in(address="192.0.2.2")).cookie is not None


async def test_successes_do_not_count_against_an_account(stage: Stage) -> None:
    await stage.add()
    for number in range(15):
        await stage.sign_in(address=f"192.0.2.{number}")


async def test_a_success_does_not_wipe_out_failures(stage: Stage) -> None:
    await stage.add()
    for number in range(9):
        await refused(stage, address=f"192.0.2.{number}")
    await stage.sign_in(address="192.0.2.50")
    await refused(stage, address="192.0.2.51")

    assert isinstance(await refused(stage, password=PASSWORD, address="192.0.2.52"), TooManyAttempts)


async def test_without_limits_nothing_is_counted(stage: Stage, shelves: Shelves) -> None:
    stage.limits = SignInLimits(None)
    await stage.add()
    for _ in range(12):
        await refused(stage)

    assert [key for key in shelves.records if key[1] == "counter"] == []


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (None, "unknown"), ("", "unknown"), ("x", "unknown"),
    ],
)  # fmt: skip
def test_an_address_counts_as_its_network(address: str | None, network: str) -> None:
    assert network_of(address) == network


async def test_a_sixth_session_ends_the_oldest(stage: Stage) -> None:
    await stage.add()
    cookies = []
    for number in range(MOST_SESSIONS + 1):
        cookies.append((await stage.sign_in(address=f"192.0.2.{number}")).cookie)
        stage.wait(seconds=1)

    with pytest.raises(Unauthenticated):
        await stage.recognise(cookies[0])
    for cookie in cookies[1:]:
        await stage.recognise(cookie)
    assert len((await stage.rows())[-1].context["changes"]["ended"]) == 1


async def test_an_idle_session_makes_room_before_an_open_one(stage: Stage) -> None:
    await stage.add()
    used = (await stage.sign_in()).cookie
    for number in range(MOST_SESSIONS - 1):
        await stage.sign_in(address=f"192.0.2.{number + 2}")
    for _ in range(2):
        stage.wait(minutes=20)
        await stage.recognise(used)

    await stage.sign_in(address="192.0.2.99")

    await stage.recognise(used)


async def test_many_sign_ins_at_once_leave_five_sessions(sqlite_stage: Stage) -> None:
    await sqlite_stage.add()
    answers = await asyncio.gather(
        *(sqlite_stage.sign_in(address=f"192.0.2.{number}") for number in range(9))
    )

    open_ones = 0
    for answer in answers:
        try:
            await sqlite_stage.recognise(answer.cookie)
        except Unauthenticated:
            continue
        open_ones += 1
    assert open_ones == MOST_SESSIONS
    assert await sqlite_stage.actions() == ["reviewer.signed_in"] * 9


async def test_many_at_once_get_no_more_guesses_than_the_limit(sqlite_stage: Stage) -> None:
    await sqlite_stage.add()
    results = await asyncio.gather(
        *(refused(sqlite_stage, address=f"198.51.100.{number}") for number in range(40))
    )

    assert sum(not isinstance(one, TooManyAttempts) for one in results) == 10


async def test_counters_outlive_the_process(tmp_path: Path) -> None:
    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores, staged(stores) as before:
        await before.add()
        for number in range(10):
            await refused(before, address=f"192.0.2.{number}")

    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores, staged(stores) as after:
        assert isinstance(await refused(after, address="192.0.2.99"), TooManyAttempts)


async def test_a_repeated_key_answers_the_first_session_without_a_cookie(stage: Stage) -> None:
    await stage.add()
    first, again = await stage.sign_in(key="k1"), await stage.sign_in(key="k1")
    other = await stage.sign_in(key="k2")

    assert first.session == again.session
    assert (first.replayed, again.replayed, again.cookie) == (False, True, None)
    assert other.session.session_id != first.session.session_id
    assert (await stage.actions()) == ["reviewer.signed_in"] * 2


async def test_a_repeated_key_needs_the_password_again(stage: Stage) -> None:
    await stage.add()
    await stage.sign_in(key="k1")

    assert (await refused(stage, key="k1")).refusal.code is ProblemCode.CREDENTIALS_INVALID


async def test_one_key_at_once_opens_one_session(sqlite_stage: Stage) -> None:
    await sqlite_stage.add()
    answers = await asyncio.gather(*(sqlite_stage.sign_in(address=f"192.0.2.{n}", key="k") for n in range(8)))

    assert len({answer.session.session_id for answer in answers}) == 1
    assert sum(answer.cookie is not None for answer in answers) == 1
    assert await sqlite_stage.actions() == ["reviewer.signed_in"]


async def test_s9_a_session_is_kept_without_its_secret(stage: Stage, shelves: Shelves) -> None:
    await stage.add()
    cookie = (await stage.sign_in()).cookie or ""

    stored = b"".join(record.body for record in shelves.records.values())
    assert len(cookie.partition(".")[2]) * 6 >= 128
    assert cookie.partition(".")[2].encode() not in stored
    assert hash_cookie(cookie, PEPPER).encode() in stored


async def test_an_address_is_in_no_key_of_the_store(stage: Stage, shelves: Shelves) -> None:
    await stage.add()
    await refused(stage, address="203.0.113.77")

    keys = " ".join(f"{key} {record.indexes}" for key, record in shelves.records.items())
    assert "ada@" not in keys  # an id may well have the letters of a name
    assert "203.0.113" not in keys


async def test_s26_a_hash_of_other_parameters_is_made_anew_at_sign_in(stage: Stage) -> None:
    old = Argon2Passwords(replace(CHEAP, time_cost=2))
    member = await stage.add()
    await change(stage, member, password_hash=await old.hash(PASSWORD))
    await old.aclose()

    await stage.sign_in()

    stored = (await stage.member(member)).password_hash or ""
    assert f"m={CHEAP.memory_cost},t={CHEAP.time_cost}," in stored
    assert (await stage.sign_in()).cookie is not None


async def test_s26_a_password_is_kept_as_argon2id_of_at_least_19_mib(stage: Stage) -> None:
    real = Argon2Passwords()
    hashed = await real.hash(PASSWORD)
    await real.aclose()

    assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert (PARAMETERS.salt_len, PARAMETERS.hash_len) == (16, 32)
    assert stage.passwords.is_stale(hashed)


async def test_a_password_changed_while_it_is_checked_opens_nothing(stage: Stage) -> None:
    member, other = await stage.add(), await stage.passwords.hash("ten yellow umbrellas")
    signing_in = asyncio.create_task(stage.sign_in())
    await asyncio.sleep(0)  # it waits for a thread now
    await change(stage, member, password_hash=other)

    with pytest.raises(Refused):
        await signing_in
    assert (await stage.member(member)).open_sessions == ()


async def test_over_its_bound_the_pool_says_so_and_counts_no_failure(stage: Stage) -> None:
    await stage.add()
    small = Argon2Passwords(replace(CHEAP, memory_cost=65_536, time_cost=4), workers=1, waiting=0)
    busy = asyncio.create_task(small.hash(PASSWORD))
    await asyncio.sleep(0)
    usual, stage.passwords = stage.passwords, small

    for number in range(12):
        with pytest.raises(Overloaded):
            await stage.sign_in(address=f"192.0.2.{number}")

    stage.passwords = usual
    assert (await stage.sign_in(address="192.0.2.200")).cookie is not None
    await busy
    await small.aclose()


async def test_an_address_belongs_to_one_member_of_one_tenant(stage: Stage) -> None:
    first = await stage.add()

    with pytest.raises(Refused) as response:
        await stage.add("ADA@acme.example", tenant_id=GLOBEX)

    assert response.value.refusal.code is ProblemCode.MEMBER_EXISTS
    assert [error.pointer for error in response.value.refusal.errors] == ["/email"]
    assert await add_member(stage.people, first, ()) is False


async def test_of_two_members_with_one_address_at_once_one_is_added(sqlite_stage: Stage) -> None:
    adding = (sqlite_stage.add(tenant_id=tenant_id) for tenant_id in (ACME, GLOBEX, ACME, GLOBEX))
    results = await asyncio.gather(*adding, return_exceptions=True)

    assert sum(isinstance(one, Reviewer) for one in results) == 1
    assert sum(isinstance(one, Refused) for one in results) == 3


async def test_s13_the_limits_of_a_session_are_settings(stage: Stage) -> None:
    await stage.add()
    shorter = replace(stage.people, session_idle=timedelta(minutes=15), session_lifetime=timedelta(hours=8))
    actor = Actor(actor_type=ActorType.OPERATOR, ip="192.0.2.1")
    answer = await SignIn(shorter, stage.limits)(SignInRequest(EMAIL, PASSWORD, actor))
    recognise = RecogniseReviewer(
        stage.stores.records, stage.stores.journal, PEPPER, lambda: stage.now, timedelta(minutes=15)
    )

    ends = answer.session.idle_expires_at - stage.now, answer.session.expires_at - stage.now
    stage.wait(minutes=15)

    assert ends == (timedelta(minutes=15), timedelta(hours=8))
    with pytest.raises(Unauthenticated):
        await recognise(answer.cookie or "")


async def test_s14_an_ended_session_is_over_at_once(stage: Stage) -> None:
    await stage.add()
    cookie = (await stage.sign_in()).cookie
    caller = await stage.recognise(cookie)

    await end_session(stage.people, caller, caller.session_id, actor_of(caller))

    with pytest.raises(Unauthenticated):
        await stage.recognise(cookie)
    assert (await stage.actions())[-1] == "reviewer.signed_out"
