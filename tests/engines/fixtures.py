"""One Kafka and one Cassandra for a whole test run, and a loud word when there is no Java to run them.

A pytest plugin. A test that asks for `kafka` or `cassandra`, or is marked `engines`, needs Java 17 and Maven.
Without them it is left out, and the end of the run says so in capitals; with them, jars that do not come
are an error.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.engines.cassandra_server import CassandraServer
from tests.engines.java import FIX, find_java, find_maven
from tests.engines.kafka_server import KafkaServer
from tests.engines.maven import CASSANDRA_JARS, KAFKA_JARS

ENGINES: Final = {"kafka", "cassandra"}
LEFT_OUT: Final = pytest.StashKey[list[str]]()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaServer]:
    """The run's Kafka; who asks uses topics and groups of its own and never stops it."""
    async with KafkaServer(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cassandra(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CassandraServer]:
    """The run's Cassandra; who asks uses a keyspace of its own and never stops it."""
    async with CassandraServer(tmp_path_factory.mktemp("cassandra"), lasting=False) as server:
        yield server


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", f"engines: needs Kafka or Cassandra, and so Java ({FIX})")
    config.stash[LEFT_OUT] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here, and remember it."""
    needing = [item for item in items if needs_engines(item)]
    if not needing or can_run():
        return
    config.stash[LEFT_OUT] = [item.nodeid for item in needing]
    config.hook.pytest_deselected(items=needing)
    items[:] = [item for item in items if item not in needing]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what was left out when this is one of several processes of a run."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of the run left out; each of them leaves out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out, so that nobody takes silence for success."""
    left_out = config.stash[LEFT_OUT]
    if not left_out:
        return
    terminalreporter.section("KAFKA AND CASSANDRA WERE NOT TESTED", sep="!", red=True, bold=True)
    result = (
        f"{len(left_out)} TESTS WERE NOT RUN, FOR THERE IS NO JAVA 17 OR NO MAVEN HERE. FIX: {FIX.upper()}."
    )
    terminalreporter.line(result, red=True, bold=True)
    for name in sorted({nodeid.partition("::")[0] for nodeid in left_out}):
        terminalreporter.line(f"  {sum(n.startswith(name + '::') for n in left_out):4} in {name}")


def needs_engines(item: pytest.Item) -> bool:
    """Whether a test asks for a real engine."""
    return item.get_closest_marker("engines") is not None or bool(
        ENGINES & set(getattr(item, "fixturenames", ()))
    )


def can_run() -> bool:
    """Whether engines can be started here: Java, and Maven or the jars it once brought."""
    at_hand = all(jars.folder.is_dir() for jars in (KAFKA_JARS, CASSANDRA_JARS))
    return find_java() is not None and (find_maven() is not None or at_hand)
