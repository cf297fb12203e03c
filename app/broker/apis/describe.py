"""ListGroups, DescribeGroups, DeleteGroups, DescribeConfigs and AlterConfigs."""

from collections.abc import Mapping
from typing import Final

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v5.response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.types import GroupId
from kio.static.primitive import i8

from app.broker.configs import default_configs
from app.broker.coordinator import Coordinator
from app.broker.errors import Refused
from app.broker.groups import Group, GroupState
from app.broker.members import Member
from app.broker.node import NODE_ID, Call, Node
from app.broker.wire import NO_THROTTLE

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""Kafka's numbers for what a configuration belongs to."""

_FROM_TOPIC: Final = i8(1)
_FROM_DEFAULT: Final = i8(5)
_STRING: Final = i8(2)
_SET: Final = 0
_DELETE: Final = 1
_CLASSIC: Final = "classic"


def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """List groups by the requested states and types; only classic groups exist."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = [
        group
        for name in call.node.groups.names()
        if call.access.may_use(name) and (group := call.node.groups.known(name)) is not None
    ]
    listed = tuple(
        ListedGroup(
            group_id=GroupId(group.name),
            protocol_type=group.protocol_type,
            group_state=group.state.value,
            group_type=_CLASSIC,
        )
        for group in groups
        if (not states or group.state.lower() in states) and (not types or _CLASSIC in types)
    )
    return ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, groups=listed)


def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe the members of groups; an unknown group is Dead, as in Kafka."""
    groups = tuple(
        _described(call.node.groups, name)
        if call.access.may_use(name)
        else _shown(name, GroupState.DEAD, "", "", (), ErrorCode.group_authorization_failed)
        for name in request.groups
    )
    return DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=groups)


def _described(groups: Coordinator, name: GroupId) -> DescribedGroup:
    group = groups.known(name)
    if group is None:
        return _shown(name, GroupState.DEAD, "", "", ())
    members = tuple(_member(group, member) for member in group.members.values())
    return _shown(name, group.state, group.protocol_type, group.protocol, members)


def _shown(
    name: GroupId,
    state: GroupState,
    kind: str,
    protocol: str,
    members: tuple[DescribedGroupMember, ...],
    error: ErrorCode = ErrorCode.none,
) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        group_id=name,
        group_state=state.value,
        protocol_type=kind,
        protocol_data=protocol,
        members=members,
    )


def _member(group: Group, member: Member) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.request.client_id,
        client_host=member.request.client_host,
        member_metadata=member.protocols.get(group.protocol, b""),
        member_assignment=member.assignment,
    )


async def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Forget groups without members, with what they committed."""
    results = []
    for name in request.groups_names:
        error = ErrorCode.none
        try:
            await call.node.groups.delete(name)
        except Refused as refused:
            error = refused.code
        results.append(DeletableGroupResult(group_id=name, error_code=error))
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Show what topics were given and what they take by default; the broker itself has no Kafka settings."""
    results = tuple(_configs(call.node, resource) for resource in request.resources)
    return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=results)


def _configs(node: Node, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    topic = node.topics.get(resource.resource_name) if resource.resource_type == TOPIC_RESOURCE else None
    error = ErrorCode.none
    if topic is None and (resource.resource_type, resource.resource_name) != (BROKER_RESOURCE, str(NODE_ID)):
        unknown_topic = resource.resource_type == TOPIC_RESOURCE
        error = ErrorCode.unknown_topic_or_partition if unknown_topic else ErrorCode.invalid_request
    given: Mapping[str, str] = topic.stored.configs if topic else {}
    values = dict(default_configs(node.settings, given)) | dict(given) if topic else {}
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=error,
        error_message=None if error is ErrorCode.none else error.name,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _config(name, values[name], given=name in given)
            for name in sorted(values)
            if keys is None or name in keys
        ),
    )


def _config(name: str, value: str, *, given: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        config_source=_FROM_TOPIC if given else _FROM_DEFAULT,
        is_sensitive=False,
        synonyms=(),
        config_type=_STRING,
        documentation=None,
    )


async def alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Set or unset configurations of topics (KIP-339)."""
    responses = []
    for resource in request.resources:
        error, message = ErrorCode.none, None
        try:
            configs = _altered(call.node, resource)
            if not request.validate_only:
                await call.node.topics.configure(resource.resource_name, configs)
        except Refused as refused:
            error, message = refused.code, refused.message
        responses.append(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=tuple(responses))


def _altered(node: Node, resource: AlterConfigsResource) -> dict[str, str | None]:
    if resource.resource_type != TOPIC_RESOURCE:
        raise Refused(ErrorCode.invalid_request, "only topics have configurations here")
    topic = node.topics.get(resource.resource_name)
    if topic is None:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    configs: dict[str, str | None] = dict(topic.stored.configs)
    for change in resource.configs:
        if change.config_operation not in {_SET, _DELETE}:
            raise Refused(ErrorCode.invalid_config, "lists are replaced whole here, not appended to")
        configs[change.name] = change.value if change.config_operation == _SET else None
    return configs
