"""Entry point of a backtest's process: `-m app.composition.backtest_child DATA_DIR TENANT_ID BACKTEST_ID`.

It writes one JSON object a line: `progress`, and at its end `result`, `interrupted` or `failure`. It only
reads the store.
"""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Final, TextIO

from app.adapters.security.crypto import Purpose
from app.composition.stores import open_existing
from app.process.startup import CannotStart
from app.settings import read_settings
from schemas.backtests import BacktestProgress, BacktestResult
from schemas.ids import BacktestId, TenantId
from schemas.problems import NotFound, Refused, StoreUnavailable
from streams.backtests.records import load_backtest, load_text
from streams.backtests.replaying import Replay
from streams.policies.compiling import compile_policy
from streams.policies.loading import load
from streams.transactions.keyed_hashes import KeyedHashes

LOWEST_PRIORITY: Final = 19


def main(data_dir: str, tenant_id: str, backtest_id: str) -> None:
    """Run the backtest and write what came of it."""
    os.nice(LOWEST_PRIORITY)
    said, sys.stdout = sys.stdout, sys.stderr  # whatever else is written there would not be JSON
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        result = asyncio.run(_run(Path(data_dir), TenantId(tenant_id), BacktestId(backtest_id), said))
    except StoreUnavailable:
        _say(said, {"interrupted": "the stored transactions could not be read"})
    except (CannotStart, NotFound):
        _say(said, {"failure": "the stored transactions cannot be read"})
    except Refused:
        _say(said, {"failure": "the text does not load any more"})
    else:
        _say(said, {"result": result.model_dump(mode="json")})


async def _run(data_dir: Path, tenant_id: TenantId, backtest_id: BacktestId, said: TextIO) -> BacktestResult:
    def tell(progress: BacktestProgress) -> None:
        _say(said, {"progress": progress.model_dump(mode="json")})

    async with open_existing(read_settings(data_dir=data_dir)) as deployment:
        stores = deployment.stores
        _, job = await load_backtest(stores.records, tenant_id, backtest_id)
        text = await load_text(stores.records, job)
        policy = compile_policy(load(text), job.revision or 0, job.sha256)
        hashes = KeyedHashes(deployment.keys.derive(Purpose.TRANSACTION_HASHES))
        return await Replay(stores, hashes, policy, job, tell).run()


def _say(out: TextIO, said: dict[str, Any]) -> None:
    out.write(json.dumps(said) + "\n")
    out.flush()


def _end_with_parent() -> None:
    """End at once when the worker does, or closes the pipe."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
