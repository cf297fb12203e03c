"""Examines small images in few jobs: what a tenant asks while its jobs are under way shares the next one."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Final

from app.vision import jobs
from app.vision.containers import jpeg
from app.vision.images import check_header
from app.vision.pool import WAITING, VisionPool
from schemas.problems import EngineFailed, ImageNotEvaluable, ImageUndecodable, VeristreamError
from streams.vision_ports import TENANT, not_counted, on_behalf_of

MOST_SHARED: Final = 16
"""Verifications that share a job: one image that takes long delays no more than so many."""

SHARED_BYTES: Final = jobs.INLINE_BYTES
"""Images of a shared job; they travel in the message itself."""

SHARED_PIXELS: Final = 2_000_000
"""Pixels of a shared job, 0.02 s of work: 3 KB of PNG may hold 25 million, and are examined alone."""

SMALL_BYTES: Final = SHARED_BYTES // 4
"""Images of one verification up to here may share a job."""

MOST_WAITING: Final = WAITING * MOST_SHARED
"""Verifications of one tenant that wait for a shared job."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The images of one verification, and what is found."""

    images: Sequence[bytes]
    size: int
    """Bytes."""
    pixels: int
    found: asyncio.Future[tuple[str, ...]]


def _take_group(waiting: deque[_Asked]) -> list[_Asked]:
    """Take the first who wait, as many as share a job."""
    group = [waiting.popleft()]
    size, pixels = group[0].size, group[0].pixels
    while waiting and len(group) < MOST_SHARED:
        size, pixels = size + waiting[0].size, pixels + waiting[0].pixels
        if size > SHARED_BYTES or pixels > SHARED_PIXELS:
            break
        group.append(waiting.popleft())
    return group


def _pixels(image: bytes) -> int:
    """Return how many pixels there are to decode at most; none when the image is refused by its header."""
    if image.startswith(jpeg.MAGIC):
        return jpeg.most_pixels(image)
    try:
        header = check_header(image)
    except (ImageUndecodable, ImageNotEvaluable):
        return 0
    return header.width * header.height


class Examiner:
    """Answers the condition of each image, as `jobs.EXAMINE` does; a tenant has a job per child under way.

    A shared job that fails is done again for each who asked alone, so that nobody pays for another's image.
    """

    def __init__(self, pool: VisionPool) -> None:
        self._pool = pool
        self._waiting: dict[str, deque[_Asked]] = {}
        self._under_way: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, images: Sequence[bytes]) -> tuple[str, ...]:
        """Return the name of each image's condition, "" for one that can be decoded.

        Raises:
            EngineFailed: The job broke or exceeded its limits.
            Overloaded: There is no room.
        """
        tenant = TENANT.get()
        waiting = self._waiting.get(tenant, ())
        size = sum(map(len, images))
        if size > SMALL_BYTES or len(waiting) >= MOST_WAITING:
            return await self._run(images)
        loop = asyncio.get_running_loop()
        asked = _Asked(images, size, sum(map(_pixels, images)), loop.create_future())
        self._waiting.setdefault(tenant, deque()).append(asked)
        loop.call_soon(self._start, tenant)  # with what others ask in this turn of the loop
        with not_counted():
            return await asked.found

    def _start(self, tenant: str) -> None:
        waiting = self._waiting.get(tenant)
        while waiting and self._under_way[tenant] < self._pool.workers:
            group = _take_group(waiting)
            self._under_way[tenant] += 1
            task = asyncio.create_task(self._examine(tenant, group), context=Context())
            self._tasks.add(task)
            task.add_done_callback(lambda task: self._end(tenant, task))
        if not waiting:
            self._waiting.pop(tenant, None)

    def _end(self, tenant: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._under_way -= Counter((tenant,))  # what is at nothing then is forgotten
        self._start(tenant)

    async def _examine(self, tenant: str, group: Sequence[_Asked]) -> None:
        """Settle every answer; one whose asker has gone is not looked for."""
        try:
            with on_behalf_of(tenant):
                await self._settle([asked for asked in group if not asked.found.done()])
        finally:
            for asked in group:
                if not asked.found.done():
                    asked.found.set_exception(EngineFailed("the images were not examined"))

    async def _settle(self, group: Sequence[_Asked]) -> None:
        if not group:
            return
        try:
            found = await self._run([image for asked in group for image in asked.images])
        except VeristreamError as error:
            if len(group) > 1:
                for asked in group:
                    await self._settle([asked])
            elif not group[0].found.done():
                group[0].found.set_exception(error)
            return
        start = 0
        for asked in group:
            if not asked.found.done():
                asked.found.set_result(found[start : start + len(asked.images)])
            start += len(asked.images)

    async def _run(self, images: Sequence[bytes]) -> tuple[str, ...]:
        return await self._pool.run(jobs.EXAMINE, *map(len, images), file=b"".join(images))
