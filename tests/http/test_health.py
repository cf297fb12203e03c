"""The process tells how it is, dependency by dependency."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from typing_extensions import override

from app.adapters.memory.stores import MemoryJournal, Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.adapters.sqlite import engine
from app.adapters.sqlite.stores import open_sqlite_stores
from app.observability.health_probes import CACHED_S, LATE, WRITE_EVERY_S, CachedProbe, StoreProbe, probes_of
from schemas.ids import TenantId
from streams.ports.audit import AuditLog
from streams.runtime.kafka_client_config import LogAccess
from tests.chaos.store_lock import nobody_writes
from tests.http.support import Front, build_body, open_front


async def up() -> str | None:
    """A dependency that works."""
    return None


async def down() -> str | None:
    """One that does not."""
    return "connection refused"


async def hangs() -> str | None:
    """One that never answers."""
    await asyncio.Event().wait()
    return None


class CountingJournal(MemoryJournal):
    """Counts what says nothing."""

    def __init__(self) -> None:
        super().__init__(Shelves())
        self.touched = 0

    @override
    async def touch(self) -> None:
        self.touched += 1


async def test_a_process_that_answers_lives(front: Front) -> None:
    response = await front.ask("GET", "/livez", None)

    assert (response.status, response.json) == (200, {"status": "live"})


async def test_it_is_ready_when_every_dependency_is_up() -> None:
    async with open_front(probes={"store": up, "broker": up}) as front:
        response = await front.ask("GET", "/readyz", None)

    assert response.status == 200
    assert response.json["dependencies"] == {"store": {"status": "up"}, "broker": {"status": "up"}}


class Lists:
    """The probe of a process that serves one list and cannot build another."""

    async def __call__(self) -> str | None:
        """Which one cannot be built."""
        return "cannot be read: un; load it again"

    def shown(self) -> dict[str, Any]:
        """What is served."""
        return {"lists": {"eu_fsf": {"version": "2026-11-20#0a1b2c3d", "age_s": 60}, "un": None}}


async def test_g134_it_names_each_list_with_version_and_age() -> None:
    async with open_front(probes={"store": up, "lists": Lists()}) as front:
        response = await front.ask("GET", "/readyz", None)

    assert response.status == 503
    assert response.json["dependencies"]["lists"] == {
        "status": "down",
        "cause": "cannot be read: un; load it again",
        "lists": {"eu_fsf": {"version": "2026-11-20#0a1b2c3d", "age_s": 60}, "un": None},
    }


@pytest.mark.parametrize(("probe", "cause"), [(down, "connection refused"), (hangs, LATE)])
async def test_it_is_not_ready_while_one_is_down_and_says_which(probe: object, cause: str) -> None:
    probes = {"store": up, "broker": probe}
    async with open_front(probes=probes, probe_timeout_s=0.05) as front:  # type: ignore[arg-type]  # both are probes
        response = await front.ask("GET", "/readyz", None)
        live = await front.ask("GET", "/livez", None)

    assert (response.status, live.status) == (503, 200)
    assert response.json["dependencies"] == {
        "store": {"status": "up"},
        "broker": {"status": "down", "cause": cause},
    }
    assert response.headers["Retry-After"]


async def test_a_store_that_can_be_read_and_not_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 20)
    async with open_sqlite_stores(tmp_path, RootKey(bytes(32))) as stores:
        probe = StoreProbe(stores)
        async with nobody_writes(tmp_path):
            result = await probe()

        assert (result, await probe()) == ("database is locked", None)


async def test_a_store_that_works_is_written_once_in_a_while_however_often_it_is_asked() -> None:
    moments = [0.0, 1.0, WRITE_EVERY_S - 0.1, WRITE_EVERY_S, WRITE_EVERY_S + 1.0]
    stores = open_memory_stores(RootKey(bytes(32)), Shelves())
    counting = CountingJournal()
    probe = StoreProbe(replace(stores, journal=counting), lambda: moments[0])
    written = []
    while moments:
        await asyncio.gather(probe(), probe())
        written.append(counting.touched)
        moments.pop(0)

    assert written == [1, 1, 1, 2, 2]


class Dependency:
    """A dependency that counts how often it is asked, and answers what a test says."""

    def __init__(self) -> None:
        self.asked = 0
        self.cause: str | None = None
        self.answering = asyncio.Event()
        self.answering.set()

    async def __call__(self) -> str | None:
        """Answer once it may."""
        self.asked += 1
        await self.answering.wait()
        return self.cause


async def test_an_answer_of_a_dependency_is_repeated_for_a_second_and_no_longer() -> None:
    moments = [0.0]
    dependency = Dependency()
    probe = CachedProbe(dependency, lambda: moments[0])
    well = await probe()
    dependency.cause = "connection refused"
    moments[0] = CACHED_S - 0.1
    repeated = await probe()
    moments[0] = CACHED_S
    renewed = await probe()

    assert (well, repeated, renewed) == (None, None, "connection refused")
    assert dependency.asked == 2


async def test_callers_at_once_wait_for_the_same_answer_of_a_dependency() -> None:
    dependency = Dependency()
    dependency.answering.clear()
    probe = CachedProbe(dependency)
    asking = [asyncio.ensure_future(probe()) for _ in range(50)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    dependency.cause = "connection refused"
    dependency.answering.set()
    answers = await asyncio.gather(*asking[1:])

    assert (set(answers), dependency.asked) == ({"connection refused"}, 1)


async def test_a_dependency_that_did_not_answer_in_time_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.observability.health_probes.PROBE_S", 0.05)
    moments = [0.0]
    dependency = Dependency()
    dependency.answering.clear()
    probe = CachedProbe(dependency, lambda: moments[0])
    late = await probe()
    dependency.answering.set()
    moments[0] = CACHED_S

    assert (late, await probe(), dependency.asked) == (LATE, None, 2)


class CountedReads:
    """Stands before an audit log and counts the probe's reads."""

    def __init__(self, audit_log: AuditLog) -> None:
        self._audit_log = audit_log
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._audit_log, name)

    async def unsealed_tenants(self) -> Sequence[TenantId]:
        """Count, and read."""
        self.reads += 1
        return await self._audit_log.unsealed_tenants()


