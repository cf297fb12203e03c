"""A process that does not end when a test asks it to: the failure shows why, and nothing is left running."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.chaos.fleet import Embedded, end_all
from tests.journeys import service
from tests.journeys.service import Role, start_preloaded


async def wait_for_nothing() -> None:
    """Never end."""
    sys.stdout.write("deaf is ready: to SIGTERM\n")
    await asyncio.Event().wait()


def be_deaf(_: Sequence[str]) -> None:
    """Be a process that SIGTERM does not end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    asyncio.run(wait_for_nothing())


@pytest.fixture
async def deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Role]]:
    """Two such processes, for which nobody waits long."""
    roles = [await start_preloaded(tmp_path, "deaf", run=be_deaf) for _ in range(2)]
    monkeypatch.setattr(service, "START_S", 0.1)
    yield roles
    for role in roles:
        await role.kill()


async def test_a_process_that_does_not_end_shows_its_tasks_and_threads_and_is_killed(
    deaf: list[Role],
) -> None:
    with pytest.raises(AssertionError, match="has not ended") as failure:
        await deaf[0].stop()

    assert "in wait_for_nothing" in str(failure.value)
    assert "Fatal Python error: Aborted" in str(failure.value)
    assert deaf[0].process.returncode is not None


async def test_a_fleet_that_does_not_end_says_so_of_each_process(tmp_path: Path, deaf: list[Role]) -> None:
    with pytest.raises(BaseExceptionGroup) as failure:
        await end_all(deaf, Embedded(tmp_path))

    assert len(failure.value.exceptions) == 2
    assert all(role.process.returncode is not None for role in deaf)


STARTS_ONE = """
import asyncio, os, signal, sys
from pathlib import Path
from tests import prefork

async def main():
    prefork.PRELOADED = ()
    started = await prefork.fork(signal.sigwait, (), os.environ, Path(sys.argv[1]), vision=False)
    print(started.pid, flush=True)
    await started.wait()

asyncio.run(main())
"""


async def test_a_preloaded_process_ends_with_the_tests_that_started_it(tmp_path: Path) -> None:
    program = (sys.executable, "-c", STARTS_ONE, str(tmp_path / "log"))
    tests = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    assert tests.stdout is not None
    started = os.pidfd_open(int(await tests.stdout.readline()))
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(started, ended.set)

    tests.kill()

    async with asyncio.timeout(60):
        await ended.wait()
    asyncio.get_running_loop().remove_reader(started)
    os.close(started)
    assert await tests.stdout.read() == b""  # its fork server has ended, too
    await tests.wait()
