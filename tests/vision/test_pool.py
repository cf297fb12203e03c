"""The pool: bounded, fair, honest about why it refuses; children that exceed their limits are replaced."""

import asyncio
import errno
import os
import resource
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from PIL import Image
from prometheus_client import CollectorRegistry

from app.vision import jobs, serving
from app.vision.forker import Child, Forker
from app.vision.pool import VisionPool, job_times
from app.vision.pooled import PooledImageDecoder
from schemas.problems import EngineFailed, ImageUndecodable, Overloaded
from streams.vision_ports import Picture, deadline, not_counted, on_behalf_of
from tests.agents.support import until
from tests.children import shared_forker
from tests.specimens.hostile import picture, png, written

SLOW = png(3000, 3000)
"""Takes some 100 ms to decode."""

_PICTURE_BYTES = 2000 * 2000 * 3

_KEPT_BYTES = 48 * 2**20
"""Decoding 25 megapixels takes up to 200 MB; glibc keeps no more than 32 MiB on top of its heap (S41)."""


@pytest.fixture
async def pool() -> AsyncIterator[VisionPool]:
    """Two children, one place to wait."""
    opened = VisionPool(shared_forker(), 2, waiting=1)
    yield opened
    await opened.aclose()


@pytest.fixture
async def single() -> AsyncIterator[VisionPool]:
    """One child, ten places to wait."""
    opened = VisionPool(shared_forker(), 1, waiting=10)
    await opened.start()
    yield opened
    await opened.aclose()


async def pids(pool: VisionPool) -> set[int]:
    """The children that wait for work."""
    return {child.pid for child in pool._idle}


async def test_a_picture_is_the_one_that_decoding_here_gives(pool: VisionPool) -> None:
    decoded = await PooledImageDecoder(pool).decode(written(picture(), "PNG"))

    assert np.array_equal(decoded.pixels, np.asarray(picture()))


async def test_a_turned_view_of_a_picture_is_seen_as_it_is(pool: VisionPool) -> None:
    decoder = PooledImageDecoder(pool)
    decoded = await decoder.decode(written(picture(), "PNG"))
    view = Picture(np.rot90(decoded.pixels)[10:, :, :])

    assert await decoder.sharpness(view) == await decoder.sharpness(Picture(view.pixels.copy()))


async def test_a_picture_cannot_be_changed_after_it_was_decoded(pool: VisionPool) -> None:
    decoded = await PooledImageDecoder(pool).decode(written(picture(), "PNG"))

    with pytest.raises(ValueError, match="read-only"):
        decoded.pixels[0, 0, 0] = 1


async def test_a_child_without_jobs_gives_its_memory_back(single: VisionPool) -> None:
    (pid,) = await pids(single)
    child = psutil.Process(pid)  # type: ignore[no-untyped-call]  # psutil ships no types for it
    before, picture = child.memory_info().rss, png(2000, 2000)
    await single.run(jobs.EXAMINE, len(picture), file=picture)
    used = child.memory_info().rss - before

    async def gave_back() -> bool:
        return bool(child.memory_info().rss - before < used / 2)

    assert used > _PICTURE_BYTES / 2
    await until(gave_back)
    assert await single.run(jobs.PING)


async def test_a_child_that_decoded_a_large_picture_keeps_little_of_its_memory(single: VisionPool) -> None:
    (pid,) = await pids(single)
    child = psutil.Process(pid)  # type: ignore[no-untyped-call]  # psutil ships no types for it
    before = child.memory_info().rss
    await single.run(jobs.DECODE, file=png(4900, 5000))
    assert child.memory_info().rss - before < _KEPT_BYTES


async def test_a_named_condition_passes_through(pool: VisionPool) -> None:
    with pytest.raises(ImageUndecodable):
        await PooledImageDecoder(pool).decode(b"no picture")


