"""Backup and erasure over a real Kafka and a real Cassandra: what their own files hold."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from app.adapters.cassandra.schema import TABLES
from tests.engines.cassandra_tools import NodeTool
from tests.engines.deployment import Deployment, open_deployment
from tests.engines.engine_backup import KEYSPACE, restored, take
from tests.engines.kafka_tools import KafkaTools
from tests.journeys.erasing import CANARIES, SUBJECT, erased, send_canaries
from tests.journeys.people import sign_in
from tests.journeys.service import run_preloaded, small_request

pytestmark = [pytest.mark.engines, pytest.mark.asyncio(loop_scope="session")]

MADE: Final = f"SELECT made FROM subject_keys WHERE subject_id = '{SUBJECT}' ALLOW FILTERING"  # noqa: S608


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def deployment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A deployment whose tables are not compressed, so that what they hold is found in their files."""
    async with open_deployment(tmp_path_factory.mktemp("upkeep"), managed=True) as opened:
        await ask(
            opened, *(f"ALTER TABLE {table} WITH compression = {{'enabled': false}}" for table in TABLES)
        )
        yield opened


async def ask(deployment: Deployment, *statements: str) -> list[Any]:
    """Run statements in the keyspace; returns the rows of the last."""

    def run() -> list[Any]:
        with deployment.cassandra.session(KEYSPACE) as session:
            return [list(session.execute(one, timeout=60)) for one in statements][-1]

    return await asyncio.to_thread(run)


async def decide(deployment: Deployment, subject: str) -> tuple[int, dict[str, Any]]:
    """Post a sandbox verification; the subject is its Idempotency-Key as well."""
    service = deployment.service
    status, answer, _ = await service.post(small_request(subject), key=service.test_key, idempotency=subject)
    return status, answer


async def read(deployment: Deployment, decided: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Read a verification."""
    service = deployment.service
    return await service.get(f"/v1/verifications/{decided['verification_id']}", key=service.test_key)


async def invariants(deployment: Deployment) -> tuple[list[Any], list[Any]]:
    """What `doctor --invariants` looked at, and what it found."""
    arguments = ("doctor", "--invariants", "--due-after", "0", "--json")
    _, out, _ = await run_preloaded(deployment.folder / "operator", *arguments, given=deployment.given)
    report = json.loads(out)
    return report["looks"], report["violations"]


async def offsets(deployment: Deployment, folder: Path) -> tuple[set[str], set[str]]:
    """Where every topic ends, and what every group has consumed."""
    tools = await asyncio.to_thread(KafkaTools.at, deployment.kafka.bootstrap, folder)
    ends = await tools("offsets")
    groups = await tools("groups", "--describe", "--all-groups")
    return set(ends.splitlines()), {line for line in groups.splitlines() if "idv." in line}


async def test_a_backup_by_the_engines_own_tools_is_restored_beside_the_service(
    deployment: Deployment, tmp_path: Path
) -> None:
    """All that was acknowledged before it is there; nothing is consumed or sent until the roles start."""
    before = [await decide(deployment, f"sim:{name}@before") for name in ("approved", "warn", "review")]
    await deployment.stop_roles()
    await take(deployment, tmp_path / "backup")
    await deployment.start_roles()
    _, later = await decide(deployment, "sim:approved@later")

    async with restored(deployment, tmp_path / "backup", tmp_path / "restored") as copy:
        first = await offsets(copy, tmp_path / "first")
        status, chains = await copy.verify_audit()
        looks, violations = await invariants(copy)
        second = await offsets(copy, tmp_path / "second")
        await copy.start_roles()
        try:
            found = [await read(copy, answer) for _, answer in before]
            again = [await decide(copy, answer["subject_id"]) for _, answer in before]
            missing, _ = await read(copy, later)
            new, _ = await decide(copy, "sim:approved@restored")
        finally:
            await copy.aclose()

    assert [status for status, _ in before] == [201] * 3
    assert (status, chains[copy.service.tenant_id]["ok"], violations) == (0, True, [])
    assert sum(look["looked_at"] for look in looks) > 0
    assert first == second
    assert found == again == [(200, answer) for _, answer in before]
    assert (missing, new) == (404, 201)
    assert (await read(deployment, later))[0] == 200


def holders(folder: Path, sought: bytes) -> list[str]:
    """The files that hold the bytes."""
    found = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # Cassandra removes files that it compacted
            if path.is_file() and sought in path.read_bytes():
                found.append(str(path.relative_to(folder)))
    return found


async def test_an_erased_subject_leaves_nothing_readable_in_the_engines(deployment: Deployment) -> None:
    """In no log or table, before they are compacted and after; then its wrapped key is gone as well."""
    service = deployment.service
    decided = await send_canaries(service)
    (((wrapped,),),) = await ask(deployment, MADE)
    node = await asyncio.to_thread(NodeTool.at, deployment.cassandra)
    await node("flush")
    before = holders(deployment.folder, wrapped)
    owner = await sign_in(service.client, service.url, deployment.command, service.tenant_id)
    _, proof = await erased(owner)
    raw = {canary: holders(deployment.folder, canary) for canary in CANARIES}

    await node("flush")
    await node("compact")
    await deployment.stop_roles()
    await node("drain")
    await deployment.cassandra.stop()
    compacted = {canary: holders(deployment.folder, canary) for canary in CANARIES}
    left = holders(deployment.folder, wrapped)
    await deployment.cassandra.start()
    await deployment.start_roles()

    assert proof["status"] == "EXECUTED"
    assert raw == compacted == {canary: [] for canary in CANARIES}
    assert any("subject_keys" in name for name in before)
    assert left == []
    for seen, part in ((SUBJECT, "cassandra/kept/data"), (decided["verification_id"], "kafka/kept/idv.")):
        assert any(part in name for name in holders(deployment.folder, seen.encode())), part
