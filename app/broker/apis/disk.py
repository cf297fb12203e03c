"""DescribeLogDirs: sizes of partitions on disk."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from app.broker.node import Call
from app.broker.topics import Topic
from app.broker.wire import NO_THROTTLE


def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Return the sizes of the requested or all partitions; unknown ones are left out, as in Kafka."""
    directory = call.node.settings.directory
    if request.topics is None:
        sizes = [_sizes(topic, range(len(topic.partitions))) for topic in call.node.topics]
    else:
        known = [(call.node.topics.get(asked.topic), asked.partitions) for asked in request.topics]
        sizes = [_sizes(topic, partitions) for topic, partitions in known if topic is not None]
    total, usable = _volume(directory)
    result = DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=str(directory.absolute()),
        topics=tuple(sizes),
        total_bytes=i64(total),
        usable_bytes=i64(usable),
    )
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=(result,)
    )  # fmt: skip


def _sizes(topic: Topic, partitions: Iterable[int]) -> DescribeLogDirsTopic:
    known = [index for index in partitions if 0 <= index < len(topic.partitions)]
    return DescribeLogDirsTopic(
        name=TopicName(topic.name),
        partitions=tuple(
            DescribeLogDirsPartition(
                partition_index=i32(index),
                partition_size=i64(topic.partitions[index].size),
                offset_lag=i64(0),
                is_future_key=False,
            )
            for index in known
        ),
    )


def _volume(directory: Path) -> tuple[int, int]:
    """The size and free space of the volume, or -1 where the system does not report it."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return -1, -1
    return usage.total, usage.free
