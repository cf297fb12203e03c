"""A configured Apache Kafka for the embedded broker: behind TLS and sign-in, and refused when wrong."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # ships no types
from aiokafka.admin.config_resource import (  # type: ignore[import-untyped]  # ships no types
    ConfigResource,
    ConfigResourceType,
)
from pydantic import SecretStr

from app.kafka.cluster import access_of, prepare_topics
from app.kafka.diagnostics import Unreachable, reach
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.topics import TOPICS, Topic
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.topics import TopicUnfit, changelog_of, ensure_topics
from tests.agents.support import KEYS
from tests.engines.certificates import Authority, Identity
from tests.engines.jvm import free_ports
from tests.engines.kafka_server import KafkaServer, Lock
from tests.engines.kafka_topics import create_topic
from tests.journeys.service import (
    START_S,
    Service,
    readiness,
    run_preloaded,
    running_service,
    small_request,
    veristream_json,
)

pytestmark = pytest.mark.engines

NAME, PASSWORD = "veristream", "the broker's password"
TABLES = {"verifications": Topic.VERIFICATION_COMMANDS}
BROKER_KIND = 4


@dataclass(frozen=True, slots=True)
class Doors:
    """The ways into three Kafkas, and the papers for them."""

    authority: Authority
    outsider: Authority
    ours: Identity
    signed: KafkaServer
    """SASL_SSL."""
    clear: KafkaServer
    """SASL_PLAINTEXT."""
    mutual: KafkaServer
    """SSL, a certificate of the client asked for."""

    @property
    def sasl(self) -> dict[str, Any]:
        """Settings that open `signed`."""
        return {
            "kafka_bootstrap": self.signed.locked_bootstrap,
            "kafka_security_protocol": "SASL_SSL",
            "kafka_username": NAME,
            "kafka_password": SecretStr(PASSWORD),
            "kafka_tls_ca_file": self.authority.certificate,
        }

    @property
    def certificate(self) -> dict[str, Any]:
        """Settings that open `mutual`."""
        return {
            "kafka_bootstrap": self.mutual.locked_bootstrap,
            "kafka_security_protocol": "SSL",
            "kafka_tls_ca_file": self.authority.certificate,
            "kafka_tls_cert_file": self.ours.certificate,
            "kafka_tls_key_file": self.ours.key,
        }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def doors(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Doors]:
    """Three Kafkas, each locked in its own way."""
    folder = tmp_path_factory.mktemp("doors")
    authority, outsider = Authority.make(folder / "authority"), Authority.make(folder / "stranger")
    server, ours = authority.sign("kafka"), authority.sign("ours")
    async with (
        KafkaServer(folder / "signed", lock=Lock(NAME, PASSWORD, server)) as signed,
        KafkaServer(folder / "clear", lock=Lock(NAME, PASSWORD)) as clear,
        KafkaServer(
            folder / "mutual", lock=Lock(identity=server, clients_trusted=authority.certificate)
        ) as mutual,
    ):
        yield Doors(authority, outsider, ours, signed, clear, mutual)


def exported(settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The settings as a deployment gives them, the password in a file."""
    given = {f"SERVICE_{name.upper()}": str(value) for name, value in settings.items()}
    if given.pop("SERVICE_KAFKA_PASSWORD", None):
        secret = folder / "password"
        secret.write_text(settings["kafka_password"].get_secret_value() + "\n", encoding="utf-8")
        given["SERVICE_KAFKA_PASSWORD_FILE"] = str(secret)
    return given


async def test_the_whole_service_runs_on_a_kafka_behind_tls_and_a_password(
    doors: Doors, tmp_path: Path
) -> None:
    given = exported(doors.sasl, tmp_path)
    async with running_service(tmp_path / "data", given, preloaded=True) as service:
        status, body, _ = await service.post(small_request("sim:approved"), key=service.test_key)
        ready = await readiness(service.client, service.url)
        found = await veristream_json(tmp_path / "data", "doctor", given=given)
        letters = await veristream_json(tmp_path / "data", "dlq", "list", given=given)

    assert (status, body["status"]) == (201, "APPROVED")
    assert ready["dependencies"]["broker"] == {"status": "up"}
    assert {f["looked_at"] for f in found if f["ok"]} >= {"broker", "topics", "dead letters"}
    assert letters == []
    assert PASSWORD not in service.role.log.read_text()


