"""The second factor over the store: enrolled, met once, limited, replaced, and published to the audit log."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.adapters.sqlite.stores import open_sqlite_stores
from schemas.people import ReviewerCaller
from schemas.problems import ProblemCode, Refused, Unauthenticated
from schemas.sign_in import FactorMethod
from streams.sign_in import second_factor
from streams.sign_in.attempt_limits import TooManyAttempts, TooSoon
from streams.sign_in.factor_check import forget_failures
from streams.sign_in.sessions import end_session
from streams.sign_in.totp import secret_of
from tests.handlers.people_stage import Stage, actor_of, staged

ROOT_KEY = RootKey(bytes(range(32)))
WRONG = "nine green umbrellaz"
RECOVERY = FactorMethod.RECOVERY_CODE
LONGEST_PAUSE_S = 16


@pytest.fixture
def shelves() -> Shelves:
    """What is kept."""
    return Shelves()


@pytest.fixture
async def stage(shelves: Shelves) -> AsyncIterator[Stage]:
    """A stage in memory with a member."""
    async with staged(open_memory_stores(ROOT_KEY, shelves)) as set_up:
        await set_up.add()
        yield set_up


@pytest.fixture
async def sqlite_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage over SQLite, whose threads let rivals meet, with a member."""
    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores, staged(stores) as set_up:
        await set_up.add()
        yield set_up


async def wrong(
    stage: Stage,
    caller: ReviewerCaller,
    text: str = "000000",
    method: FactorMethod = FactorMethod.TOTP,
    address: str = "192.0.2.1",
) -> Refused:
    """Fail to meet the factor."""
    with pytest.raises(Refused) as response:
        await stage.verify_factor(caller, text, method, address)
    return response.value


async def code_of_refusal(awaited: object) -> ProblemCode:
    """The code something is refused with."""
    with pytest.raises(Refused) as response:
        await awaited  # type: ignore[misc]  # any awaitable
    return response.value.refusal.code


def wrong_code(stage: Stage, seed: bytes) -> str:
    """Six digits that are no code of now."""
    good = {stage.code(seed, steps) for steps in (-1, 0, 1)}
    return next(text for text in ("000000", "111111", "222222", "333333") if text not in good)


async def test_confirming_meets_the_factor_for_that_session(stage: Stage) -> None:
    seed, codes, cookie = await stage.enrol(await stage.enter())

    caller = await stage.recognise(cookie)

    assert caller.satisfied
    assert len(codes) == 10
    assert len(seed) == 20


async def guess(stage: Stage, caller: ReviewerCaller, text: str, times: int) -> list[ProblemCode]:
    """Fail so many times, each pause waited for; the codes of the refusals."""
    collected = []
    for _ in range(times):
        collected.append((await wrong(stage, caller, text)).refusal.code)
        stage.wait(seconds=LONGEST_PAUSE_S)
    return collected


async def test_s14_confirming_ends_every_other_session(stage: Stage) -> None:
    other = (await stage.sign_in(address="192.0.2.2")).cookie
    await stage.enrol(await stage.enter())

    with pytest.raises(Unauthenticated):
        await stage.recognise(other)


