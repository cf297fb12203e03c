"""The services of docker-compose.yml verify, with its variables and files: all of it but the containers."""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession
from aiokafka import (  # type: ignore[import-untyped]  # ships no types
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from pydantic import SecretStr

from app.adapters.security.crypto import RootKey
from app.demo.receiver import Heard, open_receiver
from deploy.cassandra_roles import Deployment, make_roles
from deploy.kafka_roles import GRANTS
from schemas.topics import TOPICS, Topic
from streams.runtime.kafka_client_config import LogAccess, SaslMechanism, SignIn
from tests.engines.deployed import DEPLOY, DeployedCassandra, DeployedKafka, environment_of
from tests.journeys.service import (
    Role,
    environment,
    make_tenant,
    readiness,
    run_preloaded,
    small_request,
    veristream_json,
)
from tests.journeys.test_sender_apart import SECRET, command_of

pytestmark = pytest.mark.engines

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the word in the file, not an address to bind
USERS = ("admin", *GRANTS)
SECRETS = (
    "root_key", "platform_operator_token", "cassandra_password",
    *(f"kafka_{user}_password" for user in USERS),
)  # fmt: skip


def moved(
    service: str, folder: Path, kafka: DeployedKafka, cassandra: DeployedCassandra, **more: str
) -> Mapping[str, str]:
    """The variables of a service with the places of this test instead of those in containers."""
    places = {
        "kafka:9092": kafka.locked_bootstrap,
        "cassandra": cassandra.host,
        "9042": str(cassandra.port),
        "dc1": "datacenter1",  # the snitch of this test names it so
        EVERYWHERE: "127.0.0.1",
        "8080": "0",
        "8081": "0",
        "/var/lib/veristream/blobs": str(folder / "blobs"),
        **{f"/run/secrets/{name}": str(folder / name) for name in (*SECRETS, "sender_key")},
    }
    result = environment_of(service)
    return {
        **{name: places.get(value, value) for name, value in result.items() if not value.startswith("${")},
        **more,
    }


class Deployed:
    """The stack, as far as one start of the compose file brings it."""

    def __init__(self, folder: Path, kafka: DeployedKafka, cassandra: DeployedCassandra) -> None:
        self.folder, self.kafka, self.cassandra = folder, kafka, cassandra

    def given(self, service: str) -> Mapping[str, str]:
        """The variables of a service."""
        return moved(service, self.folder, self.kafka, self.cassandra)

    def access(self, user: str) -> LogAccess:
        """How a principal reaches the log."""
        word = SecretStr((self.folder / f"kafka_{user}_password").read_text().strip())
        return LogAccess(self.kafka.locked_bootstrap, sign_in=SignIn(SaslMechanism.SCRAM_SHA_512, user, word))

    async def start(self, stack: AsyncExitStack, service: str, *arguments: str) -> Role:
        """Start a service; it ends with the stack."""
        given = {**self.given(service), "SERVICE_WEBHOOKS_ALLOW_INSECURE": "true"}  # the receiver is a test's
        role = await Role.start(self.folder / service, *arguments, given=given)
        stack.push_async_callback(role.stop)
        return role


@asynccontextmanager
async def deployed(folder: Path) -> AsyncIterator[Deployed]:
    """Both engines with roles, principals, tables and topics, as the one-shot services leave them."""
    for name in SECRETS:
        (folder / name).write_text(secrets.token_hex(32) + "\n")
    root_key = RootKey(bytes.fromhex((folder / "root_key").read_text().strip()))
    (folder / "sender_key").write_text(root_key.sender_key().secret.hex() + "\n")
    (folder / "blobs").mkdir()
    users = {user: (folder / f"kafka_{user}_password").read_text().strip() for user in USERS}
    kafka = DeployedKafka(folder / "kafka", users)
    cassandra = DeployedCassandra(folder / "cassandra")
    async with AsyncExitStack() as stack:
        await asyncio.gather(stack.enter_async_context(kafka), stack.enter_async_context(cassandra))
        made = Deployed(folder, kafka, cassandra)
        ours = (folder / "cassandra_password").read_text().strip()
        wanted = Deployment((cassandra.host,), cassandra.port, "veristream", ours, "administrator's")
        await asyncio.to_thread(make_roles, wanted)
        principals = await asyncio.create_subprocess_exec(
            sys.executable, str(DEPLOY / "kafka_roles.py"), env=environment(made.given("principals"))
        )
        assert await principals.wait() == 0
        migrated, _, err = await run_preloaded(folder / "migrate", "migrate", given=made.given("migrate"))
        assert migrated == 0, err
        yield made


async def test_s68_the_roles_work_under_the_principals_of_the_compose_file_and_may_do_no_more(
    tmp_path: Path,
) -> None:
    arrived: asyncio.Queue[Heard] = asyncio.Queue()
    async with deployed(tmp_path) as made, AsyncExitStack() as stack:
        worker, front = await asyncio.gather(
            made.start(stack, "worker", *command_of("worker")), made.start(stack, "front", "front")
        )
        await made.start(stack, "sender", *command_of("sender"))
        hook = await stack.enter_async_context(open_receiver(SECRET.encode(), arrived.put_nowait))
        tenant, _, key = await make_tenant(tmp_path / "front", given=made.given("front"))
        health = worker.said.partition("(")[2].partition(")")[0]
        async with ClientSession(headers={"Authorization": f"Bearer {key}"}) as client:
            body = {"url": hook, "secret": SECRET, "event_types": ["verification.approved"]}
            async with client.post(f"{front.url}/v1/webhooks/endpoints", json=body) as registered:
                output = await registered.text()
            async with client.post(
                f"{front.url}/v1/verifications", json=small_request("sim:approved@compose")
            ) as answer:
                decided = await answer.json()
            at_front, at_worker = await readiness(client, front.url), await readiness(client, health)
            ready = {**at_front["dependencies"], **at_worker["dependencies"]}
            if registered.status == 201:
                async with asyncio.timeout(180):
                    heard = await arrived.get()
        found = await veristream_json(
            tmp_path / "front", "audit", "verify", "--tenant", tenant, given=made.given("front")
        )
        letters = await veristream_json(tmp_path / "worker", "dlq", "list", given=made.given("worker"))
        written = [await topics_where(can_write, made.access(user)) for user in GRANTS]
        read = [await topics_where(can_read, made.access(user)) for user in GRANTS]
        may = dict(zip(GRANTS, zip(read, written, strict=True), strict=True))

    assert may == MAY
    assert (answer.status, decided["status"]) == (201, "APPROVED")
    assert {"store", "broker", "agents"} <= set(ready)
    assert {one["status"] for one in ready.values()} == {"up"}
    assert [chain["ok"] for chain in found["chains"]] == [True]
    assert not (tmp_path / "front" / "root.key").exists()
    assert not (tmp_path / "sender" / "root.key").exists()
    assert registered.status == 201, output
    assert heard.data["verification_id"] == decided["verification_id"]
    assert letters == []


ALL = frozenset(spec.topic for spec in TOPICS)
COMMANDS = frozenset(
    {
        Topic.VERIFICATION_COMMANDS,
        Topic.FLOW_COMMANDS,
        Topic.POLICY_COMMANDS,
        Topic.SESSION_COMMANDS,
        Topic.REVIEW_COMMANDS,
        Topic.TRANSACTION_COMMANDS,
        Topic.SCREENING_COMMANDS,
    }
)
EVENT_TOPICS = frozenset({Topic.DECISIONS, Topic.WEBHOOK_DELIVERIES, Topic.AUDIT})
MAY = {
    "front": (
        frozenset({Topic.REPLIES, Topic.RATE_LIMITS, Topic.AUDIT_CHECKPOINTS, Topic.LIST_CHANGES}),
        COMMANDS
        | EVENT_TOPICS
        | {Topic.RETENTION_COMMANDS, Topic.REPLIES, Topic.RATE_LIMITS, Topic.LIST_CHANGES},
    ),
    "worker": (ALL, ALL),
    "sender": (
        frozenset({Topic.DECISIONS, Topic.WEBHOOK_DELIVERIES}),
        EVENT_TOPICS | {Topic.REPLIES, Topic.DEAD_LETTERS},
    ),
    "downstream": (frozenset({Topic.DECISIONS}), frozenset()),
}
"""Which topics each principal can read, and which it can write."""


async def topics_where(
    can: Callable[[LogAccess, Topic], Awaitable[bool]], access: LogAccess
) -> frozenset[Topic]:
    """Try every topic."""
    tried = await asyncio.gather(*(can(access, topic) for topic in ALL))
    return frozenset(topic for topic, success in zip(ALL, tried, strict=True) if success)


async def can_read(access: LogAccess, topic: Topic) -> bool:
    """Read a record, for every topic has one by now; a topic one may not even know of is not there."""
    consumer = AIOKafkaConsumer(**access.client(), auto_offset_reset="earliest")
    try:
        async with asyncio.timeout(120):
            await consumer.start()
            if topic not in await consumer.topics():
                return False
            part = TopicPartition(topic, 0)
            consumer.assign([part])
            consumer.seek(part, 0)
            while not await consumer.getmany(part, timeout_ms=1_000):
                pass
            return True
    except (KafkaError, TimeoutError):
        return False
    finally:
        await consumer.stop()


async def can_write(access: LogAccess, topic: Topic) -> bool:
    """Write one record that means nothing: it carries no code, so nobody acts on it."""
    producer = AIOKafkaProducer(**access.client(), request_timeout_ms=60_000)
    try:
        async with asyncio.timeout(120):
            await producer.start()
            await producer.send_and_wait(topic, b"", key=b"nobody", partition=0)
            return True
    except (KafkaError, TimeoutError):
        return False
    finally:
        await producer.stop()
