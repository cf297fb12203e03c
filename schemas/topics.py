"""The Kafka topics: names, partitions, retention and keys."""

from typing import Final

from schemas.base import Frozen
from schemas.enums import TextEnum
from schemas.ids import SubjectId, TenantId


class Topic(TextEnum):
    """The topic names; the version is part of the name."""

    VERIFICATION_COMMANDS = "idv.verifications.commands.v1"
    FLOW_COMMANDS = "idv.flows.commands.v1"
    POLICY_COMMANDS = "idv.policies.commands.v1"
    LIST_CHANGES = "idv.lists.changes.v1"
    """Notices that a list has another version; every process reads all of them."""
    SESSION_COMMANDS = "idv.sessions.commands.v1"
    REVIEW_COMMANDS = "idv.reviews.commands.v1"
    TRANSACTION_COMMANDS = "idv.transactions.commands.v1"
    SCREENING_COMMANDS = "idv.screenings.commands.v1"
    TRANSACTION_KEYS = "idv.transactions.keyed.v1"
    """Within the service: a subject's actor asks those of accounts, devices and the like for features."""
    RETENTION_COMMANDS = "idv.retention.commands.v1"
    """Within the service: the sweeper asks for what is past its date."""
    DECISIONS = "idv.decisions.v1"
    WEBHOOK_DELIVERIES = "idv.webhooks.deliveries.v1"
    AUDIT = "idv.audit.v1"
    AUDIT_CHECKPOINTS = "idv.audit-checkpoints.v1"
    """Signed statements of where every audit chain ended; nothing but tenant ids, positions and hashes."""
    REPLIES = "idv.replies.v1"
    RATE_LIMITS = "idv.rate-limits.v1"
    DEAD_LETTERS = "idv.dead-letters.v1"


class TopicSpec(Frozen):
    """How a topic is created."""

    topic: Topic
    partitions: int
    retention_ms: int
    """-1: for ever."""


READABLE_DOWNSTREAM: Final = frozenset({Topic.DECISIONS})
"""What a consumer outside the service may read; everything else is between its own processes."""

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

TOPICS: Final = (
    TopicSpec(topic=Topic.VERIFICATION_COMMANDS, partitions=8, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.FLOW_COMMANDS, partitions=4, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.POLICY_COMMANDS, partitions=2, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.LIST_CHANGES, partitions=1, retention_ms=_HOUR_MS // 6),
    TopicSpec(topic=Topic.SESSION_COMMANDS, partitions=4, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.REVIEW_COMMANDS, partitions=4, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.TRANSACTION_COMMANDS, partitions=8, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.SCREENING_COMMANDS, partitions=4, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.TRANSACTION_KEYS, partitions=8, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.RETENTION_COMMANDS, partitions=2, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.DECISIONS, partitions=8, retention_ms=30 * _DAY_MS),
    TopicSpec(topic=Topic.WEBHOOK_DELIVERIES, partitions=8, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.AUDIT, partitions=4, retention_ms=7 * _DAY_MS),
    TopicSpec(topic=Topic.AUDIT_CHECKPOINTS, partitions=1, retention_ms=90 * _DAY_MS),
    TopicSpec(topic=Topic.REPLIES, partitions=16, retention_ms=_HOUR_MS // 6),
    TopicSpec(topic=Topic.RATE_LIMITS, partitions=1, retention_ms=_HOUR_MS // 6),
    TopicSpec(topic=Topic.DEAD_LETTERS, partitions=1, retention_ms=-1),
)
"""Partitions are how workers share an agent's work; 16 reply partitions allow 16 fronts."""


def decision_key(tenant_id: TenantId, subject_id: SubjectId) -> str:
    """Return the key under which one subject's decisions keep their order."""
    return f"{tenant_id}:{subject_id}"
