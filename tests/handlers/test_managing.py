"""Members and keys managed over every store: races that one record decides, and requests that run out."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest

from schemas.audit import Actor, AuditFilter
from schemas.enums import Scope
from schemas.ids import KeyId, ReviewerSessionId, derive_id
from schemas.people import Reviewer, ReviewerCaller, Role
from schemas.problems import NotFound, ProblemCode, Refused, Unauthenticated
from streams.reviewers.invitations import Invitation, NewMember, add_with_password, give_reset_token, invite
from streams.reviewers.member_changes import MemberChanges, change_member
from streams.reviewers.members import find_by_email, load_member
from streams.reviewers.roles import COUNTS_AS_GONE, let_go
from streams.reviewers.tokens import read_token
from streams.sign_in.factor_reset import reset_factor
from streams.sign_in.password_rules import require_acceptable
from streams.tenants.api_keys import MadeKey, NewKey, TenantKeys
from streams.tenants.handler import Authenticate, RequestName, RevokeKey
from tests.builders import ACME, GLOBEX
from tests.contracts.adapters import Opened
from tests.handlers.people_stage import PEPPER, Stage, actor_of, staged

ADA = NewMember(ACME, "ada@acme.example", "Ada Obi", Role.REVIEWER)
OPERATOR = Actor()
REQUESTED = NewKey("integration", livemode=True, scopes=tuple(Scope), expires_at=None)


@pytest.fixture
async def stage(opened: Opened) -> AsyncIterator[Stage]:
    """The use cases over every adapter in turn."""
    async with staged(opened.stores) as made:
        yield made


async def person(stage: Stage, number: int, role: Role = Role.OWNER) -> ReviewerCaller:
    """A member who asks."""
    command = NewMember(ACME, f"m{number}@acme.example", f"M{number}", role)
    member, _ = await add_with_password(stage.people, command, OPERATOR)
    session = ReviewerSessionId(derive_id("rs", str(number)))
    return ReviewerCaller(
        tenant_id=ACME, reviewer_id=member.reviewer_id, session_id=session, role=role, satisfied=True
    )


async def standing(stage: Stage, caller: ReviewerCaller) -> Reviewer:
    """The member as it stands."""
    return (await load_member(stage.stores.records, ACME, caller.reviewer_id)).reviewer


async def leave(stage: Stage, caller: ReviewerCaller) -> bool:
    """Step down; False when refused."""
    command = MemberChanges(role=Role.AUDITOR)
    try:
        await change_member(stage.people, caller, caller.reviewer_id, command, actor_of(caller))
    except Refused as error:
        return error.refusal.code is not ProblemCode.VALIDATION_FAILED
    return True


async def count_rows(stage: Stage, action: str) -> int:
    """How many rows tell of an action."""
    return len(await stage.stores.audit_log.page(ACME, AuditFilter(action=action), limit=50))


def keys_of(stage: Stage) -> TenantKeys:
    """The use cases about keys."""
    people = stage.people
    return TenantKeys(people.records, people.commit, PEPPER, people.clock, people.new_id)


async def opens(stage: Stage, made: MadeKey) -> bool:
    """Return whether the key is let in."""
    authenticate = Authenticate(stage.stores.records, PEPPER, stage.people.clock)
    try:
        await authenticate(made.text or "")
    except Unauthenticated:
        return False
    return True


async def test_of_owners_that_leave_at_once_one_stays(stage: Stage) -> None:
    owners = [await person(stage, number) for number in range(5)]

    left = await asyncio.gather(*(leave(stage, owner) for owner in owners))

    roles = [(await standing(stage, owner)).role for owner in owners]
    assert (sum(left), roles.count(Role.OWNER)) == (4, 1)


async def test_an_owner_who_was_let_go_and_stayed_counts_again_after_a_while(stage: Stage) -> None:
    one, other = await person(stage, 1), await person(stage, 2)
    await let_go(stage.people, ACME, one.reviewer_id, "/role")
    at_once = await leave(stage, other)

    stage.now += COUNTS_AS_GONE

    assert (at_once, await leave(stage, other)) == (False, True)


async def test_a_suspended_owner_does_not_count(stage: Stage) -> None:
    one, other = await person(stage, 1), await person(stage, 2)
    await change_member(stage.people, one, other.reviewer_id, MemberChanges(active=False), actor_of(one))

    assert not await leave(stage, one)


async def test_a_suspension_and_a_sign_in_at_once_leave_no_session(stage: Stage) -> None:
    owner, member = await person(stage, 1), await stage.add()
    suspended = change_member(
        stage.people, owner, member.reviewer_id, MemberChanges(active=False), actor_of(owner)
    )

    _, signed_in = await asyncio.gather(suspended, stage.sign_in(), return_exceptions=True)

    if not isinstance(signed_in, BaseException):
        with pytest.raises(Unauthenticated):
            await stage.recognise(signed_in.cookie)


async def test_one_key_invites_one_member_whatever_the_bodies(stage: Stage) -> None:
    request = RequestName(derive_id("inv", "one"), "f" * 64)

    results = await asyncio.gather(*(invite(stage.people, ADA, request, OPERATOR) for _ in range(8)))

    assert sorted(one.replayed for one in results) == [False] + [True] * 7
    assert len({one.reviewer.reviewer_id for one in results}) == 1
    assert await count_rows(stage, "member.invited") == 1


async def test_a_member_is_found_by_its_own_address_alone_after_a_reused_key(stage: Stage) -> None:
    first, second = (RequestName(derive_id("inv", "one"), digit * 64) for digit in "f0")
    other = NewMember(ACME, "bo@acme.example", "Bo", Role.ADMIN)

    results: Sequence[Invitation | BaseException] = await asyncio.gather(
        invite(stage.people, ADA, first, OPERATOR),
        invite(stage.people, other, second, OPERATOR),
        return_exceptions=True,
    )

    for command in (ADA, other):
        found = await find_by_email(stage.people, command.email)
        assert found is None or found.reviewer.email == command.email
    assert any(isinstance(one, Invitation) for one in results)


async def test_a_token_to_reset_a_password_takes_the_place_of_an_older_one(stage: Stage) -> None:
    await stage.add(email=ADA.email)

    older, newer = [
        await give_reset_token(stage.people, ACME, " ADA@acme.example ", OPERATOR) for _ in range(2)
    ]

    assert (await read_token(stage.people, newer.text)).token.tenant_id == ACME
    with pytest.raises(Refused):
        await read_token(stage.people, older.text)


async def test_no_token_is_given_for_another_tenants_member(stage: Stage) -> None:
    await stage.add(email=ADA.email)

    with pytest.raises(NotFound):
        await give_reset_token(stage.people, GLOBEX, ADA.email, OPERATOR)


async def test_no_token_is_given_to_a_suspended_member(stage: Stage) -> None:
    owner, member = await person(stage, 1), await stage.add(email=ADA.email)
    await change_member(stage.people, owner, member.reviewer_id, MemberChanges(active=False), actor_of(owner))

    with pytest.raises(Refused):
        await give_reset_token(stage.people, ACME, ADA.email, OPERATOR)


async def test_a_drawn_password_is_one_that_would_be_accepted(stage: Stage) -> None:
    member, password = await add_with_password(stage.people, ADA, OPERATOR)

    require_acceptable(password, member.email, "/password")
    assert (await stage.sign_in(ADA.email, password)).cookie is not None


async def test_a_request_to_reset_a_factor_runs_out(stage: Stage) -> None:
    one, two = await person(stage, 1), await person(stage, 2)
    await stage.add()
    caller = await stage.enter()
    await stage.enrol(caller)
    await reset_factor(stage.people, one, caller.reviewer_id, actor_of(one))
    stage.now += timedelta(hours=24)

    await reset_factor(stage.people, two, caller.reviewer_id, actor_of(two))

    reviewer = await standing(stage, caller)
    assert reviewer.factor is not None
    assert reviewer.factor_reset is not None
    assert reviewer.factor_reset.asked_by == two.reviewer_id


async def test_a_reset_factor_is_gone_and_the_password_stays(stage: Stage) -> None:
    one, two = await person(stage, 1), await person(stage, 2)
    await stage.add()
    caller = await stage.enter()
    await stage.enrol(caller)

    for colleague in (one, two):
        await reset_factor(stage.people, colleague, caller.reviewer_id, actor_of(colleague))

    again = await stage.recognise((await stage.sign_in()).cookie)
    assert ((await standing(stage, caller)).factor, again.satisfied) == (None, False)


async def test_s14_a_reset_factor_ends_every_session(stage: Stage) -> None:
    one, two = await person(stage, 1), await person(stage, 2)
    await stage.add()
    caller = await stage.enter()
    _, _, cookie = await stage.enrol(caller)

    for colleague in (one, two):
        await reset_factor(stage.people, colleague, caller.reviewer_id, actor_of(colleague))

    with pytest.raises(Unauthenticated):
        await stage.recognise(cookie)


async def test_a_change_of_the_member_meanwhile_is_kept(stage: Stage) -> None:
    owner, member = await person(stage, 1), await stage.add()
    command = MemberChanges(role=Role.AUDITOR)

    await asyncio.gather(
        change_member(stage.people, owner, member.reviewer_id, command, actor_of(owner)), stage.sign_in()
    )

    reviewer = (await load_member(stage.stores.records, ACME, member.reviewer_id)).reviewer
    assert (reviewer.role, len(reviewer.open_sessions)) == (Role.AUDITOR, 1)


async def test_a_revocation_wins_over_rotations_at_the_same_time(stage: Stage) -> None:
    keys, owner = keys_of(stage), await person(stage, 1)
    made = await keys.create(ACME, REQUESTED, RequestName(derive_id("key", "one")), actor_of(owner))
    revoke = RevokeKey(keys.records, keys.commit, keys.clock)
    overlap = timedelta(hours=1)

    results = await asyncio.gather(
        *(keys.rotate(ACME, made.key.key_id, overlap, actor_of(owner)) for _ in range(3)),
        revoke(ACME, made.key.key_id, actor_of(owner)),
        return_exceptions=True,
    )

    forms = [made, *(one for one in results if isinstance(one, MadeKey))]
    assert [await opens(stage, form) for form in forms] == [False] * len(forms)


async def test_many_equal_requests_make_one_key(stage: Stage) -> None:
    keys, request = keys_of(stage), RequestName(derive_id("key", "one"), "f" * 64)

    results = await asyncio.gather(*(keys.create(ACME, REQUESTED, request, OPERATOR) for _ in range(10)))

    (shown,) = [one for one in results if one.text is not None]
    assert all(one.key == shown.key for one in results)
    assert (await opens(stage, shown), await count_rows(stage, "api_key.created")) == (True, 1)


async def test_a_rotated_key_keeps_its_id_prefix_and_place(stage: Stage) -> None:
    keys = keys_of(stage)
    made = await keys.create(ACME, REQUESTED, RequestName(derive_id("key", "one")), OPERATOR)

    rotated = await keys.rotate(ACME, made.key.key_id, timedelta(hours=1), OPERATOR)

    assert (rotated.key.key_id, rotated.key.prefix) == (made.key.key_id, made.key.prefix)
    assert [one.key_id for one in await keys.page(ACME, (True,), 5, None)] == [made.key.key_id]
    assert [await opens(stage, one) for one in (made, rotated)] == [True, True]


async def test_a_key_nobody_has_is_not_rotated(stage: Stage) -> None:
    with pytest.raises(NotFound):
        await keys_of(stage).rotate(ACME, KeyId(derive_id("key", "none")), timedelta(), OPERATOR)
