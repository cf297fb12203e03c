"""Retention, erasure, rotation and restore, killed at some of their writes, end as if nobody had killed them.

`python -m tests.chaos.upkeep_kills` kills at every write.
"""

from pathlib import Path

import pytest

from app.adapters.files.data_dir import BLOBS_FOLDER
from tests.chaos.upkeep_kills import ERASE, EXPIRE, KINDS, prepare, run_killed, run_whole


@pytest.mark.parametrize("kind", KINDS)
async def test_work_that_is_killed_and_run_again_ends_the_same(tmp_path: Path, kind: str) -> None:
    prepared = await prepare(tmp_path)
    writes, expected = await run_whole(prepared, kind, tmp_path / "whole")

    ends = [
        await run_killed(prepared, kind, tmp_path / str(nth), nth) for nth in (writes // 3, writes * 3 // 4)
    ]

    assert writes >= 8
    assert [killed for killed, _ in ends] == [True, True]
    for _, found in ends:
        assert found == expected
    assert expected["traces"] == []
    assert any(name.startswith(BLOBS_FOLDER) for name in expected["files"]) == (kind is not EXPIRE)
    assert (expected["erasures"] != []) == (kind is ERASE)
