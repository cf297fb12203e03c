"""Run a backtest in a child process of low priority that ends with its worker."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from schemas.backtests import BacktestProgress, BacktestResult, StoredBacktest
from streams.backtests.replaying import Tell
from streams.backtests.runner import BacktestFailed, BacktestInterrupted, BacktestProcess, BacktestRunner
from streams.runtime.supervisor import Figure

MODULE: Final = "app.composition.backtest_child"
LINE_BYTES: Final = 4 * 1024 * 1024
"""The longest line of a child: a result of 300 rules and 50 examples is far below it."""


class ChildProcess(BacktestProcess):
    """Starts `python -m app.composition.backtest_child`, which opens the data folder by itself.

    The child ends when its standard input closes: with the call, and with the worker, however it ends.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    @override
    async def __call__(self, job: StoredBacktest, tell: Tell) -> BacktestResult:
        command = (sys.executable, "-m", MODULE, str(self._data_dir), job.tenant_id, job.backtest_id)
        child = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LINE_BYTES, start_new_session=True
        )
        try:
            return await _result(child, tell)
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()


def backtest_figures(runner: BacktestRunner) -> list[Figure]:
    """Return how many backtests this process runs, and how many transactions they decided again."""
    return [
        Figure(
            "veristream_backtests",
            "Backtests of this process.",
            "status",
            lambda: {"running": runner.running},
        ),
        Figure(
            "veristream_backtest_transactions_total",
            "Transactions that backtests of this process decided again.",
            "mode",
            lambda: {"backtest": runner.decided},
        ),
    ]


async def _result(child: Process, tell: Tell) -> BacktestResult:
    if child.stdout is None:
        raise BacktestFailed("its process has no output")
    async for line in child.stdout:
        said: Mapping[str, Any] = json.loads(line)
        if "progress" in said:
            tell(BacktestProgress.model_validate(said["progress"]))
        elif "result" in said:
            return BacktestResult.model_validate(said["result"])
        elif "interrupted" in said:
            raise BacktestInterrupted(str(said["interrupted"]))
        else:
            raise BacktestFailed(str(said.get("failure")))
    raise BacktestInterrupted(f"its process ended with status {await child.wait()}")
