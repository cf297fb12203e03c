"""Opening Cassandra: keyspaces that are new, old or newer, wrong keys, wrong folders, wrong credentials."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.deployment_check import MARKER
from app.adapters.cassandra.journal import CassandraJournal
from app.adapters.cassandra.keyspace import KEYSPACE_FORM, Migrated, keep_setting, migrate
from app.adapters.cassandra.schema import NEWEST, TABLES, settings_table
from app.adapters.cassandra.session import Statement
from app.adapters.cassandra.stores import open_cassandra_stores
from app.adapters.security.at_rest import SealingJournal
from app.adapters.security.crypto import RootKey, RootKeyRefused
from app.adapters.shared.opening import SchemaRefused, StoreRefused
from app.cli.migrate import migrate_store
from app.composition.cassandra import address_of
from app.composition.stores import open_deployment
from app.doctor.checks import check_cassandra
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.problems import StoreUnavailable
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import DATACENTER
from tests.engines.cassandra_server import CassandraServer
from tests.engines.certificates import Authority
from tests.journeys.service import begin_deployment

pytestmark = pytest.mark.engines

COPIES = {DATACENTER: 1}


def address_of_server(server: CassandraServer, local_dc: str = DATACENTER) -> Address:
    """Where the run's Cassandra is."""
    return Address([(server.host, server.port)], local_dc, server.port)


@pytest.fixture
async def keyspace(cassandra: CassandraServer) -> AsyncIterator[str]:
    """A name nobody used yet; what gets it is dropped afterwards."""
    name = f"opening_{secrets.token_hex(4)}"
    yield name
    async with open_session(address_of_server(cassandra), None) as session:
        await session.define(f"DROP KEYSPACE IF EXISTS {name}")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def first_migration(cassandra: CassandraServer) -> Migrated:
    """What the first migration of a keyspace did."""
    return await migrate(address_of_server(cassandra), "opening", COPIES)


@pytest.fixture
async def migrated(cassandra: CassandraServer, first_migration: Migrated) -> str:
    """A keyspace with its tables, which no process opened yet."""
    async with open_session(address_of_server(cassandra), first_migration.keyspace) as session:
        forget = Statement("DELETE FROM settings WHERE name = ? IF EXISTS")
        for name in ("key_check", "store_id"):
            await session.execute(forget, (name,))
    return first_migration.keyspace


async def open_and_close(
    cassandra: CassandraServer, keyspace: str, folder: Path, key: RootKey = ROOT_KEY
) -> None:
    """Open the stores as a process does."""
    async with open_cassandra_stores(address_of_server(cassandra), keyspace, folder, key) as stores:
        await stores.audit_log.unsealed_tenants()


async def test_a_migration_makes_every_table(cassandra: CassandraServer, first_migration: Migrated) -> None:
    made = Statement("SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?")
    async with open_session(address_of_server(cassandra), None) as session:
        rows = await session.execute(made, (first_migration.keyspace,))

    assert (first_migration.before, first_migration.after) == (0, NEWEST)
    assert {name for (name,) in rows} == set(TABLES)


async def test_a_migration_may_be_run_again(cassandra: CassandraServer, first_migration: Migrated) -> None:
    again = await migrate(address_of_server(cassandra), first_migration.keyspace, COPIES)

    assert (again.before, again.after) == (NEWEST, NEWEST)


async def test_two_migrations_at_once_end_well(cassandra: CassandraServer, keyspace: str) -> None:
    address = address_of_server(cassandra)

    done = await asyncio.gather(*(migrate(address, keyspace, COPIES) for _ in range(2)))

    assert {one.after for one in done} == {NEWEST}


async def test_a_newer_schema_is_refused_by_start_and_migration(
    cassandra: CassandraServer, keyspace: str, tmp_path: Path
) -> None:
    await make_keyspace(cassandra, keyspace)
    async with open_session(address_of_server(cassandra), keyspace) as session:
        await session.define(settings_table(keyspace))
        await keep_setting(session, "schema_version", b"99")

    with pytest.raises(SchemaRefused, match="upgrade"):
        await open_and_close(cassandra, keyspace, tmp_path)
    with pytest.raises(SchemaRefused, match="upgrade"):
        await migrate(address_of_server(cassandra), keyspace, COPIES)


async def make_keyspace(cassandra: CassandraServer, keyspace: str) -> None:
    """Make it without tables."""
    async with open_session(address_of_server(cassandra), None) as session:
        copies = f"{{'class': 'NetworkTopologyStrategy', '{DATACENTER}': 1}}"
        await session.define(f"CREATE KEYSPACE {keyspace} WITH replication = {copies}")


async def test_a_keyspace_that_is_missing_is_refused_with_the_mend(
    cassandra: CassandraServer, tmp_path: Path
) -> None:
    with pytest.raises(StoreRefused, match="veristream migrate"):
        await open_and_close(cassandra, "nowhere", tmp_path)


async def test_a_keyspace_without_tables_is_refused_with_the_mend(
    cassandra: CassandraServer, keyspace: str, tmp_path: Path
) -> None:
    await make_keyspace(cassandra, keyspace)

    with pytest.raises(SchemaRefused, match="veristream migrate"):
        await open_and_close(cassandra, keyspace, tmp_path)


