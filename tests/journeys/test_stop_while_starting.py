"""A service that is asked to stop while it starts ends by itself, and starts again as if nothing had been."""

import asyncio
import signal
from pathlib import Path

import pytest

from app.adapters.files.data_dir import BROKER_FOLDER, ROOT_KEY_FILE
from tests.journeys.service import START_S, Role, environment, new_log, start_preloaded
from tests.prefork import fork, run_veristream


async def begun(data_dir: Path, sign: Path) -> Role:
    """Start `veristream up` and return once it has made a file, long before it is ready."""
    log = new_log(data_dir, "up")
    arguments = ["up", "--port", "0", "--broker-port", "0", "--data-dir", str(data_dir)]
    role = Role(await fork(run_veristream, arguments, environment(), log), log)
    async with asyncio.timeout(START_S):
        while not (data_dir / sign).exists():
            assert role.process.returncode is None, log.read_text()
            await asyncio.sleep(0.005)
    return role


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("sign", [Path(ROOT_KEY_FILE), Path(BROKER_FOLDER) / "broker.sqlite"], ids=str)
async def test_a_start_that_is_asked_to_stop_ends_by_itself(
    tmp_path: Path, sign: Path, number: signal.Signals
) -> None:
    role = await begun(tmp_path, sign)
    try:
        role.process.send_signal(number)
        async with asyncio.timeout(START_S):
            assert role.process.stdout is not None
            said = await role.process.stdout.read()
            status = await role.process.wait()
    finally:
        await role.kill()
    assert (said, status) == (b"", 0)
    assert "Traceback" not in role.log.read_text()

    again = await start_preloaded(tmp_path, "up", "--port", "0", "--broker-port", "0")
    assert (again.said != "", await again.stop()) == (True, 0)
