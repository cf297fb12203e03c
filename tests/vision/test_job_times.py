"""How long the jobs of vision children take is counted by their kind, however they end."""

import pytest
from prometheus_client import CollectorRegistry

from app.vision import jobs
from app.vision.pool import VisionPool, job_times
from schemas.problems import ImageUndecodable
from tests.children import shared_forker


async def test_every_job_that_ended_is_timed_by_its_kind() -> None:
    times, registry = job_times(), CollectorRegistry()
    registry.register(times)
    pool = VisionPool(shared_forker(), 1, times=times)
    await pool.run(jobs.PING)
    for _ in range(2):
        with pytest.raises(ImageUndecodable):
            await pool.run(jobs.DECODE, file=b"no picture")
    await pool.aclose()

    def sample(name: str, kind: str) -> float:
        return registry.get_sample_value(f"veristream_vision_job_seconds_{name}", {"kind": kind}) or 0.0

    assert (sample("count", "ping"), sample("count", "decode")) == (1, 2)
    assert min(sample("sum", "ping"), sample("sum", "decode")) > 0
