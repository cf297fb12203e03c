"""Compaction: of every key the last value stays, at the offset it always had."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.broker.compaction import CompactionTask, compact
from app.broker.log import PartitionLog
from app.broker.settings import DAY_MS
from tests.broker.builders import batch, one
from tests.broker.test_log import append, limits, opened, seal, values

SOON_MS = 0
"""A time at which no tombstone has been kept long enough."""

LATE_MS = 1 << 45
"""A time at which every tombstone has."""


def compacted(log: PartitionLog, now_ms: int = SOON_MS) -> None:
    """Compact and swap, as the upkeep does."""
    task = CompactionTask(
        sources=[segment.path for segment in log.closed_segments()],
        dirty_from=log.compact_to,
        tombstone_ms=DAY_MS,
        now_ms=now_ms,
        segment_bytes=log.limits.segment_bytes,
    )
    outcome = compact(task, threading.Event())
    assert outcome is not None
    for rewritten in outcome.rewritten:
        rewritten.take_name()
        log.swap(rewritten.sources, rewritten.segment)
        rewritten.remove_sources()
    log.compact_to = outcome.compact_to


def closed(log: PartitionLog) -> None:
    """Close the active segment and seal it."""
    log.roll()
    log.reveal_all()
    seal(log)


def test_of_every_key_the_last_record_stays_at_its_offset(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(100):
        append(log, one(b"v%d" % number, b"k%d" % (number % 7)))
    closed(log)

    compacted(log)

    assert values(log) == [(number, b"k%d" % (number % 7)) for number in range(93, 100)]
    assert append(log, one(b"next", b"k0")) == 100


def test_records_of_one_batch_are_thinned_out_in_place(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")]))
    closed(log)

    compacted(log)

    assert values(log) == [(1, b"b"), (2, b"a"), (3, b"c")]
    assert log.next_offset == 4


def test_the_active_segment_is_left_alone(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, one(b"1", b"k"))
    closed(log)
    append(log, one(b"2", b"k"))

    compacted(log)

    assert values(log) == [(0, b"k"), (1, b"k")]


def test_small_leftovers_are_merged_into_one_segment(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=1000))
    for number in range(100):
        append(log, one(b"v" * 20, b"k%d" % (number % 3)))
    closed(log)
    before = len(log.segments)

    compacted(log)
    compacted(log)

    assert len(log.segments) < before / 2
    assert len({key for _, key in values(log)}) == 3


def test_a_compacted_log_reopens_with_the_same_records_and_offsets(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=600))
    for number in range(60):
        append(log, one(b"v", b"k%d" % (number % 4)))
    closed(log)
    compacted(log)
    expected = values(log)

    again = opened(tmp_path, limits(segment_bytes=600))

    assert values(again) == expected
    assert again.next_offset == 60


def test_a_tombstone_stays_until_it_was_kept_long_enough(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, one(b"1", b"k"))
    append(log, batch([(b"k", None)]))
    append(log, one(b"x", b"other"))
    closed(log)

    compacted(log)
    stored = values(log)
    log.compact_to = 0
    compacted(log, LATE_MS)

    assert stored == [(1, b"k"), (2, b"other")]
    assert values(log) == [(2, b"other")]


def test_a_tombstone_stays_while_an_unreadable_batch_may_hold_its_key(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([(b"k", b"squeezed")], attributes=1))
    append(log, batch([(b"k", None)]))
    closed(log)

    compacted(log, LATE_MS)

    assert log.closed_segments()[0].next_offset == 2
    assert [header.base_offset for _, header in log.segments[0].headers()] == [0, 1]


def test_records_without_a_key_are_kept(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, one(b"1"))
    append(log, one(b"2"))
    closed(log)

    compacted(log)

    assert [offset for offset, _ in values(log)] == [0, 1]


def test_a_repeat_is_recognised_after_its_batch_was_compacted_away(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for sequence in range(3):
        append(log, batch([(b"k", b"v")], producer_id=7, epoch=0, sequence=sequence))
    append(log, one(b"newer", b"k"))
    closed(log)
    compacted(log)
    assert values(log) == [(3, b"k")]

    again = opened(tmp_path)

    assert append(again, batch([(b"k", b"v")], producer_id=7, epoch=0, sequence=2)) == 2


def test_a_stopped_compaction_leaves_everything_as_it_was(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([(b"k", b"%d" % number) for number in range(200)]))
    closed(log)
    stop = threading.Event()
    stop.set()

    outcome = compact(
        CompactionTask([s.path for s in log.closed_segments()], 0, DAY_MS, SOON_MS, 1 << 20), stop
    )

    assert outcome is None
    assert not list(tmp_path.glob("*.cleaned"))
    assert len(values(opened(tmp_path))) == 200


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_kill_between_the_steps_of_a_swap_loses_nothing(tmp_path: Path, removed: int) -> None:
    log = opened(tmp_path, limits(segment_bytes=300))
    for number in range(12):
        append(log, one(b"v", b"k%d" % (number % 5)))
    closed(log)
    log.limits = limits()
    sources = [segment.path for segment in log.closed_segments()]
    outcome = compact(CompactionTask(sources, 0, DAY_MS, SOON_MS, 1 << 20), threading.Event())
    assert outcome is not None
    (rewritten,) = outcome.rewritten
    if removed:
        rewritten.take_name()
        for path in rewritten.sources[1:removed]:
            path.unlink()

    again = opened(tmp_path)

    last = {key: offset for offset, key in values(again)}
    assert last == {b"k2": 7, b"k3": 8, b"k4": 9, b"k0": 10, b"k1": 11}
    assert again.next_offset == 12


@given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.none() | st.binary(max_size=5)),
                 min_size=1, max_size=4),
        min_size=1, max_size=20,
    ),
    segment_bytes=st.integers(150, 800),
    late=st.booleans(),
)  # fmt: skip
@hypothesis_settings(max_examples=40)
def test_a_reader_of_a_compacted_log_ends_with_the_same_table(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[bytes, bytes | None]]],
    segment_bytes: int,
    *,
    late: bool,
) -> None:
    """Values are compared by their last offsets; a deleted key may be missing or still say so."""
    log = opened(tmp_path_factory.mktemp("log"), limits(segment_bytes=segment_bytes))
    table: dict[bytes, int | None] = {}
    offset = 0
    for content in batches:
        append(log, batch(content))
        for key, value in content:
            table[key] = offset if value is not None else None
            offset += 1
    closed(log)

    compacted(log, LATE_MS if late else SOON_MS)
    compacted(log, LATE_MS if late else SOON_MS)

    found: dict[bytes, int] = {}
    for at, key in values(log):
        assert at >= found.get(key, -1)
        found[key] = at
    live = {key: at for key, at in table.items() if at is not None}
    assert {key: at for key, at in found.items() if key in live} == live
    assert len(found) == len(values(log))
    assert log.next_offset == offset
