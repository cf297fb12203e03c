"""The pool: bounded, honest about why it refuses, and one instance a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from app.vision.pool import PerThread, VisionPool
from schemas.problems import EngineFailed, ImageUndecodable, Overloaded


@pytest.fixture
async def pool() -> AsyncIterator[VisionPool]:
    """Two threads, one place to wait."""
    opened = VisionPool(2, waiting=1)
    yield opened
    await opened.aclose()


def fail(error: Exception) -> None:
    raise error


async def test_work_answers_what_it_returns(pool: VisionPool) -> None:
    assert await pool.run(divmod, 17, 5) == (3, 2)


async def test_work_leaves_the_loops_thread(pool: VisionPool) -> None:
    assert await pool.run(threading.get_ident) != threading.get_ident()


async def test_a_named_condition_passes_through(pool: VisionPool) -> None:
    with pytest.raises(ImageUndecodable):
        await pool.run(fail, ImageUndecodable("no picture"))


async def test_an_unnamed_error_is_a_failed_engine_with_its_cause(pool: VisionPool) -> None:
    with pytest.raises(EngineFailed) as failed:
        await pool.run(fail, ZeroDivisionError())
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


async def test_beyond_threads_and_queue_it_is_overloaded(pool: VisionPool) -> None:
    gate = threading.Event()
    waiting = [asyncio.create_task(pool.run(gate.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await pool.run(int)
    gate.set()
    assert await asyncio.gather(*waiting) == [True] * 3


async def test_after_the_rush_there_is_room_again(pool: VisionPool) -> None:
    for _ in range(4):
        await asyncio.gather(*(pool.run(int) for _ in range(3)))
    assert await pool.run(int) == 0


async def test_who_stops_waiting_leaves_the_place_taken_until_the_work_ends(pool: VisionPool) -> None:
    gate, started = threading.Event(), threading.Barrier(3)

    def work() -> None:
        started.wait()
        gate.wait()

    impatient = [asyncio.create_task(pool.run(work)) for _ in range(2)]
    await asyncio.to_thread(started.wait)
    for task in impatient:
        task.cancel()
    await asyncio.gather(*impatient, return_exceptions=True)
    last = asyncio.create_task(pool.run(int))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await pool.run(int)
    gate.set()
    assert await last == 0


async def test_a_waiting_job_that_is_given_up_frees_its_place(pool: VisionPool) -> None:
    gate = threading.Event()
    running = [asyncio.create_task(pool.run(gate.wait)) for _ in range(2)]
    queued = asyncio.create_task(pool.run(int))
    await asyncio.sleep(0)
    queued.cancel()
    await asyncio.gather(queued, return_exceptions=True)
    again = asyncio.create_task(pool.run(int))
    await asyncio.sleep(0)
    gate.set()
    assert await again == 0
    await asyncio.gather(*running)


async def test_every_thread_is_warmed_once(pool: VisionPool) -> None:
    built: list[int] = []
    own = PerThread(lambda: built.append(threading.get_ident()))
    await pool.warm(own.get)
    assert len(built) == len(set(built)) == pool.workers


async def test_a_thread_builds_its_instance_only_once(pool: VisionPool) -> None:
    built: list[int] = []
    own = PerThread(lambda: built.append(threading.get_ident()))
    await pool.warm(own.get)
    await asyncio.gather(*(pool.run(own.get) for _ in range(3)))
    assert len(built) == pool.workers


async def test_warming_fails_with_the_error_that_broke_it(pool: VisionPool) -> None:
    once = iter([ImageUndecodable("a bad model")])

    def build() -> None:
        error = next(once, None)
        if error is not None:
            raise error

    with pytest.raises(ImageUndecodable):
        await pool.warm(build)


async def test_a_closed_pool_refuses_work() -> None:
    pool = VisionPool(1)
    await pool.aclose()
    with pytest.raises(Overloaded):
        await pool.run(int)


async def test_closing_drops_what_waits(pool: VisionPool) -> None:
    gate, started = threading.Event(), threading.Barrier(3)

    def work() -> bool:
        started.wait()
        return gate.wait()

    running = [asyncio.create_task(pool.run(work)) for _ in range(2)]
    queued = asyncio.create_task(pool.run(int))
    await asyncio.to_thread(started.wait)
    closing = asyncio.create_task(pool.aclose())
    with pytest.raises(Overloaded):
        await queued
    gate.set()
    await closing
    assert await asyncio.gather(*running) == [True, True]
