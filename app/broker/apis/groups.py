"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

import asyncio

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.schema.leave_group.v2.request import LeaveGroupRequest
from kio.schema.leave_group.v2.response import LeaveGroupResponse
from kio.schema.leave_group.v5 import request as leaving
from kio.schema.leave_group.v5 import response as left
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.static.primitive import i32

from app.broker.errors import Refused
from app.broker.members import Joined, JoinRequest, MemberIdRequired
from app.broker.node import Call
from app.broker.wire import NO_THROTTLE

MEMBER_ID_VERSION = 4
"""JoinGroup from this version on answers a first join with the id to come back with (KIP-394)."""

MAX_SESSION_S = 30 * 60.0
"""Kafka's `group.max.session.timeout.ms`."""


def _now() -> float:
    return asyncio.get_running_loop().time()


async def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Wait for the next generation and return it to the member."""
    try:
        call.check_group(request.group_id)
        joining = _join_request(call, request)
        call.node.groups.check_room(
            call.access, request.group_id, joining.nbytes, newcomer=not joining.member_id
        )
        joined = await call.node.groups.group(request.group_id).join(joining, _now())
    except MemberIdRequired as required:
        return _not_joined(required.code, required.member_id)
    except Refused as refused:
        return _not_joined(refused.code, request.member_id)
    return _joined(joined)


def _join_request(call: Call, request: JoinGroupRequest) -> JoinRequest:
    session_s = request.session_timeout.total_seconds()
    if not 0 < session_s <= MAX_SESSION_S:
        raise Refused(ErrorCode.invalid_session_timeout)
    rebalance_s = request.rebalance_timeout.total_seconds()
    return JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols={protocol.name: protocol.metadata for protocol in request.protocols},
        session_timeout_s=session_s,
        rebalance_timeout_s=rebalance_s if rebalance_s > 0 else session_s,
        client_id=call.client_id,
        client_host=call.client_host,
        needs_member_id=call.version >= MEMBER_ID_VERSION,
    )


def _joined(joined: Joined) -> JoinGroupResponse:
    members = tuple(
        JoinGroupResponseMember(member_id=m.member_id, group_instance_id=m.instance_id, metadata=m.metadata)
        for m in joined.members
    )
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        generation_id=i32(joined.generation),
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        member_id=joined.member_id,
        members=members,
    )


def _not_joined(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        protocol_type="",
        protocol_name="",
        leader="",
        member_id=member_id,
        members=(),
    )


async def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Wait for the leader's assignment and return the member's part."""
    given = {item.member_id: item.assignment for item in request.assignments}
    try:
        call.check_group(request.group_id)
        group = call.node.groups.existing(request.group_id)
        group.check(request.member_id, request.generation_id, _now(), request.group_instance_id)
        _check_protocol(request.protocol_name, group.protocol)
        if given:
            call.node.groups.check_room(call.access, request.group_id, sum(map(len, given.values())))
        assignment = await group.sync(request.member_id, request.generation_id, given, _now())
    except Refused as refused:
        return SyncGroupResponse(throttle_time=NO_THROTTLE, error_code=refused.code, assignment=b"")
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=assignment,
    )


def _check_protocol(named: str | None, chosen: str) -> None:
    if named is not None and named != chosen:
        raise Refused(ErrorCode.inconsistent_group_protocol)


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Renew a session, or call the member to a rebalance."""
    error = ErrorCode.none
    try:
        call.check_group(request.group_id)
        group = call.node.groups.existing(request.group_id)
        group.heartbeat(request.member_id, request.generation_id, _now(), request.group_instance_id)
    except Refused as refused:
        error = refused.code
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=error)


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove one member."""
    error = _leave(call, request.group_id, request.member_id, None)
    return LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=error)


def leave_group_many(call: Call, request: leaving.LeaveGroupRequest) -> left.LeaveGroupResponse:
    """Remove several members, static ones by their instance ids (KIP-345)."""
    members = tuple(
        left.MemberResponse(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=_leave(call, request.group_id, member.member_id, member.group_instance_id),
        )
        for member in request.members
    )
    return left.LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, members=members)


def _leave(call: Call, group: str, member_id: str, instance_id: str | None) -> ErrorCode:
    try:
        call.check_group(group)
        call.node.groups.existing(group).leave(member_id, instance_id)
    except Refused as refused:
        return refused.code
    return ErrorCode.none