async def test_the_whole_service_runs_on_a_kafka_that_asks_for_a_certificate(
    doors: Doors, tmp_path: Path
) -> None:
    async with running_service(
        tmp_path / "data", exported(doors.certificate, tmp_path), preloaded=True
    ) as service:
        status, body, _ = await service.post(small_request("sim:approved"), key=service.test_key)

    assert (status, body["status"]) == (201, "APPROVED")


@pytest.mark.parametrize("door", ["signed", "clear"])
async def test_a_plain_password_is_shown_as_well(doors: Doors, door: str) -> None:
    changes: dict[str, Any] = {"kafka_sasl_mechanism": "PLAIN"}
    if door == "clear":
        changes |= {
            "kafka_bootstrap": doors.clear.locked_bootstrap,
            "kafka_security_protocol": "SASL_PLAINTEXT",
            "kafka_tls_ca_file": None,
        }
    access = access_of(Settings(**(doors.sasl | changes)))
    await prepare_topics(access)

    async with LogWriter(access, KEYS) as writer:
        await writer.write(Outgoing(Topic.AUDIT, b"ten_nobody", None, partition=0))


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "a wrong password": ({"kafka_password": SecretStr("wrong")}, "KAFKA_PASSWORD"),
    "a mechanism it does not know": ({"kafka_sasl_mechanism": "SCRAM-SHA-256"}, "KAFKA_SASL_MECHANISM"),
    "no sign-in": (
        {"kafka_security_protocol": "SSL", "kafka_username": None, "kafka_password": None},
        "KAFKA_SECURITY_PROTOCOL",
    ),
    "a sign-in but no TLS": (
        {"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_tls_ca_file": None},
        "speaks TLS.*KAFKA_SECURITY_PROTOCOL to SASL_SSL",
    ),
    "neither": (
        {
            "kafka_security_protocol": "PLAINTEXT",
            "kafka_username": None,
            "kafka_password": None,
            "kafka_tls_ca_file": None,
        },
        "speaks TLS.*KAFKA_SECURITY_PROTOCOL to SSL or SASL_SSL",
    ),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_start_against_sasl_ssl_is_refused_for(doors: Doors, case: str) -> None:
    changes, mend = WRONG[case]
    settings = Settings(**(doors.sasl | changes))

    with pytest.raises(CannotStart, match=mend) as refused:
        await prepare_topics(access_of(settings), patience_s=1.0)
    assert PASSWORD not in str(refused.value)


async def test_a_start_is_refused_for_another_authority(doors: Doors) -> None:
    settings = Settings(**(doors.sasl | {"kafka_tls_ca_file": doors.outsider.certificate}))

    with pytest.raises(CannotStart, match=r"certificate that is not accepted.*KAFKA_TLS_CA_FILE"):
        await prepare_topics(access_of(settings))


async def test_a_start_is_refused_for_tls_to_a_listener_without_it(doors: Doors) -> None:
    settings = Settings(**(doors.sasl | {"kafka_bootstrap": doors.clear.locked_bootstrap}))

    with pytest.raises(CannotStart, match=r"speaks no TLS.*SASL_PLAINTEXT"):
        await prepare_topics(access_of(settings))


async def test_a_start_is_refused_for_no_sign_in_where_one_is_asked_for(doors: Doors) -> None:
    settings = Settings(kafka_bootstrap=doors.clear.locked_bootstrap)

    with pytest.raises(CannotStart, match=r"asks for a sign-in.*SASL_PLAINTEXT"):
        await prepare_topics(access_of(settings))


async def test_a_start_is_refused_for_a_missing_certificate_of_ours(doors: Doors) -> None:
    changes = {"kafka_tls_cert_file": None, "kafka_tls_key_file": None}
    settings = Settings(**(doors.certificate | changes))

    with pytest.raises(CannotStart, match="KAFKA_TLS_CERT_FILE"):
        await prepare_topics(access_of(settings), patience_s=1.0)


@pytest.mark.parametrize("role", ["up --port 0", "front --port 0", "worker"])
async def test_a_refused_process_says_one_line_and_no_secret(doors: Doors, role: str, tmp_path: Path) -> None:
    wrong = doors.sasl | {"kafka_password": SecretStr("not the password")}
    status, out, err = await run_preloaded(
        tmp_path / "data",
        *role.split(),
        given=exported(wrong, tmp_path),
    )

    refusals = [line for line in err.splitlines() if line.startswith("error:")]
    assert status == 2
    assert len(refusals) == 1
    assert "SERVICE_KAFKA_PASSWORD" in refusals[0]
    assert "Traceback" not in out + err
    assert "not the password" not in out + err


