"""How long the jobs of vision children take is counted by their kind, however they end."""

import pytest

from app.vision import jobs
from app.vision.job_times import JobTimes
from app.vision.pool import VisionPool
from schemas.problems import ImageUndecodable
from tests.children import shared_forker


async def test_every_job_that_ended_is_timed_by_its_kind() -> None:
    times = JobTimes()
    pool = VisionPool(shared_forker(), 1, times=times)
    await pool.run(jobs.PING)
    for _ in range(2):
        with pytest.raises(ImageUndecodable):
            await pool.run(jobs.DECODE, file=b"no picture")
    await pool.aclose()

    assert {kind: sum(counts) for kind, (counts, _) in times.read().items()} == {"ping": 1, "decode": 2}
    assert all(seconds > 0 for _, seconds in times.read().values())