async def test_confirming_uses_up_its_step(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    stage.wait(seconds=-30)
    caller = await stage.enter(address="192.0.2.2")

    assert (await wrong(stage, caller, stage.code(seed))).refusal.code is ProblemCode.MFA_CODE_INVALID


async def test_enrolling_is_one_row(stage: Stage) -> None:
    await stage.enrol(await stage.enter())

    assert await stage.actions() == ["reviewer.signed_in", "mfa.enrolled"]


async def test_a_wrong_first_code_puts_nothing_in_use(stage: Stage) -> None:
    caller = await stage.enter()
    await second_factor.begin(stage.people, caller, None)
    text = wrong_code(stage, await stage.seed_of(caller))

    refused = code_of_refusal(second_factor.confirm(stage.people, caller, text, actor_of(caller)))

    assert await refused is ProblemCode.MFA_CODE_INVALID
    assert (await stage.member(caller)).factor is None
    assert (await stage.actions())[-1] == "mfa.failed"


async def test_without_a_drawn_seed_there_is_nothing_to_confirm(stage: Stage) -> None:
    caller = await stage.enter()

    refused = code_of_refusal(second_factor.confirm(stage.people, caller, "123456", actor_of(caller)))

    assert await refused is ProblemCode.NOT_FOUND


async def test_a_drawn_seed_waits_for_fifteen_minutes(stage: Stage) -> None:
    caller = await stage.enter()
    await second_factor.begin(stage.people, caller, None)
    seed = await stage.seed_of(caller)
    stage.wait(minutes=15)

    refused = code_of_refusal(second_factor.confirm(stage.people, caller, stage.code(seed), actor_of(caller)))

    assert await refused is ProblemCode.NOT_FOUND


async def test_a_repeated_key_shows_no_secret_again(stage: Stage) -> None:
    caller = await stage.enter()
    first = await second_factor.begin(stage.people, caller, "k")
    again = await second_factor.begin(stage.people, caller, "k")
    other = await second_factor.begin(stage.people, caller, "other")

    assert first.secret is not None
    assert (again.secret, again.otpauth_uri) == (None, None)
    assert other.secret not in {None, first.secret}


async def test_s10_passing_the_second_factor_gives_another_cookie_and_ends_the_old_one(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    old = (await stage.sign_in(address="192.0.2.2")).cookie

    met = await stage.verify_factor(await stage.recognise(old), stage.code(seed))

    assert (await stage.recognise(met.cookie)).satisfied
    with pytest.raises(Unauthenticated):
        await stage.recognise(old)


async def test_s19_a_totp_code_is_accepted_once(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    code, caller = stage.code(seed), await stage.enter(address="192.0.2.2")
    await stage.verify_factor(caller, code)

    assert (await wrong(stage, caller, code)).refusal.code is ProblemCode.MFA_CODE_INVALID


async def test_s19_of_twenty_posts_of_one_code_at_once_one_is_accepted(sqlite_stage: Stage) -> None:
    seed, _, _ = await sqlite_stage.enrol(await sqlite_stage.enter())
    callers = [await sqlite_stage.enter(address=f"192.0.2.{number}") for number in range(4)]
    posts = [sqlite_stage.verify_factor(callers[number % 4], sqlite_stage.code(seed)) for number in range(20)]

    results = await asyncio.gather(*posts, return_exceptions=True)

    assert sum(not isinstance(one, BaseException) for one in results) == 1
    assert sum(isinstance(one, Refused) for one in results) == 19
    assert (await sqlite_stage.actions()).count("mfa.verified") == 1


async def test_s19_an_older_step_is_refused_after_a_newer_one(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    caller = await stage.enter(address="192.0.2.2")
    await stage.verify_factor(caller, stage.code(seed, 1))

    assert (await wrong(stage, caller, stage.code(seed))).refusal.code is ProblemCode.MFA_CODE_INVALID


@pytest.mark.parametrize(("drift", "accepted"), [(0, False), (1, True)])
async def test_s20_the_drift_is_a_setting(stage: Stage, drift: int, *, accepted: bool) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    stage.drift_steps = drift
    caller, code = await stage.enter(address="192.0.2.2"), stage.code(seed)
    stage.wait(seconds=30)

    if accepted:
        assert (await stage.verify_factor(caller, code)).answer.method is FactorMethod.TOTP
    else:
        await wrong(stage, caller, code)


async def test_s21_five_wrong_codes_in_a_window_are_looked_at(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    caller, text = await stage.enter(address="192.0.2.2"), wrong_code(stage, seed)
    codes = await guess(stage, caller, text, 5)

    full = await wrong(stage, caller, stage.code(seed))

    assert codes == [ProblemCode.MFA_CODE_INVALID] * 5
    assert isinstance(full, TooManyAttempts)
    assert full.retry_after_s == 15 * 60 - 5 * LONGEST_PAUSE_S
    stage.wait(seconds=full.retry_after_s)
    assert (await stage.verify_factor(caller, stage.code(seed))).answer.session.mfa.satisfied


async def test_s21_the_pause_after_a_failure_doubles_and_a_right_code_does_not_shorten_it(
    stage: Stage,
) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    caller, text = await stage.enter(address="192.0.2.2"), wrong_code(stage, seed)
    pauses = []
    for _ in range(4):
        assert (await wrong(stage, caller, text)).refusal.code is ProblemCode.MFA_CODE_INVALID
        early = await wrong(stage, caller, stage.code(seed))
        assert isinstance(early, TooSoon)
        pauses.append(early.retry_after_s)
        stage.wait(milliseconds=1000 * early.retry_after_s - 1)
        assert isinstance(await wrong(stage, caller, stage.code(seed)), TooSoon)
        stage.wait(milliseconds=1)

    assert pauses == [1, 2, 4, 8]
    assert (await stage.verify_factor(caller, stage.code(seed))).answer.session.mfa.satisfied


async def test_s21_a_guess_too_soon_is_reported_as_one_too_many_and_writes_nothing(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    caller, text = await stage.enter(address="192.0.2.2"), wrong_code(stage, seed)
    await wrong(stage, caller, text)
    before = await stage.actions()
    early = await wrong(stage, caller, text)
    stage.wait(seconds=LONGEST_PAUSE_S)
    await guess(stage, caller, text, 4)

    assert early.refusal == (await wrong(stage, caller, text)).refusal
    assert before == (await stage.actions())[: len(before)]
    assert (await stage.actions()).count("mfa.failed") == 5 + 1


async def test_s21_failures_count_per_member_across_sessions(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    text = wrong_code(stage, seed)
    for number in range(5):
        await guess(stage, await stage.enter(address=f"192.0.2.{number}"), text, 1)

    other = await stage.enter(address="192.0.2.9")
    assert isinstance(await wrong(stage, other, stage.code(seed)), TooManyAttempts)


async def test_s21_of_ten_thousand_guesses_from_many_places_five_are_looked_at(sqlite_stage: Stage) -> None:
    seed, _, _ = await sqlite_stage.enrol(await sqlite_stage.enter())
    callers = [await sqlite_stage.enter(address=f"192.0.2.{number}") for number in range(4)]
    text, result = wrong_code(sqlite_stage, seed), list[Refused]()
    for burst in range(10):
        guesses = (
            wrong(sqlite_stage, callers[number % 4], text, address=f"10.{burst}.{number >> 8}.{number & 255}")
            for number in range(1_000)
        )
        result += await asyncio.gather(*guesses)
        sqlite_stage.wait(seconds=LONGEST_PAUSE_S)

    assert sum(not isinstance(one, TooManyAttempts) for one in result) == 5
    assert isinstance(await wrong(sqlite_stage, callers[0], sqlite_stage.code(seed)), TooManyAttempts)
    assert (await sqlite_stage.actions()).count("mfa.failed") == 5 + 1


async def test_s21_a_hundred_failures_in_a_row_lock_until_a_colleague_helps(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    for number in range(100):
        if number % 5 == 0:
            stage.wait(minutes=16)
            caller = await stage.enter(address=f"192.0.2.{number}")
        assert await guess(stage, caller, wrong_code(stage, seed), 1) == [ProblemCode.MFA_CODE_INVALID]

    stage.wait(minutes=16)
    caller = await stage.enter()
    assert isinstance(await wrong(stage, caller, stage.code(seed)), TooManyAttempts)
    await forget_failures(stage.people, caller.reviewer_id)
    assert (await stage.verify_factor(caller, stage.code(seed))).answer.session.mfa.satisfied


async def test_each_wrong_code_is_one_row_and_the_lock_one_more(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    caller = await stage.enter(address="192.0.2.2")
    await guess(stage, caller, wrong_code(stage, seed), 8)

    assert (await stage.actions()).count("mfa.failed") == 6


async def test_s22_wrong_passwords_leave_the_factor_alone(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    caller = await stage.enter(address="192.0.2.2")
    for number in range(10):
        with pytest.raises(Refused):
            await stage.sign_in(password=WRONG, address=f"198.51.100.{number}")

    assert (await stage.verify_factor(caller, stage.code(seed))).answer.session.mfa.satisfied


async def test_a_success_gives_its_attempt_back(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    for number in range(7):
        await stage.verify_factor(await stage.enter(address=f"192.0.2.{number}"), stage.code(seed))
        stage.wait(seconds=30)


async def test_s23_a_recovery_code_is_accepted_once_and_ends_other_sessions(stage: Stage) -> None:
    _, codes, first = await stage.enrol(await stage.enter())
    caller = await stage.enter(address="192.0.2.2")

    met = await stage.verify_factor(caller, codes[3].upper().replace("-", " "), RECOVERY)

    assert (met.answer.method, met.answer.recovery_codes_remaining) == (RECOVERY, 9)
    with pytest.raises(Unauthenticated):
        await stage.recognise(first)
    assert (
        await wrong(stage, caller, codes[3], method=RECOVERY)
    ).refusal.code is ProblemCode.MFA_CODE_INVALID
    assert (await stage.rows())[-2].context["changes"]["method"] == RECOVERY


async def test_s23_of_two_posts_of_one_recovery_code_one_is_accepted(sqlite_stage: Stage) -> None:
    _, codes, _ = await sqlite_stage.enrol(await sqlite_stage.enter())
    caller = await sqlite_stage.enter(address="192.0.2.2")

    results = await asyncio.gather(
        *(sqlite_stage.verify_factor(caller, codes[0], RECOVERY) for _ in range(2)), return_exceptions=True
    )

    assert sum(not isinstance(one, BaseException) for one in results) == 1


async def test_s23_recovery_codes_are_kept_hashed(stage: Stage, shelves: Shelves) -> None:
    _, codes, _ = await stage.enrol(await stage.enter())

    stored = b"".join(record.body for record in shelves.records.values()).decode()
    assert all(code not in stored and code.replace("-", "") not in stored for code in codes)


async def test_s24_the_seed_is_kept_sealed(stage: Stage, shelves: Shelves) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())

    stored = b"".join(record.body for record in shelves.records.values())
    assert seed not in stored
    assert secret_of(seed).encode() not in stored
    assert seed.hex().encode() not in stored


async def test_new_recovery_codes_void_the_old_ones(stage: Stage) -> None:
    _, old, cookie = await stage.enrol(await stage.enter())
    caller = await stage.recognise(cookie)

    new = await second_factor.replace_recovery_codes(stage.people, caller, actor_of(caller))

    assert (await wrong(stage, caller, old[0], method=RECOVERY)).refusal.code is ProblemCode.MFA_CODE_INVALID
    stage.wait(seconds=1)
    assert (await stage.verify_factor(caller, new.recovery_codes[0], RECOVERY)).answer.session.mfa.satisfied
    assert (await stage.actions()).count("mfa.reset") == 1


async def changes_refused(stage: Stage, caller: ReviewerCaller) -> set[ProblemCode]:
    """What is said to all that changes the factor itself."""
    changes = (
        second_factor.replace_recovery_codes(stage.people, caller, actor_of(caller)),
        second_factor.remove(stage.people, caller, actor_of(caller)),
        second_factor.begin(stage.people, caller, None),
    )
    return {await code_of_refusal(change) for change in changes}


async def test_s25_what_changes_the_factor_wants_a_fresh_one(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    caller = await stage.enter()
    assert await changes_refused(stage, caller) == {ProblemCode.MFA_REQUIRED}

    stage.wait(minutes=9)
    met = await stage.recognise((await stage.verify_factor(caller, stage.code(seed))).cookie)
    await second_factor.replace_recovery_codes(stage.people, met, actor_of(met))


async def test_s25_what_changes_the_factor_wants_the_password_anew(stage: Stage) -> None:
    seed, _, cookie = await stage.enrol(await stage.enter())
    stage.wait(minutes=10)

    met = await stage.verify_factor(await stage.recognise(cookie), stage.code(seed))

    refused = await changes_refused(stage, await stage.recognise(met.cookie))
    assert refused == {ProblemCode.UNAUTHENTICATED}


async def test_s25_the_password_alone_replaces_no_factor(stage: Stage) -> None:
    await stage.enrol(await stage.enter())
    thief = await stage.enter(address="198.51.100.66")

    assert await code_of_refusal(second_factor.begin(stage.people, thief, None)) is ProblemCode.MFA_REQUIRED


async def test_a_factor_in_use_stays_until_the_new_one_is_confirmed(stage: Stage) -> None:
    seed, _, cookie = await stage.enrol(await stage.enter())
    caller = await stage.recognise(cookie)
    await second_factor.begin(stage.people, caller, None)

    met = await stage.verify_factor(caller, stage.code(seed))

    new, _, _ = await stage.enrol(await stage.recognise(met.cookie))
    assert new != seed


async def test_a_removed_factor_leaves_the_session_with_the_first_one(stage: Stage) -> None:
    _, _, cookie = await stage.enrol(await stage.enter())
    caller = await stage.recognise(cookie)

    renewed = await second_factor.remove(stage.people, caller, actor_of(caller))

    assert not (await stage.recognise(renewed)).satisfied
    assert (await second_factor.standing(stage.people, await stage.recognise(renewed))).enrolled is False
    with pytest.raises(Unauthenticated):
        await stage.recognise(cookie)


async def test_s14_removing_the_factor_ends_every_other_session(stage: Stage) -> None:
    seed, _, cookie = await stage.enrol(await stage.enter())
    other = (await stage.verify_factor(await stage.enter(address="192.0.2.2"), stage.code(seed))).cookie
    caller = await stage.recognise(cookie)

    await second_factor.remove(stage.people, caller, actor_of(caller))

    with pytest.raises(Unauthenticated):
        await stage.recognise(other)


async def test_without_a_factor_no_code_is_right(stage: Stage) -> None:
    caller = await stage.enter()

    assert (await wrong(stage, caller)).refusal.code is ProblemCode.MFA_CODE_INVALID


async def test_an_ended_session_meets_nothing(stage: Stage) -> None:
    seed, _, _ = await stage.enrol(await stage.enter())
    caller = await stage.enter(address="192.0.2.2")
    await end_session(stage.people, caller, caller.session_id, actor_of(caller))

    with pytest.raises(Unauthenticated):
        await stage.verify_factor(caller, stage.code(seed))