async def test_another_root_key_is_refused(cassandra: CassandraServer, migrated: str, tmp_path: Path) -> None:
    await open_and_close(cassandra, migrated, tmp_path)

    with pytest.raises(RootKeyRefused):
        await open_and_close(cassandra, migrated, tmp_path, RootKey(bytes(32)))


async def test_another_evidence_folder_is_refused_until_it_says_whose_it_is(
    cassandra: CassandraServer, migrated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.adapters.cassandra.deployment_check.APPEARS_S", 0.0)
    await open_and_close(cassandra, migrated, tmp_path / "first")
    with pytest.raises(StoreRefused, match="mount the same evidence folder in every process"):
        await open_and_close(cassandra, migrated, tmp_path / "second")
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / MARKER).write_text((tmp_path / "first" / MARKER).read_text())

    await open_and_close(cassandra, migrated, tmp_path / "second")


async def test_the_evidence_folder_of_another_store_is_refused(
    cassandra: CassandraServer, migrated: str, tmp_path: Path
) -> None:
    (tmp_path / MARKER).write_text("another\n")

    with pytest.raises(StoreRefused, match="another store"):
        await open_and_close(cassandra, migrated, tmp_path)


async def test_processes_that_start_a_new_store_at_once_agree_on_the_folder(
    cassandra: CassandraServer, migrated: str, tmp_path: Path
) -> None:
    await asyncio.gather(*(open_and_close(cassandra, migrated, tmp_path) for _ in range(4)))

    await open_and_close(cassandra, migrated, tmp_path)


async def test_the_doctor_says_what_it_sees_of_a_migrated_keyspace(
    cassandra: CassandraServer, first_migration: Migrated
) -> None:
    (finding,) = await check_cassandra(chosen(cassandra, first_migration.keyspace))

    assert finding.ok
    assert f"1 of 1 nodes up, schema {NEWEST}, copies: 1" in finding.found


async def test_the_doctor_names_the_mend_of_a_keyspace_that_was_not_migrated(
    cassandra: CassandraServer, keyspace: str
) -> None:
    await make_keyspace(cassandra, keyspace)

    (finding,) = await check_cassandra(chosen(cassandra, keyspace))

    assert (finding.ok, finding.fix) == (False, "run: veristream migrate")


async def test_the_doctor_says_nothing_of_a_cassandra_nobody_configured() -> None:
    assert await check_cassandra(Settings()) == []


def chosen(cassandra: CassandraServer, keyspace: str) -> Settings:
    """The settings of the run's Cassandra."""
    return Settings.model_validate(
        {
            "cassandra_contact_points": cassandra.contact_point,
            "cassandra_port": cassandra.port,
            "cassandra_keyspace": keyspace,
        }
    )


async def test_migrating_by_the_settings_says_what_was_done(
    cassandra: CassandraServer, first_migration: Migrated
) -> None:
    done = await migrate_store(chosen(cassandra, first_migration.keyspace))

    assert (done["keyspace"], done["to"]) == (first_migration.keyspace, NEWEST)


async def test_a_data_folder_is_migrated_where_a_start_has_made_one_and_nowhere_else(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="this command makes none"):
        await migrate_store(Settings(data_dir=tmp_path / "new"))
    assert not (tmp_path / "new").exists()

    begin_deployment(tmp_path)
    done = await migrate_store(Settings(data_dir=tmp_path))

    assert str(done["store"]).startswith("sqlite")


async def test_a_deployment_is_opened_over_the_configured_cassandra(
    cassandra: CassandraServer, migrated: str, tmp_path: Path
) -> None:
    settings = chosen(cassandra, migrated).model_copy(update={"data_dir": tmp_path})

    async with open_deployment(settings) as deployment:
        journal = deployment.stores.journal
        assert isinstance(journal, SealingJournal)
        assert isinstance(journal.inner, CassandraJournal)


