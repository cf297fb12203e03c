"""The consumer group protocol, member by member, without sockets."""

import asyncio
import math
from collections.abc import Iterator
from itertools import count

import pytest
from kio.schema.errors import ErrorCode

from app.broker.errors import Refused
from app.broker.groups import Group, GroupState
from app.broker.members import Joined, JoinRequest, MemberIdRequired

RANGE = {"range": b"subscription"}

WAIT_S = 60.0
"""For what takes a moment; only a failure takes this long."""


def join_request(
    member_id: str = "",
    *,
    instance_id: str | None = None,
    protocols: dict[str, bytes] | None = None,
    session_s: float = 10.0,
    rebalance_s: float = 10.0,
    needs_member_id: bool = False,
) -> JoinRequest:
    """Return a valid request to join."""
    return JoinRequest(
        member_id=member_id,
        instance_id=instance_id,
        protocol_type="consumer",
        protocols=protocols or RANGE,
        session_timeout_s=session_s,
        rebalance_timeout_s=rebalance_s,
        client_id="c",
        client_host="127.0.0.1",
        needs_member_id=needs_member_id,
    )


@pytest.fixture
def numbers() -> Iterator[int]:
    """Fresh ids."""
    return count(1)


@pytest.fixture
async def group(numbers: Iterator[int]) -> Group:
    """An empty group that gathers its first members for a moment."""
    return Group("g", 0.02, 5, lambda: str(next(numbers)))


def now() -> float:
    """The loop's time."""
    return asyncio.get_running_loop().time()


async def join_all(group: Group, *join_requests: JoinRequest) -> list[Joined]:
    """Join at the same time and wait for the generation."""
    waiting = [group.join(one, now()) for one in join_requests]
    return list(await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S))


async def stable(group: Group, joined: list[Joined]) -> list[bytes]:
    """Let everybody sync; the leader gives each member its own id."""
    given = {member.member_id: member.member_id.encode() for member in joined}
    ordered = sorted(joined, key=lambda one: one.member_id == one.leader)
    waiting = [
        group.sync(one.member_id, one.generation, given if one.member_id == one.leader else {}, now())
        for one in ordered
    ]
    return list(await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S))


def refusal(refused: pytest.ExceptionInfo[Refused]) -> ErrorCode:
    """Return what the client would be answered."""
    return refused.value.code


async def test_members_who_come_at_once_share_a_generation_and_one_leads(group: Group) -> None:
    first, second = await join_all(group, join_request(), join_request())

    assert first.generation == second.generation == 1
    assert first.leader == second.leader
    assert sorted(len(one.members) for one in (first, second)) == [0, 2]


async def test_everybody_gets_what_the_leader_assigned(group: Group) -> None:
    joined = await join_all(group, join_request(), join_request(), join_request())

    assert sorted(await stable(group, joined)) == sorted(one.member_id.encode() for one in joined)
    assert group.state is GroupState.STABLE


async def test_a_newcomer_calls_the_members_back(group: Group) -> None:
    (first,) = await join_all(group, join_request())
    await stable(group, [first])
    newcomer = group.join(join_request(), now())

    with pytest.raises(Refused) as refused:
        group.heartbeat(first.member_id, first.generation, now(), None)
    assert refusal(refused) is ErrorCode.rebalance_in_progress

    again, late = await asyncio.gather(group.join(join_request(first.member_id), now()), newcomer)
    assert again.generation == late.generation == 2


async def test_a_member_may_commit_while_the_others_are_called_back(group: Group) -> None:
    (first,) = await join_all(group, join_request())
    await stable(group, [first])
    newcomer = group.join(join_request(), now())

    assert group.check(first.member_id, first.generation, now()).id == first.member_id
    newcomer.cancel()


async def test_a_member_that_does_not_come_back_in_time_is_left_out(group: Group) -> None:
    (first,) = await join_all(group, join_request(rebalance_s=0.05))
    await stable(group, [first])

    (newcomer,) = await join_all(group, join_request(rebalance_s=0.05))

    assert list(group.members) == [newcomer.member_id]
    with pytest.raises(Refused) as refused:
        group.heartbeat(first.member_id, 1, now(), None)
    assert refusal(refused) is ErrorCode.unknown_member_id