async def test_a_start_without_any_broker_is_refused_in_time(tmp_path: Path) -> None:
    first, second = free_ports(2)
    settings = Settings(data_dir=tmp_path, kafka_bootstrap=f"127.0.0.1:{first},127.0.0.1:{second}")

    with pytest.raises(CannotStart, match=f"nothing listens at 127.0.0.1:{first}"):
        await prepare_topics(access_of(settings), patience_s=1.0)


async def test_one_broker_of_those_named_is_enough(doors: Doors) -> None:
    dead = f"127.0.0.1:{free_ports(1)[0]}"

    assert await reach(LogAccess(f"{dead},{doors.signed.bootstrap}")) == 1


async def test_topics_are_created_once_by_several_processes_at_once_and_as_configured(doors: Doors) -> None:
    group = f"group-{uuid4()}"
    access = LogAccess(doors.clear.bootstrap)
    await asyncio.gather(*(ensure_topics(access, group, TABLES) for _ in range(4)))
    await ensure_topics(access, group, TABLES)

    names = [str(spec.topic) for spec in TOPICS] + [changelog_of(group, "verifications")]
    described, configs = await described_topics(access, names)
    assert {name: len(parts) for name, parts in described.items()} == {
        **{str(spec.topic): spec.partitions for spec in TOPICS},
        changelog_of(group, "verifications"): 8,
    }
    assert {config["min.insync.replicas"] for config in configs.values()} == {"1"}
    assert configs[changelog_of(group, "verifications")]["cleanup.policy"] in {
        "compact,delete",
        "delete,compact",
    }


async def described_topics(
    access: LogAccess, names: list[str]
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Partitions and configurations of topics."""
    admin = AIOKafkaAdminClient(**access.client())
    await admin.start()
    try:
        topics = {t["topic"]: t["partitions"] for t in await admin.describe_topics(names)}
        wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        answers = await admin.describe_configs(wanted)
    finally:
        await admin.close()
    configs = {
        resource[BROKER_KIND - 1]: {entry[0]: entry[1] for entry in resource[BROKER_KIND]}
        for answer in answers
        for resource in answer.resources
    }
    return topics, configs


async def test_a_start_is_refused_with_fewer_brokers_than_copies(tmp_path: Path) -> None:
    async with KafkaServer(tmp_path) as kafka:
        access = LogAccess(kafka.bootstrap, replication_factor=3, min_insync_replicas=2)

        with pytest.raises(CannotStart, match=r"wanted: 3, brokers alive: 1.*KAFKA_REPLICATION_FACTOR"):
            await prepare_topics(access, patience_s=1.0)


async def test_a_topic_with_fewer_copies_than_configured_is_refused(doors: Doors) -> None:
    await prepare_topics(LogAccess(doors.clear.bootstrap))

    with pytest.raises(CannotStart, match="is kept 1 times, not 2"):
        await prepare_topics(LogAccess(doors.clear.bootstrap, replication_factor=2))


async def test_a_topic_with_too_few_partitions_is_refused_with_the_mend(doors: Doors) -> None:
    group = f"group-{uuid4()}"
    await create_topic(doors.signed.bootstrap, changelog_of(group, "verifications"), 3)

    with pytest.raises(TopicUnfit, match=r"has 3 partitions and needs 8.*kafka-topics.sh --alter"):
        await ensure_topics(LogAccess(doors.signed.bootstrap), group, TABLES)


async def test_readyz_names_why_the_broker_is_down(tmp_path: Path) -> None:
    async with KafkaServer(tmp_path / "kafka") as kafka:
        given = {"SERVICE_KAFKA_BOOTSTRAP": kafka.bootstrap}
        async with running_service(tmp_path / "data", given, preloaded=True) as service:
            await kafka.kill()
            async with asyncio.timeout(START_S):
                while await cause(service) != f"nothing listens at {kafka.bootstrap}":  # noqa: ASYNC110
                    await asyncio.sleep(0.2)


async def cause(service: Service) -> str | None:
    """Return why `/readyz` says that the broker is down."""
    health = await readiness(service.client, service.url, 503)
    return str(health["dependencies"]["broker"]["cause"])


async def test_reaching_a_paused_broker_ends(doors: Doors) -> None:
    doors.mutual.pause()
    try:
        with pytest.raises(Unreachable, match=r"did not answer|broke the connection off"):
            await reach(LogAccess(doors.mutual.bootstrap), timeout_s=0.3)
    finally:
        doors.mutual.resume()