async def test_an_unnamed_error_is_a_failed_engine(pool: VisionPool) -> None:
    with pytest.raises(EngineFailed):
        await pool.run(jobs.SHARPNESS, None, picture=Picture(np.zeros((0, 1, 3), np.uint8)))


async def test_a_child_without_models_says_so(pool: VisionPool) -> None:
    with pytest.raises(EngineFailed, match="no such engine"):
        await pool.run(jobs.FIND_FACES, None, picture=Picture(np.zeros((200, 200, 3), np.uint8)))


async def test_a_photograph_that_must_be_turned_is_refused_when_the_pool_is_full(pool: VisionPool) -> None:
    """Turning encodes again: a job of the pool, not of the threads that read and write evidence."""
    waiting = [asyncio.create_task(pool.run(jobs.DECODE, file=SLOW)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await PooledImageDecoder(pool).strip_metadata(png(200, 200))
    await asyncio.gather(*waiting)


async def test_beyond_children_and_queue_it_is_overloaded(pool: VisionPool) -> None:
    waiting = [asyncio.create_task(pool.run(jobs.DECODE, file=SLOW)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await pool.run(jobs.PING)
    await asyncio.gather(*waiting)


async def test_one_tenants_full_queue_leaves_anothers_empty(pool: VisionPool) -> None:
    waiting = [asyncio.create_task(pool.run(jobs.DECODE, file=SLOW)) for _ in range(3)]
    await asyncio.sleep(0)
    with on_behalf_of("tnt_globex"):
        assert await pool.run(jobs.PING)
    await asyncio.gather(*waiting)


async def test_tenants_take_turns(single: VisionPool) -> None:
    """The second tenant came last with one job, and waits for one job of the first one's five."""
    order: list[str] = []

    async def ask(tenant: str) -> None:
        with on_behalf_of(tenant):
            await single.run(jobs.PING)
        order.append(tenant)

    running = asyncio.create_task(single.run(jobs.DECODE, file=SLOW))
    await asyncio.sleep(0)
    tasks = [asyncio.create_task(ask("acme")) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.gather(running, *tasks, asyncio.create_task(ask("globex")))

    assert order == ["acme", "globex", "acme", "acme", "acme", "acme"]


async def test_a_tenant_from_rest_comes_before_all_that_a_busy_one_has_waiting(single: VisionPool) -> None:
    """The second tenant came last, and neither of its jobs waits for one of the first one's."""
    order: list[str] = []

    async def ask(tenant: str) -> None:
        with on_behalf_of(tenant):
            await single.run(jobs.PING)
        order.append(tenant)

    with on_behalf_of("acme"):
        await single.run(jobs.DECODE, file=SLOW)
        running = asyncio.create_task(single.run(jobs.DECODE, file=SLOW))
    await asyncio.sleep(0)
    tasks = [asyncio.create_task(ask(tenant)) for tenant in ("acme", "acme", "acme", "globex", "globex")]
    await asyncio.gather(running, *tasks)

    assert order == ["globex", "globex", "acme", "acme", "acme"]


async def test_what_runs_waits_and_has_finished_is_counted(single: VisionPool) -> None:
    tasks = [asyncio.create_task(single.run(jobs.DECODE, file=SLOW)) for _ in range(3)]
    await asyncio.sleep(0)
    assert (single.running, single.waiting, single.finished) == (1, 2, 0)
    await asyncio.gather(*tasks)
    assert (single.running, single.waiting, single.finished) == (0, 0, 3)


async def test_a_waiting_job_that_is_given_up_frees_its_place(pool: VisionPool) -> None:
    running = [asyncio.create_task(pool.run(jobs.DECODE, file=SLOW)) for _ in range(2)]
    queued = asyncio.create_task(pool.run(jobs.PING))
    await asyncio.sleep(0)
    queued.cancel()
    await asyncio.gather(queued, return_exceptions=True)
    assert await pool.run(jobs.PING)
    await asyncio.gather(*running)


async def test_a_running_job_that_is_given_up_frees_its_place_at_once(single: VisionPool) -> None:
    running = asyncio.create_task(single.run(jobs.DECODE, file=SLOW))
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert single.running == 0
    assert await single.run(jobs.PING)


async def test_a_child_killed_from_outside_is_replaced_and_its_job_done(single: VisionPool) -> None:
    (pid,) = await pids(single)
    running = asyncio.create_task(PooledImageDecoder(single).decode(SLOW))
    await asyncio.sleep(0.01)
    os.kill(pid, signal.SIGKILL)

    assert (await running).width == 3000
    assert await pids(single) != {pid}


async def test_s42_a_job_whose_child_dies_twice_has_failed(
    single: VisionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every child is killed while it works; the third try never comes."""
    forker, born = shared_forker(), []

    def crashing() -> Child:
        child = Forker.fork(forker)
        born.append(child.pid)
        asyncio.run_coroutine_threadsafe(kill(child.pid), loop)
        return child

    async def kill(pid: int) -> None:
        await asyncio.sleep(0.02)
        os.kill(pid, signal.SIGKILL)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(forker, "fork", crashing)
    (pid,) = await pids(single)
    many = [png(5000, 5000)] * 60  # more than a child has done before it is killed, on any machine
    long = replace(jobs.EXAMINE, cpu_s=60)
    running = asyncio.create_task(single.run(long, *map(len, many), file=b"".join(many)))
    await asyncio.sleep(0.01)
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(EngineFailed, match="killed"):
        await running
    monkeypatch.undo()
    assert len(born) == 1
    assert await single.run(jobs.PING)


async def test_what_a_child_short_of_memory_cannot_do_a_new_one_does(single: VisionPool) -> None:
    """What earlier jobs left in a child is not this job's fault."""
    large = Picture(np.zeros((3000, 3000, 3), np.uint8))
    (pid,) = await pids(single)
    leave_no_memory(pid)

    assert (await single.run(jobs.SHARPNESS, None, picture=large)).brightness == 0
    assert await pids(single) != {pid}


LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "PNG": ("PNG", {}),
    "JPEG": ("JPEG", {}),
    "progressive JPEG": ("JPEG", {"progressive": True}),
    "WebP": ("WEBP", {"method": 0}),
}


def large(kind: str, **more: Any) -> bytes:
    """A picture of nine million pixels, as a file."""
    form, options = LARGE[kind]
    return written(picture(3000, 3000), form, **options, **more)


@pytest.mark.parametrize("kind", LARGE)
async def test_a_picture_a_child_has_no_memory_for_is_decoded_by_a_new_one(
    single: VisionPool, kind: str
) -> None:
    """Decoders say of an allocation that failed what they say of a damaged file."""
    (pid,) = await pids(single)
    leave_no_memory(pid)

    assert (await PooledImageDecoder(single).decode(large(kind))).width == 3000
    assert await pids(single) != {pid}


async def test_where_no_child_has_memory_no_picture_is_called_undecodable(
    single: VisionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forker, decoder = shared_forker(), PooledImageDecoder(single)

    def short_of_memory() -> Child:
        child = Forker.fork(forker)
        leave_no_memory(child.pid)
        return child

    monkeypatch.setattr(forker, "fork", short_of_memory)
    leave_no_memory(*await pids(single))
    turned = Image.Exif()
    turned[0x0112] = 6

    with pytest.raises(EngineFailed):
        await decoder.decode(large("JPEG"))
    with pytest.raises(Overloaded, match="memory"):
        await decoder.strip_metadata(large("JPEG", exif=turned))


async def test_a_large_damaged_picture_is_undecodable_at_once(single: VisionPool) -> None:
    file = large("WebP")
    middle = len(file) // 2
    (pid,) = await pids(single)

    with pytest.raises(ImageUndecodable):
        await PooledImageDecoder(single).decode(file[:middle] + bytes(2000) + file[middle + 2000 :])
    assert await pids(single) == {pid}


def leave_no_memory(pid: int) -> None:
    """Let a process take hardly more addresses than it has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + (4 << 20), hard))


async def test_s42_a_job_beyond_its_processor_time_is_killed_and_not_tried_again(single: VisionPool) -> None:
    spinning = replace(jobs.EXAMINE, cpu_s=1)
    many = [png(5000, 5000)] * 60
    with pytest.raises(EngineFailed, match="cpu"):
        await single.run(spinning, *map(len, many), file=b"".join(many))
    assert await single.run(jobs.PING)


async def test_s42_a_job_beyond_its_wall_time_is_killed(single: VisionPool) -> None:
    (pid,) = await pids(single)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(EngineFailed, match="wall"):
        await single.run(replace(jobs.PING, wall_s=0.2))
    assert await single.run(jobs.PING)


async def test_a_job_that_works_is_not_out_of_time_however_long_it_takes(single: VisionPool) -> None:
    """It takes several times the limit of one that does nothing, and is seen to work."""
    many = [png(5000, 5000)] * 8
    found = await single.run(replace(jobs.EXAMINE, wall_s=0.4), *map(len, many), file=b"".join(many))

    assert found == ("",) * 8
    assert single.progress > single.finished == 1


async def test_waiting_for_a_child_is_not_counted_by_a_deadline(single: VisionPool) -> None:
    running = asyncio.create_task(single.run(jobs.DECODE, file=SLOW))
    await asyncio.sleep(0)
    async with deadline(0.01):
        assert await single.run(jobs.PING)
    assert (await running).width == 3000


async def test_what_is_not_counted_leaves_the_rest_of_a_deadline() -> None:
    async def longer_than_is_left() -> None:
        async with deadline(0.02):
            with not_counted():
                await asyncio.sleep(0.04)
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await longer_than_is_left()


async def test_s42_a_forker_that_was_killed_is_started_again(single: VisionPool) -> None:
    forker = shared_forker()
    forker.process.kill()
    forker.process.wait()

    assert await single.run(jobs.PING)
    assert await single.probe() is None


def test_children_ask_the_kernel_for_large_pages() -> None:
    environment = Path(f"/proc/{shared_forker().process.pid}/environ").read_bytes().split(b"\0")

    assert b"GLIBC_TUNABLES=glibc.malloc.hugetlb=1" in environment


async def test_s42_children_that_cannot_be_made_are_reported(
    single: VisionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address space left is too small for a child to be born."""
    forker = shared_forker()
    monkeypatch.setattr("app.vision.forker.sys.executable", "/bin/false")
    forker.process.kill()
    forker.process.wait()
    for _ in range(4):
        with pytest.raises(EngineFailed):
            await single.run(jobs.PING)

    assert "cannot be made" in str(await single.probe())
    monkeypatch.undo()
    assert await single.run(jobs.PING)
    assert await single.probe() is None


async def test_a_closed_pool_refuses_work() -> None:
    pool = VisionPool(shared_forker(), 1)
    await pool.aclose()
    with pytest.raises(Overloaded):
        await pool.run(jobs.PING)


async def test_closing_drops_what_waits_and_ends_what_runs_well(pool: VisionPool) -> None:
    running = [asyncio.create_task(pool.run(jobs.DECODE, file=SLOW)) for _ in range(2)]
    queued = asyncio.create_task(pool.run(jobs.PING))
    await asyncio.sleep(0)
    closing = asyncio.create_task(pool.aclose())
    with pytest.raises(Overloaded):
        await queued
    await closing
    assert [found.width for found in await asyncio.gather(*running)] == [3000, 3000]


@pytest.mark.parametrize(
    ("error", "expected"),
    [(MemoryError(), True), (OSError(errno.ENOMEM, "no"), True), (OSError(errno.EIO, "no"), False)],
)
def test_memory_refused_to_a_mapping_is_out_of_memory_too(error: Exception, expected: bool) -> None:  # noqa: FBT001
    assert serving._is_out_of_memory(error) is expected


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
