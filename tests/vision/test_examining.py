"""Small images are examined in shared jobs, and nobody's answer depends on another's image."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from typing_extensions import override

from app.vision import jobs
from app.vision.examining import MOST_SHARED, SHARED_BYTES, SMALL_BYTES, Examiner
from app.vision.pool import VisionPool
from schemas.problems import EngineFailed
from streams.vision_ports import TENANT, on_behalf_of
from tests.children import shared_forker
from tests.specimens.hostile import png

GOOD = png(200, 200)
BAD = b"no picture"
BREAKING = b"breaks the job"


class NotingPool(VisionPool):
    """A pool of one child that notes each job, and fails one that has a breaking image."""

    def __init__(self) -> None:
        super().__init__(shared_forker(), 1)
        self.asked: list[tuple[str, int]] = []
        self.begun = asyncio.Event()

    @override
    async def run(self, job: jobs.Job[Any], *args: object, file: bytes | None = None, **_: Any) -> Any:
        self.asked.append((TENANT.get(), len(args)))
        self.begun.set()
        if BREAKING in (file or b""):
            raise EngineFailed("broke")
        return await super().run(job, *args, file=file)


@pytest.fixture
async def pool() -> AsyncIterator[NotingPool]:
    """The pool of a test."""
    opened = NotingPool()
    yield opened
    await opened.aclose()


async def ask(
    examiner: Examiner, *asked: Sequence[bytes], tenant: str = "acme"
) -> list[tuple[str, ...] | BaseException]:
    """Ask for all of them in one turn of the loop; return their answers."""
    with on_behalf_of(tenant):
        return await asyncio.gather(*map(examiner, asked), return_exceptions=True)


async def test_requests_of_one_tenant_at_once_share_a_job_and_each_gets_its_own_answer(
    pool: NotingPool,
) -> None:
    found = await ask(Examiner(pool), (GOOD, GOOD), (GOOD, BAD), (BAD, GOOD))

    assert found == [("", ""), ("", "ImageUndecodable"), ("ImageUndecodable", "")]
    assert pool.asked == [("acme", 6)]


async def test_only_so_many_share_a_job(pool: NotingPool) -> None:
    found = await ask(Examiner(pool), *[(GOOD,)] * (MOST_SHARED + 1))

    assert found == [("",)] * (MOST_SHARED + 1)
    assert pool.asked == [("acme", MOST_SHARED), ("acme", 1)]


async def test_a_job_is_shared_by_as_many_as_its_message_holds(pool: NotingPool) -> None:
    medium = BAD + bytes(SMALL_BYTES - len(BAD))

    await ask(Examiner(pool), *[(medium,)] * (SHARED_BYTES // SMALL_BYTES + 1))

    assert pool.asked == [("acme", SHARED_BYTES // SMALL_BYTES), ("acme", 1)]


async def test_an_image_of_many_pixels_shares_its_job_with_nobody(pool: NotingPool) -> None:
    vast = png(1600, 1600)
    assert len(vast) < SMALL_BYTES

    assert await ask(Examiner(pool), (GOOD,), (vast,), (GOOD,), (GOOD,)) == [("",)] * 4
    assert pool.asked == [("acme", 1), ("acme", 1), ("acme", 2)]


async def test_a_shared_job_that_fails_is_done_again_for_each_alone(pool: NotingPool) -> None:
    one, broken, other = await ask(Examiner(pool), (GOOD,), (BREAKING,), (BAD,))

    assert (one, other) == (("",), ("ImageUndecodable",))
    assert isinstance(broken, EngineFailed)
    assert pool.asked == [("acme", 3), ("acme", 1), ("acme", 1), ("acme", 1)]


async def test_no_two_tenants_share_a_job(pool: NotingPool) -> None:
    examiner = Examiner(pool)

    await asyncio.gather(ask(examiner, (GOOD,)), ask(examiner, (GOOD,), tenant="globex"))

    assert sorted(pool.asked) == [("acme", 1), ("globex", 1)]


async def test_a_large_image_is_examined_alone(pool: NotingPool) -> None:
    large = GOOD + bytes(SMALL_BYTES)

    assert await ask(Examiner(pool), (large,), (large,)) == [("",), ("",)]
    assert pool.asked == [("acme", 1), ("acme", 1)]


async def test_who_stops_waiting_is_left_out_and_the_others_are_answered(pool: NotingPool) -> None:
    examiner = Examiner(pool)
    with on_behalf_of("acme"):
        gone, stays = (asyncio.create_task(examiner((GOOD,))) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()

    assert await stays == ("",)
    assert gone.cancelled()


async def test_what_comes_while_a_job_runs_is_in_the_next(pool: NotingPool) -> None:
    examiner = Examiner(pool)
    with on_behalf_of("acme"):
        first = asyncio.create_task(examiner((GOOD,)))
        await pool.begun.wait()
        others = [asyncio.create_task(examiner((GOOD,))) for _ in range(2)]

    assert await asyncio.gather(first, *others) == [("",)] * 3
    assert pool.asked == [("acme", 1), ("acme", 2)]
