"""Topic configurations: supported names, defaults and parsing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from app.broker.errors import Refused
from app.broker.log import LogLimits
from app.broker.settings import DAY_MS, BrokerSettings

CLEANUP_POLICY: Final = "cleanup.policy"
"""`delete`, `compact` or both."""

TIMESTAMP_TYPE: Final = "message.timestamp.type"
"""`CreateTime`, the producer's word, or `LogAppendTime`, this broker's clock."""

SMALLEST_SEGMENT_BYTES: Final = 1024
"""Below this a segment per batch would use up the descriptors."""

IGNORED: Final = frozenset({
    "compression.type", "file.delete.delay.ms", "flush.messages", "flush.ms", "index.interval.bytes",
    "max.compaction.lag.ms", "message.format.version", "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms", "min.compaction.lag.ms", "min.insync.replicas", "preallocate",
    "segment.index.bytes", "segment.jitter.ms", "unclean.leader.election.enable",
})  # fmt: skip
"""Kafka's other topic configurations: stored and shown, without effect on one node."""


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """A topic's configuration as the log and its upkeep use it."""

    limits: LogLimits
    compacted: bool
    deleted: bool
    tombstone_ms: int
    dirty_ratio: float


def _whole(low: int) -> Callable[[str], object]:
    def check(text: str) -> int:
        value = int(text)
        if value < low:
            raise ValueError(f"must be at least {low}")
        return value

    return check


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("must lie between 0 and 1")
    return value


def _policy(text: str) -> frozenset[str]:
    policies = frozenset(part.strip() for part in text.split(","))
    if not policies <= {"delete", "compact"}:
        raise ValueError("must be delete, compact or both")
    return policies


def _timestamp_type(text: str) -> str:
    if text not in {"CreateTime", "LogAppendTime"}:
        raise ValueError("must be CreateTime or LogAppendTime")
    return text


_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    CLEANUP_POLICY: _policy,
    "delete.retention.ms": _whole(0),
    "max.message.bytes": _whole(1),
    TIMESTAMP_TYPE: _timestamp_type,
    "min.cleanable.dirty.ratio": _ratio,
    "retention.bytes": _whole(-1),
    "retention.ms": _whole(-1),
    "segment.bytes": _whole(SMALLEST_SEGMENT_BYTES),
    "segment.ms": _whole(1),
}


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configurations that were given a value, or raise `Refused` naming the first bad one."""
    given = {name: value for name, value in configs.items() if value is not None}
    for name, value in given.items():
        check = _CHECKS.get(name)
        if check is None and name not in IGNORED:
            raise Refused(ErrorCode.invalid_config, f"unknown topic config name: {name}")
        try:
            if check is not None:
                check(value)
        except ValueError as error:
            raise Refused(ErrorCode.invalid_config, f"invalid value {value!r} for {name}: {error}") from error
    return given


def default_configs(settings: BrokerSettings, given: Mapping[str, str]) -> dict[str, str]:
    """Return every understood configuration's default for a topic that was `given` some."""
    compacted = "compact" in given.get(CLEANUP_POLICY, "delete")
    segment_bytes = settings.compacted_segment_bytes if compacted else settings.segment_bytes
    return {
        CLEANUP_POLICY: "delete",
        "delete.retention.ms": str(DAY_MS),
        "max.message.bytes": str(settings.max_message_bytes),
        TIMESTAMP_TYPE: "CreateTime",
        "min.cleanable.dirty.ratio": "0.5",
        "retention.bytes": str(settings.retention_bytes),
        "retention.ms": str(settings.retention_ms),
        "segment.bytes": str(segment_bytes),
        "segment.ms": str(7 * DAY_MS),
    }


def read_policy(settings: BrokerSettings, given: Mapping[str, str]) -> TopicPolicy:
    """Return what checked configurations mean."""
    value = default_configs(settings, given) | dict(given)
    policies = _policy(value[CLEANUP_POLICY])
    limits = LogLimits(
        segment_bytes=int(value["segment.bytes"]),
        segment_ms=int(value["segment.ms"]),
        retention_ms=int(value["retention.ms"]) if "delete" in policies else -1,
        retention_bytes=int(value["retention.bytes"]) if "delete" in policies else -1,
        max_message_bytes=int(value["max.message.bytes"]),
        append_time=value[TIMESTAMP_TYPE] == "LogAppendTime",
    )
    return TopicPolicy(
        limits=limits,
        compacted="compact" in policies,
        deleted="delete" in policies,
        tombstone_ms=int(value["delete.retention.ms"]),
        dirty_ratio=float(value["min.cleanable.dirty.ratio"]),
    )
