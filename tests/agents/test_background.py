"""Background tasks are restarted when they end unexpectedly, and readiness knows which ones have ended."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from streams.runtime.background import BackgroundTask, Work, aligned_pause_s, probe_background_tasks

LONG_S = 3_600.0
"""No test waits for the end of such a pause."""


class Faulty:
    """Work whose first runs end with an error."""

    def __init__(self, failures: int) -> None:
        self.runs = 0
        self._failures = failures
        self.lasting = asyncio.Event()

    async def __call__(self) -> None:
        """Fail, or last."""
        self.runs += 1
        if self.runs <= self._failures:
            raise RuntimeError("Ada Lovelace")
        self.lasting.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def started(work: Work, pause_s: float, *, needed: bool = True) -> AsyncIterator[BackgroundTask]:
    """Run a background task for the length of the context."""
    task = BackgroundTask(work, "reader", first_pause_s=pause_s, longest_pause_s=pause_s, needed=needed)
    task.start()
    try:
        yield task
    finally:
        await task.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the loop has made it true."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0)


async def test_work_that_fails_is_restarted_until_it_lasts() -> None:
    work = Faulty(3)

    async with started(work, 0.0) as task:
        async with asyncio.timeout(60):
            await work.lasting.wait()

        assert (work.runs, task.running) == (4, True)


@given(now_s=st.floats(0, 1e7), every_s=st.sampled_from([0.1, 1.0, 15.0]))
def test_tasks_that_began_apart_wake_at_the_same_moments(now_s: float, every_s: float) -> None:
    pause_s = aligned_pause_s(now_s, every_s)

    intervals = (now_s + pause_s) / every_s
    assert intervals == pytest.approx(round(intervals), abs=1e-6)
    assert every_s / 2 <= pause_s <= 1.5 * every_s


async def test_work_that_returns_is_restarted() -> None:
    runs: list[int] = []

    async def returning() -> None:
        runs.append(len(runs))

    async with started(returning, 0.0):
        await until(lambda: len(runs) > 2)


async def test_an_unexpected_end_is_logged_without_the_words_of_the_error() -> None:
    with capture_logs() as logs:
        async with started(Faulty(1), LONG_S):
            await until(lambda: bool(logs))

    (entry,) = logs
    assert (entry["event"], entry["task"], entry["error"]) == (
        "background.task_ended", "reader", "RuntimeError",
    )  # fmt: skip
    assert "Ada" not in str(logs)


@pytest.mark.parametrize("needed", [True, False])
async def test_readiness_is_denied_while_a_needed_task_waits_for_its_restart(*, needed: bool) -> None:
    async with started(Faulty(1), LONG_S, needed=needed) as task:
        before = await probe_background_tasks()
        await until(lambda: not task.running)
        ended = await probe_background_tasks()
    after = await probe_background_tasks()

    assert (before, after) == (None, None)
    assert ended == ("ended unexpectedly and is about to be restarted: reader" if needed else None)


async def test_pauses_between_restarts_grow_to_a_longest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    wait_for = asyncio.wait_for

    async def at_once(waited: object, pause_s: float) -> None:
        pauses.append(pause_s)
        await wait_for(waited, 0)  # type: ignore[arg-type]  # what it is given is awaitable

    monkeypatch.setattr(asyncio, "wait_for", at_once)
    task = BackgroundTask(Faulty(100), "reader", first_pause_s=1.0, longest_pause_s=5.0)
    task.start()
    await until(lambda: len(pauses) > 4)
    await task.stop()

    assert pauses[:5] == [1.0, 2.0, 4.0, 5.0, 5.0]


async def test_a_stop_cancels_the_work_and_waits_for_its_end() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def lasting() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleanly")

    async with started(lasting, 0.0) as task:
        await begun.wait()

    assert (ended, task.running) == (["cleanly"], False)


async def test_work_that_lost_its_cancellation_is_cancelled_again() -> None:
    begun = asyncio.Event()

    async def losing() -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = BackgroundTask(losing, "reader", cancel_again_s=0.01)
    task.start()
    await begun.wait()
    async with asyncio.timeout(60):
        await task.stop()

    assert not task.running


async def test_work_that_was_asked_to_end_is_finished_and_not_restarted() -> None:
    stopping = asyncio.Event()
    runs: list[str] = []

    async def until_stopped() -> None:
        runs.append("run")
        await stopping.wait()

    task = BackgroundTask(until_stopped, "sweep")
    task.start()
    await until(lambda: runs == ["run"])
    with capture_logs() as logs:
        stopping.set()
        await task.finish()

    assert (runs, logs) == (["run"], [])
