"""ezrules as the peer of `tests.bench.transactions`: its own service and its own load runner.

It needs an interpreter (3.12 or newer) of its own with `pip install ezrules httpx`, and a PostgreSQL and a
Redis that run already; the published package has no migrations, so its tables are made from its models.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from aiohttp import ClientError, ClientSession

from tests.bench.fifty_rules import FEATURES, WINDOWS, bench_rules, ezrules_logic
from tests.engines.jvm import free_ports
from tests.journeys.service import START_S
from tests.tied import tied

SETUP: Final = """
import hashlib, json, os, sys, uuid
from sqlalchemy import create_engine, text
base, _, name = os.environ["EZRULES_DB_ENDPOINT"].rpartition("/")
with create_engine(base + "/postgres", isolation_level="AUTOCOMMIT").connect() as server:
    server.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
    server.execute(text(f"CREATE DATABASE {name}"))
from ezrules import cli
from ezrules.models.backend_core import ApiKey, FeatureDefinition
given = json.load(sys.stdin)
_, engine, session = cli._create_cli_session()
cli.Base.metadata.create_all(engine)
organisation, _ = cli._bootstrap_organisation(session, org_name="bench")
own = organisation.o_id
digest = hashlib.sha256(given["key"].encode()).hexdigest()
session.add(ApiKey(gid=str(uuid.uuid4()), key_hash=digest, label="bench", o_id=own))
for feature in given["features"]:
    session.add(FeatureDefinition(o_id=own, status="active", **feature))
for number, logic in enumerate(given["rules"]):
    session.add(cli.RuleModel(rid=f"bench_{number}", logic=logic, description="bench", o_id=own))
session.commit()
manager = cli.RuleManagerFactory.get_rule_manager("RDBRuleManager", db=session, o_id=own)
cli.RDBRuleEngineConfigProducer(db=session, o_id=own).save_config(manager, changed_by="bench")
"""

LOAD: Final = """
import dataclasses, json, sys
from pathlib import Path
from ezrules.performance.matrix import MatrixRow, OrganisationTarget, Scenario, Thresholds, WorkloadStep
from ezrules.performance.runner import resolve_organisations, run_row
url, rate, seconds = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
step = WorkloadStep(name="bench", target_rps=rate, duration_seconds=seconds, concurrency=64, warmup_seconds=2)
organisation = OrganisationTarget(name="bench", api_key_env="EZRULES_BENCH_KEY")
scenario = Scenario(
    "bench", "", url, (organisation,), (50,), ("all_matches",), ("low_risk",), ("simple",), (step,),
    Thresholds(), Path("."),
)
row = MatrixRow("bench", 50, "all_matches", "low_risk", "simple", step)
found = run_row(scenario=scenario, row=row, organisations=resolve_organisations((organisation,)))
json.dump(dataclasses.asdict(found), sys.stdout)
"""
KEY: Final = "ezrk_bench_0123456789abcdef"
WORKERS: Final = 2
"""One for each core."""


@dataclass(frozen=True, slots=True)
class EzRules:
    """A running ezrules with the rules of the bench."""

    python: Path
    url: str
    given: Mapping[str, str]
    pid: int

    async def load(self, rate: float, seconds: int) -> dict[str, Any]:
        """Return what its own load runner says of a rate."""
        found: dict[str, Any] = json.loads(
            await _run(self.python, LOAD, self.given, self.url, str(rate), str(seconds))
        )
        return found

    def spent_s(self) -> float:
        """Return the processor seconds of its service; PostgreSQL and Redis are not counted."""
        find: Any = psutil.Process  # untyped
        own = find(self.pid)
        return float(sum(sum(one.cpu_times()[:2]) for one in (own, *own.children(recursive=True))))


@asynccontextmanager
async def running_ezrules(python: Path, database: str, redis: str, log: Path) -> AsyncIterator[EzRules]:
    """Make its database anew, and run its service."""
    given = os.environ | {
        "EZRULES_DB_ENDPOINT": database,
        "EZRULES_APP_SECRET": "bench",
        "EZRULES_CELERY_BROKER_URL": redis,
        "EZRULES_OBSERVATION_QUEUE_REDIS_URL": redis,
        "EZRULES_SHADOW_EVALUATION_QUEUE_REDIS_URL": redis,
        "EZRULES_BENCH_KEY": KEY,
    }
    await _run(python, SETUP, given | {"EZRULES_TESTING": "true"}, said=json.dumps(_furniture()))
    port = free_ports(1)[0]
    with log.open("wb") as sink:
        server = await asyncio.create_subprocess_exec(
            *tied(), python, "-m", "uvicorn", "ezrules.backend.api_v2.main:app", "--host", "127.0.0.1",
            "--port", str(port), "--workers", str(WORKERS), "--no-access-log",
            "--timeout-worker-healthcheck", "60",
            env=given, stdout=sink, stderr=sink,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        await _until_ready(url)
        yield EzRules(python, url, given, server.pid)
    finally:
        server.terminate()
        await server.wait()


def _furniture() -> dict[str, Any]:
    features: list[dict[str, Any]] = [
        {
            "name": feature.name,
            "entity": "customer",
            "feature_name": feature.name,
            "feature_kind": "aggregate",
            "entity_key": "customer_id",
            "aggregation_type": feature.metric.lower(),
            "source_field": "amount" if feature.metric == "SUM" else None,
            "window_seconds": WINDOWS[feature.window],
            "filters": [],
        }
        for feature in FEATURES
    ]
    return {"key": KEY, "features": features, "rules": [ezrules_logic(rule) for rule in bench_rules()]}


async def _until_ready(url: str) -> None:
    async with ClientSession() as client, asyncio.timeout(START_S):
        while True:
            try:
                async with client.get(f"{url}/ping") as answer:
                    if answer.status == 200:
                        return
            except ClientError:
                pass
            await asyncio.sleep(0.3)


async def _run(python: Path, program: str, given: Mapping[str, str], *words: str, said: str = "") -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        python, "-c", program, *words, stdin=pipe, stdout=pipe, stderr=pipe, env=given
    )
    out, err = await process.communicate(said.encode())
    if process.returncode:
        raise RuntimeError(err.decode()[-3_000:])
    return out.decode()
