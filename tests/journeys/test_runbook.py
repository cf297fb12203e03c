"""Every block of the runbook runs as it is printed, over the data folder of a running service."""

import asyncio
from pathlib import Path

from app.adapters.files.data_dir import CHECKPOINTS_FOLDER
from tests.documentation import DOCS, SHELLS, blocks
from tests.journeys.service import START_S, running_service
from tests.journeys.test_documentation import run


async def test_every_block_of_the_runbook_runs_beside_the_service(tmp_path: Path) -> None:
    printed = [one for one in blocks() if one.page == DOCS / "runbook.md" and one.language in SHELLS]
    folder = tmp_path / "veristream-data"
    async with running_service(folder, preloaded=True):
        async with asyncio.timeout(START_S):
            while not any((folder / CHECKPOINTS_FOLDER).glob("*.jsonl")):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.2)
        status, out, err = await run(tmp_path, "\n".join(block.text for block in printed))

    assert (status, len(printed)) == (0, 4), out + err
