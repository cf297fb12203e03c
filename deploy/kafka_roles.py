"""Makes a Kafka's topics and says who may read and write which, at first start or again."""  # noqa: INP001 - a script, mounted into a container by the one-shot service `principals` of docker-compose.yml

import asyncio
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import for_code  # type: ignore[import-untyped]  # ships no types
from aiokafka.protocol.admin import CreateAclsRequest  # type: ignore[import-untyped]  # ships no types

from app.kafka.cluster import access_of, prepare_topics
from app.process.startup import CannotStart
from app.settings import read_settings
from schemas.topics import Topic
from streams.runtime.app import GROUP
from streams.runtime.dead_letters import REDRIVE_GROUP
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.topics import changelog_of
from streams.webhooks.agent import TABLE

OURS: Final = "idv."
"""Begins the name of every topic but the changelogs."""

DOWNSTREAM_GROUPS: Final = "downstream-"
"""Begins the name of every consumer group of those who read decisions."""


class Resource(IntEnum):
    """What is allowed on; Kafka's numbers."""

    TOPIC = 2
    GROUP = 3


class Operation(IntEnum):
    """What is allowed; Kafka's numbers. Who may read or write may describe as well."""

    READ = 3
    WRITE = 4
    DESCRIBE = 8


_LITERAL, _PREFIXED, _ALLOW = 3, 4, 3


@dataclass(frozen=True, slots=True)
class Grant:
    """One thing a principal may do, from any host."""

    operation: Operation
    name: str
    prefixed: bool = False
    resource: Resource = Resource.TOPIC


def _topics(operation: Operation, *names: str) -> tuple[Grant, ...]:
    return tuple(Grant(operation, name) for name in names)


KNOWN: Final = (
    Grant(Operation.DESCRIBE, OURS, prefixed=True),
    Grant(Operation.DESCRIBE, GROUP, prefixed=True),
)
"""That topics exist, and their partitions: a start looks whether all are there."""

AGENTS: Final = (
    *KNOWN,
    Grant(Operation.READ, GROUP, resource=Resource.GROUP),
)
"""What every process of agents may: they share a group, which hands the partitions out."""

GRANTS: Final[Mapping[str, tuple[Grant, ...]]] = {
    "front": (
        *KNOWN,
        *_topics(
            Operation.READ, Topic.REPLIES, Topic.RATE_LIMITS, Topic.AUDIT_CHECKPOINTS, Topic.LIST_CHANGES
        ),
        *_topics(
            Operation.WRITE,
            Topic.VERIFICATION_COMMANDS, Topic.FLOW_COMMANDS, Topic.SESSION_COMMANDS, Topic.REVIEW_COMMANDS,
            Topic.TRANSACTION_COMMANDS, Topic.POLICY_COMMANDS, Topic.SCREENING_COMMANDS,
            Topic.RETENTION_COMMANDS, Topic.WEBHOOK_DELIVERIES, Topic.DECISIONS, Topic.AUDIT, Topic.REPLIES,
            Topic.RATE_LIMITS, Topic.LIST_CHANGES,
        ),
    ),
    "worker": (
        *AGENTS,
        Grant(Operation.READ, OURS, prefixed=True),
        Grant(Operation.WRITE, OURS, prefixed=True),
        Grant(Operation.READ, f"{GROUP}-", prefixed=True),
        Grant(Operation.WRITE, f"{GROUP}-", prefixed=True),
        Grant(Operation.READ, REDRIVE_GROUP, resource=Resource.GROUP),
    ),
    "sender": (
        *AGENTS,
        *_topics(Operation.READ, Topic.DECISIONS, Topic.WEBHOOK_DELIVERIES, changelog_of(GROUP, TABLE)),
        *_topics(
            Operation.WRITE,
            Topic.WEBHOOK_DELIVERIES, Topic.DECISIONS, Topic.AUDIT, Topic.REPLIES, Topic.DEAD_LETTERS,
            changelog_of(GROUP, TABLE),
        ),
    ),
    "downstream": (
        *_topics(Operation.READ, Topic.DECISIONS),
        Grant(Operation.READ, DOWNSTREAM_GROUPS, prefixed=True, resource=Resource.GROUP),
    ),
}  # fmt: skip
"""Who may do what. The worker reads and writes all of ours, for an operator looks and redrives as the worker;
a record that holds no code of its topic's key is refused no matter who wrote it."""


class NotAllowed(Exception):
    """The brokers did not take a rule; the message names it."""


async def allow(access: LogAccess) -> int:
    """Allow what `GRANTS` says; safe to repeat, and takes nothing away. Returns how many rules.

    Raises:
        NotAllowed: The brokers refused one.
    """
    admin = AIOKafkaAdminClient(**access.client())
    await admin.start()
    try:
        wanted = list(_wanted())
        for principal, grant in wanted:
            await _allow(admin, principal, grant)
        return len(wanted)
    finally:
        await admin.close()


def _wanted() -> Iterator[tuple[str, Grant]]:
    for principal, grants in GRANTS.items():
        for grant in grants:
            yield principal, grant


async def _allow(admin: Any, principal: str, grant: Grant) -> None:
    pattern = _PREFIXED if grant.prefixed else _LITERAL
    request = CreateAclsRequest(
        int(grant.resource), str(grant.name), pattern, f"User:{principal}", "*", int(grant.operation), _ALLOW
    )
    answer = await admin._send_to_controller(request)  # noqa: SLF001  # the client has no call for it
    for code, message in answer.creation_responses:
        if code:
            raise NotAllowed(f"{principal} {grant}: {for_code(code).__name__} {message or ''}")


async def main() -> int:
    """Do it for the deployment that the environment describes; 0 when it is done."""
    access = access_of(read_settings())
    try:
        await prepare_topics(access)
        rules = await allow(access)
    except (CannotStart, NotAllowed) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{rules} rules for {', '.join(GRANTS)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
