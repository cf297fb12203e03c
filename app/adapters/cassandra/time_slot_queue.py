"""Queue of hints in time slots, oldest first, so that finished slots are not read again.

A hint says that something may wait; whether it does is known elsewhere. So a hint may be written again,
may be left behind, and may come back, and nothing is done twice for it.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, NamedTuple

from app.adapters.cassandra.session import Session, Statement, Write

SLOT_MICROS: Final = 15_000_000

CUT_AFTER_MICROS: Final = 300_000_000
"""An empty slot that is older is cut off, unless it was written to since: a slot says so each time."""

SLOTS_AT_ONCE: Final = 25
"""Slots looked into in one request; a coordinator asks their replicas side by side."""

_SLOT: Final = Statement("INSERT INTO waiting_slots (queue, slot) VALUES (?, ?)")
_WAIT: Final = Statement(
    "INSERT INTO waiting (queue, slot, waits_at, id) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
)
_DONE: Final = Statement("DELETE FROM waiting WHERE queue = ? AND slot = ? AND (waits_at, id) IN ?")
_SLOTS: Final = Statement("SELECT slot FROM waiting_slots WHERE queue = ?")
_FIRST: Final = Statement("SELECT waits_at, id FROM waiting WHERE queue = ? AND slot = ? LIMIT ?")
_NEXT: Final = Statement(
    "SELECT waits_at, id FROM waiting WHERE queue = ? AND slot = ? AND (waits_at, id) > (?, ?) LIMIT ?"
)
_USED: Final = Statement("SELECT slot FROM waiting WHERE queue = ? AND slot IN ? PER PARTITION LIMIT 1")
_CUT: Final = Statement("DELETE FROM waiting_slots USING TIMESTAMP ? WHERE queue = ? AND slot < ?")


class Hint(NamedTuple):
    """Something that may wait since a moment, in microseconds since 1970."""

    waits_at: int
    id: str

    @property
    def slot(self) -> int:
        """The partition, counted from 1970."""
        return self.waits_at // SLOT_MICROS


def wait_writes(queue: str, hints: Sequence[Hint]) -> Iterator[Write]:
    """Return what makes them wait, for a logged batch."""
    for slot in {hint.slot for hint in hints}:
        yield _SLOT, (queue, slot)
    for hint in hints:
        yield _WAIT, (queue, hint.slot, *hint, hint.waits_at)


def done_writes(queue: str, hints: Sequence[Hint]) -> list[Write]:
    """Return what ends their waiting, one write for each slot; each may be written by itself."""
    slots: dict[int, list[Hint]] = {}
    for hint in hints:
        slots.setdefault(hint.slot, []).append(hint)
    return [(_DONE, (queue, slot, ended)) for slot, ended in slots.items()]


async def oldest(session: Session, queue: str, at_once: int) -> AsyncIterator[list[Hint]]:
    """Yield all hints of a queue, oldest first, at most `at_once` in a batch."""
    async for page in session.pages(_SLOTS, (queue,), fetch_size=SLOTS_AT_ONCE):
        for slot in await _used(session, queue, [slot for (slot,) in page]):
            parameters: tuple[object, ...] = (queue, slot)
            statement = _FIRST
            while True:
                rows = await session.execute(statement, (*parameters, at_once))
                if rows:
                    yield [Hint(*row) for row in rows]
                if len(rows) < at_once:
                    break
                statement, parameters = _NEXT, (queue, slot, *rows[-1])


async def cut_empty_slots(session: Session, queue: str, now_micros: int) -> None:
    """Forget the slots before the first that holds anything, but none of the last minutes."""
    too_late = now_micros - CUT_AFTER_MICROS
    slots = [slot async for page in session.pages(_SLOTS, (queue,)) for (slot,) in page]
    old = [slot for slot in slots if slot < too_late // SLOT_MICROS]
    if not old:
        return
    parts = [old[start : start + SLOTS_AT_ONCE] for start in range(0, len(old), SLOTS_AT_ONCE)]
    remaining = [slot for part in parts for slot in await _used(session, queue, part)]
    bound = remaining[0] if remaining else old[-1] + 1
    await session.execute(_CUT, (too_late, queue, bound))


async def _used(session: Session, queue: str, slots: Sequence[int]) -> list[int]:
    """Return those of the slots that hold anything, oldest first."""
    if not slots:
        return []
    return sorted(slot for (slot,) in await session.execute(_USED, (queue, list(slots))))