async def test_many_requests_for_readiness_read_the_store_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.observability.health_probes.CACHED_S", 3_600.0)
    stores = open_memory_stores(RootKey(bytes(32)), Shelves())
    counted = CountedReads(stores.audit_log)
    probes = probes_of(replace(stores, audit_log=counted), LogAccess("127.0.0.1:1"), None)
    async with open_front(probes={"store": probes["store"]}) as front:
        responses = await asyncio.gather(*(front.ask("GET", "/readyz", None) for _ in range(20)))

    assert {one.status for one in responses} == {200}
    assert counted.reads == 1


async def test_metrics_count_by_route_and_never_by_tenant_or_subject(front: Front) -> None:
    submitted = await front.submit(build_body("sim:approved@canary"))
    await front.ask("GET", f"/v1/verifications/{submitted.json['verification_id']}")
    await front.ask("GET", "/nowhere/canary")
    output = generate_latest(front.ports.registry).decode()

    assert (
        'veristream_http_requests_total{method="POST",route="/v1/verifications",status="201"} 1.0' in output
    )
    assert 'route="/v1/verifications/{verification_id}"' in output
    assert 'route="(none)"' in output
    assert "canary" not in output
    assert submitted.json["verification_id"] not in output
    assert "ten_" not in output


async def test_nothing_is_in_flight_when_all_is_answered(front: Front) -> None:
    await front.submit()
    await front.submit(build_body(""))

    assert front.ports.registry.get_sample_value("veristream_http_in_flight") == 0
