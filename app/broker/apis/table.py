"""ApiVersions: the table of supported APIs and versions (Java clients of Kafka 2.1 and later, KIP-896)."""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from kio.schema.api_versions.v3.response import ApiVersion
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.leave_group.v2.request import LeaveGroupRequest
from kio.schema.leave_group.v5 import request as leave_many
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.offset_commit.v8.request import OffsetCommitRequest
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.static.primitive import i16, i64

from app.broker.apis.commits import offset_commit, offset_delete, offset_fetch, offset_fetch_of_groups
from app.broker.apis.describe import (
    alter_configs,
    delete_groups,
    describe_configs,
    describe_groups,
    list_groups,
)
from app.broker.apis.disk import describe_log_dirs
from app.broker.apis.fetch import fetch
from app.broker.apis.groups import heartbeat, join_group, leave_group, leave_group_many, sync_group
from app.broker.apis.metadata import describe_cluster, find_coordinator, find_coordinators, metadata
from app.broker.apis.offsets import list_offsets, offsets_for_epochs
from app.broker.apis.produce import init_producer_id, produce
from app.broker.apis.signing_in import sasl_authenticate, sasl_handshake
from app.broker.apis.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    delete_topics_by_name_or_id,
)
from app.broker.node import Api, Call
from app.broker.wire import NO_THROTTLE


class UnsupportedApiVersions(NamedTuple):
    """The answer, always in version 0, to an ApiVersions request of an unknown version (KIP-511)."""

    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]


class SpokenApiVersions(NamedTuple):
    """The answer to ApiVersions; the field names are the wire's. No features are versioned here."""

    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time: timedelta = NO_THROTTLE
    supported_features: tuple[()] = ()
    finalized_features_epoch: i64 = i64(-1)
    finalized_features: tuple[()] = ()
    zk_migration_ready: bool = False


APIS = (
    # librdkafka offers compression only to brokers that claim Produce from version 0 on (KAFKA-18659)
    Api(0, 3, 9, produce, advertised_low=0),
    Api(1, 4, 12, fetch),
    Api(2, 1, 7, list_offsets, ListOffsetsRequest),
    Api(3, 0, 12, metadata, MetadataRequest),
    Api(8, 2, 8, offset_commit, OffsetCommitRequest),
    Api(9, 1, 7, offset_fetch, OffsetFetchRequest),
    Api(9, 8, 9, offset_fetch_of_groups),
    Api(10, 0, 3, find_coordinator, FindCoordinatorRequest),
    Api(10, 4, 5, find_coordinators),
    Api(11, 0, 9, join_group, JoinGroupRequest),
    Api(12, 0, 4, heartbeat, HeartbeatRequest),
    Api(13, 0, 2, leave_group, LeaveGroupRequest),
    Api(13, 3, 5, leave_group_many, leave_many.LeaveGroupRequest),
    Api(14, 0, 5, sync_group, SyncGroupRequest),
    Api(15, 0, 5, describe_groups, DescribeGroupsRequest),
    Api(16, 0, 5, list_groups, ListGroupsRequest),
    Api(17, 0, 1, sasl_handshake, SaslHandshakeRequest),
    Api(19, 2, 7, create_topics, CreateTopicsRequest),
    Api(20, 1, 5, delete_topics, DeleteTopicsRequest),
    Api(20, 6, 6, delete_topics_by_name_or_id),
    Api(22, 0, 4, init_producer_id, InitProducerIdRequest),
    Api(23, 2, 4, offsets_for_epochs, OffsetForLeaderEpochRequest),
    Api(32, 1, 4, describe_configs, DescribeConfigsRequest),
    Api(35, 1, 4, describe_log_dirs, DescribeLogDirsRequest),
    Api(36, 0, 2, sasl_authenticate),
    Api(37, 0, 3, create_partitions, CreatePartitionsRequest),
    Api(42, 0, 2, delete_groups, DeleteGroupsRequest),
    Api(44, 0, 1, alter_configs, IncrementalAlterConfigsRequest),
    Api(47, 0, 0, offset_delete, OffsetDeleteRequest),
    Api(60, 0, 1, describe_cluster, DescribeClusterRequest),
)
"""Everything but ApiVersions, which needs this list for its answer."""


@dataclass(frozen=True, slots=True)
class Table:
    """Finds the API a request is for."""

    by_version: dict[tuple[int, int], Api]
    advertised: tuple[ApiVersion, ...]

    def find(self, api_key: int, version: int) -> Api | None:
        """Return the API, or None when this version of it is not served."""
        return self.by_version.get((api_key, version))


def build_table() -> Table:
    """Return the table of `APIS` and ApiVersions itself."""

    def api_versions(_call: Call, _request: object) -> SpokenApiVersions:
        return SpokenApiVersions(ErrorCode.none, advertised)

    apis = (*APIS, Api(18, 0, 3, api_versions))
    advertised = _advertised(apis)
    served = {(api.key, version): api for api in apis for version in range(api.low, api.high + 1)}
    return Table(served, advertised)


def _advertised(apis: tuple[Api, ...]) -> tuple[ApiVersion, ...]:
    lows: dict[int, int] = {}
    highs: dict[int, int] = {}
    for api in apis:
        low = api.low if api.advertised_low is None else api.advertised_low
        lows[api.key] = min(lows.get(api.key, low), low)
        highs[api.key] = max(highs.get(api.key, api.high), api.high)
    return tuple(
        ApiVersion(api_key=i16(key), min_version=i16(lows[key]), max_version=i16(highs[key]))
        for key in sorted(lows)
    )
