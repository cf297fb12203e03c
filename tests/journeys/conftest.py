"""One running service for all journeys of a session."""

from collections.abc import AsyncIterator, Generator

import pytest
import pytest_asyncio

from tests.journeys.service import METRICS, Service, last_lines, running_service


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service started with `veristream up` and one tenant."""
    receivers = {"SERVICE_WEBHOOKS_ALLOW_INSECURE": "true"}  # those of the tests are on this machine
    given = {**METRICS, **receivers}
    async with running_service(tmp_path_factory.mktemp("service"), given, preloaded=True) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the last lines of the service's log with a test that fails."""
    report = yield
    if report.failed:
        services = [given for given in item.funcargs.values() if isinstance(given, Service)]
        report.sections += [(of.role.log.name, last_lines(of.role.log)) for of in services]
    return report
