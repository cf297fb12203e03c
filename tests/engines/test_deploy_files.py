"""What docker-compose.yml hands to the engines works on the engines themselves, on other ports."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from cassandra import Unauthorized
from cassandra.cluster import NoHostAvailable

from deploy.cassandra_roles import FIRST_ROLE, Deployment, RolesNotMade, make_roles
from tests.engines.cassandra_server import CassandraServer
from tests.engines.deployed import DeployedCassandra, DeployedKafka

OURS, CHANGED, ADMINISTRATORS = "it's ours", "changed", "root's"
KEYSPACE = "CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"

pytestmark = [pytest.mark.engines, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cassandra_of_compose(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CassandraServer]:
    """A new Cassandra that still has its first password."""
    async with DeployedCassandra(tmp_path_factory.mktemp("deployed")) as server:
        yield server


def wanted_of(server: CassandraServer, ours: str = OURS, administrators: str = ADMINISTRATORS) -> Deployment:
    """Roles with passwords that must be quoted."""
    return Deployment((server.host,), server.port, "veristream", ours, administrators)


async def run_as(server: CassandraServer, role: str, password: str, *statements: str) -> None:
    """Run statements under a role."""

    def run() -> None:
        with server.session(login=(role, password)) as session:
            for statement in statements:
                session.execute(statement)

    await asyncio.to_thread(run)


async def test_nobody_keeps_the_password_that_every_new_cassandra_has(
    cassandra_of_compose: CassandraServer,
) -> None:
    await asyncio.to_thread(make_roles, wanted_of(cassandra_of_compose))

    with pytest.raises(NoHostAvailable):
        await run_as(cassandra_of_compose, FIRST_ROLE, FIRST_ROLE)


async def test_the_service_rules_its_own_keyspace_and_no_other(cassandra_of_compose: CassandraServer) -> None:
    await asyncio.to_thread(make_roles, wanted_of(cassandra_of_compose))

    await run_as(
        cassandra_of_compose, "veristream", OURS,
        KEYSPACE, "CREATE TABLE kept.t (k int PRIMARY KEY)",
        "INSERT INTO kept.t (k) VALUES (1) IF NOT EXISTS", "SELECT * FROM kept.t", "DROP KEYSPACE kept",
    )  # fmt: skip
    with pytest.raises(Unauthorized):
        await run_as(cassandra_of_compose, "veristream", OURS, "SELECT * FROM system_auth.roles")
    with pytest.raises(Unauthorized):
        await run_as(cassandra_of_compose, "veristream", OURS, "CREATE ROLE another")


async def test_a_changed_secret_is_the_new_password(cassandra_of_compose: CassandraServer) -> None:
    await asyncio.to_thread(make_roles, wanted_of(cassandra_of_compose))
    await asyncio.to_thread(make_roles, wanted_of(cassandra_of_compose, ours=CHANGED))

    await run_as(cassandra_of_compose, "veristream", CHANGED)
    with pytest.raises(NoHostAvailable):
        await run_as(cassandra_of_compose, "veristream", OURS)


async def test_a_wrong_administrator_is_refused_with_the_mend(cassandra_of_compose: CassandraServer) -> None:
    await asyncio.to_thread(make_roles, wanted_of(cassandra_of_compose))

    with pytest.raises(RolesNotMade, match="CASSANDRA_ADMIN_PASSWORD_FILE"):
        await asyncio.to_thread(make_roles, wanted_of(cassandra_of_compose, administrators="another"), 0)


async def test_kafka_lets_in_who_logs_in_and_nobody_else(tmp_path: Path) -> None:
    async with DeployedKafka(tmp_path, {"admin": OURS}) as server:
        given = {
            "bootstrap_servers": server.locked_bootstrap, "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "admin",
        }  # fmt: skip
        known = AIOKafkaAdminClient(**given, sasl_plain_password=OURS)
        await known.start()
        try:
            made = await known.create_topics([NewTopic("kept", 2, 1)])
        finally:
            await known.close()
        outsider = AIOKafkaAdminClient(**given, sasl_plain_password=CHANGED)
        with pytest.raises(KafkaError):
            await outsider.start()
        await outsider.close()

    assert [code for _, code, *_ in made.topic_errors] == [0]
