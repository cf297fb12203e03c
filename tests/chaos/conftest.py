"""The engines of the fault tests: the embedded ones for all, real ones for those that say more there."""

import os
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.chaos import tally
from tests.chaos.engines_profile import Engines
from tests.chaos.fleet import Embedded, Profile
from tests.chaos.sizes import is_scaled
from tests.engines.cassandra_server import CassandraServer

EMBEDDED: Final = "embedded"
ENGINES: Final = "engines"

SCALED_S: Final = 7_200

MARKS: Final = (
    "on_engines: runs on Kafka and Cassandra too; without it only with CHAOS_PROFILES=all",
    "kills_store: needs a Cassandra that has all its tables after a kill",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a fault test on the profiles that were asked for: `CHAOS_PROFILES`, see `sizes.py`."""
    if "profile" not in metafunc.fixturenames:
        return
    asked = os.environ.get("CHAOS_PROFILES", "")
    marked = metafunc.definition.get_closest_marker("on_engines") is not None
    chosen: list[object] = []
    if asked in {"", "all", EMBEDDED}:
        chosen.append(EMBEDDED)
    if asked in {"all", ENGINES} or (not asked and marked):
        chosen.append(pytest.param(ENGINES, marks=pytest.mark.engines))
    metafunc.parametrize("profile", chosen, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give runs that were scaled the time they need."""
    if not is_scaled():
        return
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(SCALED_S), append=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what the runs came to when this is one of several processes of a test run."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["fault_runs"] = [asdict(run) for run in tally.RUNS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of the test run came to."""
    tally.RUNS.extend(tally.Run(**run) for run in getattr(node, "workeroutput", {}).get("fault_runs", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the fault runs came to."""
    if tally.RUNS:
        terminalreporter.section("fault runs")
        for line in tally.lines():
            terminalreporter.line(line)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lasting_cassandra(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CassandraServer]:
    """A Cassandra that may be killed; it makes its tables slowly, so only those ask who kill it."""
    async with CassandraServer(tmp_path_factory.mktemp("lasting")) as server:
        yield server


@pytest.fixture
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Profile:
    """The engines a test runs on, in a folder of its own."""
    if request.param == ENGINES:
        killed = request.node.get_closest_marker("kills_store") is not None
        return Engines(tmp_path, request.getfixturevalue("lasting_cassandra" if killed else "cassandra"))
    return Embedded(tmp_path)


@pytest.fixture
def engines(tmp_path: Path, cassandra: CassandraServer) -> Engines:
    """Real engines, for what only they can suffer."""
    return Engines(tmp_path, cassandra)
