"""A service that is asked to stop while it starts ends by itself, and starts again as if nothing had been."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from app.adapters.files.data_dir import BROKER_FOLDER, ROOT_KEY_FILE
from tests.journeys.service import START_S, Role, environment, new_log, start_preloaded
from tests.prefork import fork, run_veristream


def run_signalled(sign: str, number: int, arguments: Sequence[str]) -> None:
    """Be `veristream <arguments>`, which signals itself when it first opens a file, long before it is ready.

    A test that looked for the file from outside might see it too late on a busy machine.
    """
    signalled = False

    def watch(event: str, given: tuple[object, ...]) -> None:
        nonlocal signalled
        if event in {"open", "sqlite3.connect"} and not signalled and str(given[0]).endswith(sign):
            signalled = True
            os.kill(os.getpid(), number)

    sys.addaudithook(watch)
    run_veristream(arguments)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("sign", [Path(ROOT_KEY_FILE), Path(BROKER_FOLDER) / "broker.sqlite"], ids=str)
async def test_a_start_that_is_asked_to_stop_ends_by_itself(
    tmp_path: Path, sign: Path, number: signal.Signals
) -> None:
    log = new_log(tmp_path, "up")
    run = partial(run_signalled, str(sign), number)
    arguments = ["up", "--port", "0", "--broker-port", "0", "--data-dir", str(tmp_path)]
    role = Role(await fork(run, arguments, environment(), log), log)
    try:
        async with asyncio.timeout(START_S):
            assert role.process.stdout is not None
            said = await role.process.stdout.read()
            status = await role.process.wait()
    finally:
        await role.kill()
    assert (said, status) == (b"", 0), log.read_text()
    assert "Traceback" not in log.read_text()

    again = await start_preloaded(tmp_path, "up", "--port", "0", "--broker-port", "0")
    assert (again.said != "", await again.stop()) == (True, 0)