async def test_a_deployment_whose_cassandra_is_away_cannot_start_and_says_where_it_was_looked_for(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    away = {"cassandra_contact_points": f"127.0.0.1:{unused_tcp_port}", "data_dir": tmp_path}

    with pytest.raises(CannotStart, match=f"{unused_tcp_port}.*SERVICE_CASSANDRA_CONTACT_POINTS"):
        async with open_deployment(Settings.model_validate(away)):
            pass


async def test_an_unknown_data_centre_is_refused_and_the_known_ones_named(
    cassandra: CassandraServer,
) -> None:
    with pytest.raises(StoreRefused, match=f"SERVICE_CASSANDRA_LOCAL_DC.*{DATACENTER}"):
        async with open_session(address_of_server(cassandra, "elsewhere"), None):
            pass


async def test_an_address_where_nobody_answers_is_named(unused_tcp_port: int) -> None:
    with pytest.raises(StoreUnavailable, match=str(unused_tcp_port)):
        async with open_session(Address([("127.0.0.1", unused_tcp_port)], DATACENTER, unused_tcp_port), None):
            pass


@pytest.mark.parametrize("name", ["Upper", "1st", "with-dash", "x; DROP KEYSPACE y", "", "a" * 49])
async def test_a_keyspace_has_a_plain_name(name: str) -> None:
    assert not KEYSPACE_FORM.fullmatch(name)
    with pytest.raises(StoreRefused, match="SERVICE_CASSANDRA_KEYSPACE"):
        await migrate(Address([("127.0.0.1", 1)], DATACENTER), name, COPIES)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of the locked Cassandra."""
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locked(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[CassandraServer]:
    """A Cassandra that speaks only TLS and asks for a password and a certificate."""
    folder = tmp_path_factory.mktemp("locked")
    identity = authority.sign("cassandra")
    async with CassandraServer(
        folder, login=("veristream", "s3cret-of-a-test"), identity=identity, clients=authority, lasting=False
    ) as server:
        yield server


def locked_settings(locked: CassandraServer, authority: Authority, **changes: object) -> Settings:
    """The settings that open it."""
    identity = authority.sign("client")
    given = {
        "cassandra_contact_points": locked.contact_point,
        "cassandra_port": locked.port,
        "cassandra_username": "veristream",
        "cassandra_password": "s3cret-of-a-test",
        "cassandra_tls": "on",
        "cassandra_tls_ca_file": authority.certificate,
        "cassandra_tls_cert_file": identity.certificate,
        "cassandra_tls_key_file": identity.key,
    }
    return Settings.model_validate(given | changes)


async def connect(settings: Settings) -> None:
    """Open a session as configured."""
    address = address_of(settings)
    assert address is not None
    async with open_session(address, None) as session:
        await session.execute(Statement("SELECT release_version FROM system.local"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, None),
        ({"cassandra_password": "wrong-and-secret"}, "SERVICE_CASSANDRA_PASSWORD"),
        ({"cassandra_username": None, "cassandra_password": None}, "SERVICE_CASSANDRA_PASSWORD"),
        (
            {
                "cassandra_tls": "off",
                "cassandra_tls_ca_file": None,
                "cassandra_tls_cert_file": None,
                "cassandra_tls_key_file": None,
            },
            "SERVICE_CASSANDRA_TLS",
        ),
        ({"cassandra_tls_ca_file": None}, "SERVICE_CASSANDRA_TLS"),
        ({"cassandra_tls_cert_file": None, "cassandra_tls_key_file": None}, "SERVICE_CASSANDRA_TLS"),
    ],
    ids=["all right", "wrong password", "no password", "no TLS", "unknown authority", "no certificate"],
)
async def test_a_locked_cassandra_opens_to_the_right_settings_and_names_the_wrong_one(
    locked: CassandraServer, authority: Authority, changes: dict[str, object], named: str | None
) -> None:
    settings = locked_settings(locked, authority, **changes)
    if named is None:
        await connect(settings)
        return
    with pytest.raises((StoreRefused, StoreUnavailable)) as refused:
        await connect(settings)
    assert named in str(refused.value)
    assert "secret" not in str(refused.value)


BODY_BYTES = 2_000_000
"""More than a socket takes or gives at once."""


@pytest.mark.parametrize("is_locked", [False, True], ids=["plain", "TLS"])
async def test_what_is_larger_than_a_socket_takes_arrives_whole(
    request: pytest.FixtureRequest, cassandra: CassandraServer, *, is_locked: bool
) -> None:
    address: Address | None = address_of_server(cassandra)
    if is_locked:
        locked, authority = request.getfixturevalue("locked"), request.getfixturevalue("authority")
        address = address_of(locked_settings(locked, authority))
    assert address is not None
    keyspace = f"large_{secrets.token_hex(4)}"
    bodies = {number: secrets.token_bytes(BODY_BYTES) for number in range(4)}
    write = Statement(f"INSERT INTO {keyspace}.bodies (id, body) VALUES (?, ?)")  # noqa: S608 - of the test
    read = Statement(f"SELECT id, body FROM {keyspace}.bodies WHERE id = ?")  # noqa: S608 - of the test

    async with open_session(address, None) as session:
        copies = f"{{'class': 'NetworkTopologyStrategy', '{DATACENTER}': 1}}"
        await session.define(f"CREATE KEYSPACE {keyspace} WITH replication = {copies}")
        await session.define(f"CREATE TABLE {keyspace}.bodies (id int PRIMARY KEY, body blob)")
        await asyncio.gather(*(session.execute(write, one) for one in bodies.items()))
        found = await asyncio.gather(*(session.execute(read, (number,)) for number in bodies))
        await session.define(f"DROP KEYSPACE {keyspace}")

    assert dict(row for rows in found for row in rows) == bodies


async def test_a_session_goes_on_when_its_connections_are_cut(cassandra: CassandraServer) -> None:
    one = Statement("SELECT release_version FROM system.local")
    async with open_session(address_of_server(cassandra), None) as session:
        await session.execute(one)
        for holder in session.cluster.get_connection_holders():
            for connection in holder.get_connections():
                connection._socket.shutdown(socket.SHUT_RDWR)

        async with asyncio.timeout(60):
            while True:
                try:
                    assert await session.execute(one)
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
