"""The names process of a worker: started for the first list, watched, and replaced when it ends."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import count
from time import perf_counter
from typing import Final

import structlog
from prometheus_client import Histogram
from typing_extensions import override

from app.names import messages
from app.names.child import PATIENCE_S, START_S, Child
from app.names.messages import (
    AddEntries,
    Answer,
    Done,
    DropIndex,
    EntryDigest,
    Failed,
    FindEntry,
    FinishIndex,
    Matches,
    Message,
    Ping,
    TooLong,
)
from schemas.problems import VeristreamError
from schemas.screenings import ScreeningTarget
from streams.lists.listed_names import Entries, EntriesInvalid, IndexNames, ListedNames, NamesUnavailable
from streams.names.matching import Found, Thresholds
from streams.runtime.background import BackgroundTask
from streams.runtime.supervisor import Figure, MetricCollector

RESTORE_AGAIN_S: Final = 5.0
"""Between attempts to build again what the store did not give."""

BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

log = structlog.get_logger(__name__)


class _Version:
    """A version of a list: the entries it is built of, and the process that has its index."""

    def __init__(self, key: int, entries: Entries) -> None:
        self.key: Final = key
        self.entries: Final = entries
        self.size = 0
        self.child: Child | None = None
        self.ready = asyncio.Event()
        self.overdue = False
        """A question waited in vain for it to be built again; the others do not wait."""

    def built(self, child: Child, size: int) -> None:
        """Note that a process has its index."""
        self.child, self.size, self.overdue = child, size, False
        self.ready.set()

    def lost(self) -> None:
        """Note that no process has its index."""
        self.child = None
        self.ready.clear()


class NamesProcess(IndexNames):
    """Indexes names in a process of its own and asks it; questions fail while it is being started again.

    A deployment without lists has none: it starts when the first version is indexed. When it ends or is
    stuck, the next one builds every version that is still in use from its entries.
    """

    def __init__(self) -> None:
        self.starts = 0
        self.ends = {"ended": 0, "stuck": 0}
        """Why processes were replaced, and how often."""
        self.questions = {"answered": 0, "unavailable": 0, "failed": 0}
        self.times = Histogram(
            "veristream_names_question_seconds",
            "Time a question took that the names process answered.",
            buckets=BUCKETS_S,
            registry=None,
        )
        self._keys = count(1)
        self._versions: dict[int, _Version] = {}
        self._child: Child | None = None
        self._up = asyncio.Event()
        self._running: BackgroundTask | None = None

    @override
    async def __call__(self, entries: Entries) -> ListedNames:
        version = _Version(next(self._keys), entries)
        await self._build(version, await self._started())
        if version.child is not self._child:
            raise NamesUnavailable("the names process ended")
        self._versions[version.key] = version
        names = _ProcessNames(self, version)
        release = partial(asyncio.get_running_loop().call_soon_threadsafe, self._release, version.key)
        weakref.finalize(names, _unless_closed, release).atexit = False
        return names

    async def ask(self, version: _Version, request: Callable[[int], Message]) -> Answer:
        """Return the answer about a version.

        Raises:
            NamesUnavailable: There is none in time, or what was asked cannot be answered.
        """
        began = perf_counter()
        try:
            answer = await (await self._process_of(version)).question(request)
        except (NamesUnavailable, TooLong) as error:
            self.questions["unavailable"] += 1
            raise NamesUnavailable("names cannot be compared for now") from error
        if isinstance(answer, Failed):
            self.questions["failed"] += 1
            raise NamesUnavailable("the names process could not answer")
        self.times.observe(perf_counter() - began)
        self.questions["answered"] += 1
        return answer

    async def probe(self) -> str | None:
        """Return why names cannot be compared, or None; a process that was not asked of late is asked."""
        waiting = sum(1 for one in self._versions.values() if not one.ready.is_set())
        if waiting:
            return f"the names process is being started again; lists that cannot be asked: {waiting}"
        with suppress(NamesUnavailable):
            if self._child is not None:
                await self._child.question(Ping)
            return None
        return "the names process does not answer"

    @property
    def figures(self) -> list[Figure | MetricCollector]:
        """Metrics of the process."""
        said = "Times the names process was replaced."
        memory = "Resident memory of the names process."
        return [
            Figure("veristream_names_process_ends_total", said, "cause", lambda: dict(self.ends)),
            Figure(
                "veristream_names_process_memory_bytes",
                memory,
                "process",
                lambda: {"names": self.memory_bytes},
            ),
            Figure(
                "veristream_names_questions_total",
                "Questions to the names process.",
                "end",
                lambda: dict(self.questions),
            ),
            self.times,
        ]

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._child is None else self._child.pid

    @property
    def memory_bytes(self) -> int:
        """The resident memory of the process; 0 while there is none."""
        return 0 if self._child is None else self._child.memory_bytes

    async def aclose(self) -> None:
        """End the process."""
        if self._running is not None:
            await self._running.stop()

    async def _started(self) -> Child:
        """Return the process that runs; the first who asks starts it."""
        if self._running is None:
            self._running = BackgroundTask(self._run, "names-process")
            self._running.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._up.wait()
        if self._child is None:
            raise NamesUnavailable("the names process does not start")
        return self._child

    async def _run(self) -> None:
        """Run a process until it has to be replaced."""
        child = await Child.start()
        self.starts += 1
        log.info("names.process_started", starts=self.starts)
        self._child = child
        self._up.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                restoring = tasks.create_task(self._restore(child), name="names-restore")
                cause = await child.watch()
                restoring.cancel()
            self.ends[cause] += 1
            log.warning("names.process_ended", cause=cause)
        finally:
            self._up.clear()
            self._child = None
            for version in self._versions.values():
                version.lost()
            await child.end()

    async def _restore(self, child: Child) -> None:
        """Build every version that an earlier process had, small ones first, until the new one has all."""
        while missing := [one for one in self._versions.values() if one.child is not child]:
            for version in sorted(missing, key=lambda one: one.size):
                try:
                    await self._build(version, child)
                except VeristreamError as error:
                    log.warning("names.list_not_restored", cause=type(error).__name__)
                if version.key not in self._versions:
                    child.post(DropIndex(0, version.key))
            await asyncio.sleep(RESTORE_AGAIN_S)

    async def _build(self, version: _Version, child: Child) -> None:
        """Build an index; raises what reading the entries does, `EntriesInvalid`, or `NamesUnavailable`."""
        async with AsyncExitStack() as unless_whole:
            unless_whole.callback(child.post, DropIndex(0, version.key))
            async for lines in version.entries():
                for part in messages.in_parts(lines):
                    await _built(child, partial(AddEntries, key=version.key, lines=part))
            size = await _built(child, partial(FinishIndex, key=version.key))
            unless_whole.pop_all()
        version.built(child, size)

    async def _process_of(self, version: _Version) -> Child:
        if version.child is None and not version.overdue:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await version.ready.wait()
            except TimeoutError:
                version.overdue = True
        if version.child is None:
            raise NamesUnavailable("the names process is being started again")
        return version.child

    def _release(self, key: int) -> None:
        self._versions.pop(key, None)
        if self._child is not None:
            self._child.post(DropIndex(0, key))


class _ProcessNames(ListedNames):
    """Names whose index is in the names process; it is freed there when nothing here refers to them."""

    def __init__(self, process: NamesProcess, version: _Version) -> None:
        self._process = process
        self._version = version

    @override
    def __len__(self) -> int:
        return self._version.size

    @override
    async def search(
        self, target: ScreeningTarget, list_name: str, thresholds: Thresholds
    ) -> Sequence[Found]:
        key = self._version.key
        answer = await self._process.ask(
            self._version, lambda number: messages.search(number, key, target, list_name, thresholds)
        )
        if not isinstance(answer, Matches):
            raise NamesUnavailable("the answer is to another question")
        return answer.found()

    @override
    async def entry_digest(self, entity_id: str) -> str | None:
        key = self._version.key
        answer = await self._process.ask(self._version, lambda number: FindEntry(number, key, entity_id))
        if not isinstance(answer, EntryDigest):
            raise NamesUnavailable("the answer is to another question")
        return answer.digest


@asynccontextmanager
async def open_names() -> AsyncIterator[NamesProcess]:
    """Yield what indexes names in a process of its own, which ends with the context."""
    names = NamesProcess()
    try:
        yield names
    finally:
        await names.aclose()


async def _built(child: Child, request: Callable[[int], Message]) -> int:
    """Carry out a step of a build and return the size of the index, once it is finished."""
    try:
        answer = await child.ask(request)
    except TooLong:
        raise EntriesInvalid("an entry is too long") from None
    if isinstance(answer, Failed):
        raise EntriesInvalid("a line is no entry") if answer.invalid else NamesUnavailable("no index")
    return answer.entries if isinstance(answer, Done) else 0


def _unless_closed(release: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop of a process that has ended
        release()