async def test_a_silent_member_is_removed_after_its_session(group: Group) -> None:
    joined = await join_all(group, join_request(session_s=1), join_request(session_s=60))
    await stable(group, joined)

    group.expire(now() + 5)

    assert len(group.members) == 1
    assert group.state is GroupState.PREPARING


async def test_the_next_deadline_is_the_first_session_to_end(group: Group) -> None:
    nobody = group.next_deadline
    before = now()
    await stable(group, await join_all(group, join_request(session_s=7), join_request(session_s=60)))

    assert nobody == math.inf
    assert before + 7 <= group.next_deadline <= now() + 7


async def test_a_member_that_waits_has_no_deadline(group: Group) -> None:
    joined = await join_all(group, join_request(session_s=60), join_request(session_s=7))
    follower = next(one for one in joined if one.member_id != one.leader)
    group.members[follower.member_id].deadline = now() - 1
    overdue = group.next_deadline
    waiting = group.sync(follower.member_id, 1, {}, now())

    assert overdue < now() < group.next_deadline
    waiting.cancel()


async def test_a_member_that_waits_is_not_silent(group: Group) -> None:
    joined = await join_all(group, join_request(session_s=1), join_request(session_s=1))
    follower = next(one for one in joined if one.member_id != one.leader)
    waiting = group.sync(follower.member_id, 1, {}, now())

    group.expire(now() + 5)

    assert follower.member_id in group.members
    waiting.cancel()


async def test_a_leader_that_never_syncs_makes_room(group: Group) -> None:
    joined = await join_all(group, join_request(rebalance_s=0.05), join_request(rebalance_s=0.05))
    follower = next(one for one in joined if one.member_id != one.leader)

    with pytest.raises(Refused) as refused:
        await asyncio.wait_for(group.sync(follower.member_id, 1, {}, now()), WAIT_S)
    (again,) = await join_all(group, join_request(follower.member_id))

    assert refusal(refused) is ErrorCode.rebalance_in_progress
    assert again.leader == follower.member_id


async def test_leaving_is_immediate(group: Group) -> None:
    joined = await join_all(group, join_request(), join_request())
    await stable(group, joined)

    group.leave(joined[0].member_id, None)
    (rest,) = await join_all(group, join_request(joined[1].member_id))

    assert rest.leader == joined[1].member_id
    group.leave(joined[1].member_id, None)
    assert group.state is GroupState.EMPTY


async def test_a_first_join_is_answered_with_an_id_to_come_back_with(group: Group) -> None:
    with pytest.raises(MemberIdRequired) as required:
        group.join(join_request(needs_member_id=True), now())

    (joined,) = await join_all(group, join_request(required.value.member_id, needs_member_id=True))

    assert joined.member_id == required.value.member_id


async def test_a_member_coming_back_with_its_promised_id_starts_a_generation(group: Group) -> None:
    (first,) = await join_all(group, join_request())
    await stable(group, [first])
    with pytest.raises(MemberIdRequired) as required:
        group.join(join_request(needs_member_id=True), now())

    waiting = group.join(join_request(required.value.member_id, needs_member_id=True), now())

    assert group.state is GroupState.PREPARING
    assert not waiting.done()
    waiting.cancel()


async def test_a_promised_id_nobody_uses_holds_nothing_up(group: Group) -> None:
    with pytest.raises(MemberIdRequired):
        group.join(join_request(needs_member_id=True, session_s=1), now())
    group.expire(now() + 5)

    assert group.idle


async def test_an_unknown_id_is_refused(group: Group) -> None:
    with pytest.raises(Refused) as refused:
        group.join(join_request("nobody"), now())
    assert refusal(refused) is ErrorCode.unknown_member_id


async def test_a_member_of_an_earlier_generation_is_answered_so(group: Group) -> None:
    (joined,) = await join_all(group, join_request())

    with pytest.raises(Refused) as refused:
        group.heartbeat(joined.member_id, 0, now(), None)
    assert refusal(refused) is ErrorCode.illegal_generation


async def test_members_without_a_common_protocol_do_not_meet(group: Group) -> None:
    await join_all(group, join_request())

    with pytest.raises(Refused) as refused:
        group.join(join_request(protocols={"other": b""}), now())
    assert refusal(refused) is ErrorCode.inconsistent_group_protocol


async def test_the_protocol_most_members_prefer_is_chosen(group: Group) -> None:
    both, reverse = {"a": b"", "b": b""}, {"b": b"", "a": b""}

    joined = await join_all(
        group, join_request(protocols=both), join_request(protocols=reverse), join_request(protocols=reverse)
    )

    assert {one.protocol for one in joined} == {"b"}


async def test_a_group_takes_only_so_many_members(group: Group) -> None:
    for _ in range(5):
        group.join(join_request(), now())

    with pytest.raises(Refused) as refused:
        group.join(join_request(), now())
    assert refusal(refused) is ErrorCode.group_max_size_reached


async def test_a_restarted_static_member_gets_its_assignment_back_without_a_rebalance(group: Group) -> None:
    joined = await join_all(group, join_request(instance_id="one"), join_request(instance_id="two"))
    await stable(group, joined)
    before = joined[0].member_id

    (again,) = await join_all(group, join_request(instance_id="one"))
    assignment = await group.sync(again.member_id, again.generation, {}, now())

    assert again.generation == 1
    assert again.member_id != before
    assert assignment == before.encode()
    group.heartbeat(joined[1].member_id, 1, now(), "two")


async def test_the_former_self_of_a_static_member_is_fenced(group: Group) -> None:
    (joined,) = await join_all(group, join_request(instance_id="one"))
    await stable(group, [joined])
    await join_all(group, join_request(instance_id="one"))

    with pytest.raises(Refused) as refused:
        group.heartbeat(joined.member_id, 1, now(), "one")
    assert refusal(refused) is ErrorCode.fenced_instance_id


async def test_a_static_member_outlives_a_rebalance_it_missed(group: Group) -> None:
    joined = await join_all(group, join_request(instance_id="one", rebalance_s=0.05))
    await stable(group, joined)

    (newcomer,) = await join_all(group, join_request(rebalance_s=0.05))

    assert newcomer.generation == 2
    assert len(group.members) == 2


async def test_a_newcomer_whose_connection_breaks_is_forgotten(group: Group) -> None:
    (first,) = await join_all(group, join_request())
    await stable(group, [first])
    newcomer = group.join(join_request(), now())
    newcomer.cancel()
    await asyncio.sleep(0)

    (again,) = await join_all(group, join_request(first.member_id))

    assert [member.member_id for member in again.members] == [first.member_id]


async def test_a_member_whose_connection_breaks_may_join_again(group: Group) -> None:
    joined = await join_all(group, join_request(), join_request())
    await stable(group, joined)
    broken = group.join(join_request(joined[0].member_id, protocols={"range": b"changed"}), now())
    broken.cancel()
    await asyncio.sleep(0)

    again = await join_all(group, join_request(joined[0].member_id), join_request(joined[1].member_id))

    assert {one.generation for one in again} == {2}


async def test_a_repeated_join_of_a_follower_is_answered_from_the_generation(group: Group) -> None:
    joined = await join_all(group, join_request(), join_request())
    await stable(group, joined)
    follower = next(one for one in joined if one.member_id != one.leader)

    (again,) = await join_all(group, join_request(follower.member_id))

    assert again == follower
    assert group.state is GroupState.STABLE


async def test_a_leader_that_joins_again_wants_a_new_generation(group: Group) -> None:
    joined = await join_all(group, join_request(), join_request())
    await stable(group, joined)
    leader, follower = sorted(joined, key=lambda one: one.member_id != one.leader)

    again = await join_all(group, join_request(leader.member_id), join_request(follower.member_id))

    assert {one.generation for one in again} == {2}
