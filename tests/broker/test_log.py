"""The log of one partition: what is appended can be read, found by time, recovered and retired."""

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kio.schema.errors import ErrorCode
from typing_extensions import override

from app.broker.batches import read_header, records_of
from app.broker.errors import Refused
from app.broker.log import LogLimits, PartitionLog
from app.broker.settings import DAY_MS
from tests.broker.builders import T0_S, batch, one

T0_MS = T0_S * 1000


class Clock:
    """A wall clock that stays as it is until it is set."""

    def __init__(self) -> None:
        self.ms = T0_MS

    def __call__(self) -> int:
        """Return the time in milliseconds."""
        return self.ms


def limits(
    *,
    segment_bytes: int = 1 << 20,
    retention_ms: int = -1,
    retention_bytes: int = -1,
    segment_ms: int = DAY_MS,
) -> LogLimits:
    """Limits that get in no test's way unless it names them."""
    return LogLimits(segment_bytes, segment_ms, retention_ms, retention_bytes, max_message_bytes=1 << 20)


def opened(directory: Path, wanted: LogLimits | None = None, clock: Clock | None = None) -> PartitionLog:
    """Open a log."""
    return PartitionLog.open(directory, wanted or limits(), clock or Clock())


def append(log: PartitionLog, records: bytes) -> int:
    """Append and show it to readers at once."""
    offset = log.append(records)
    log.reveal_all()
    return offset


def values(log: PartitionLog, start: int | None = None, max_bytes: int = 1 << 20) -> list[tuple[int, bytes]]:
    """Read (offset, key) of everything from `start` on, as a consumer would: fetch by fetch."""
    found: list[tuple[int, bytes]] = []
    offset = log.start_offset if start is None else start
    while data := log.read(offset, max_bytes):
        position = 0
        while (header := read_header(data, position)) is not None and position + header.size <= len(data):
            whole = data[position : position + header.size]
            found += [(r.offset, r.key or b"") for r in records_of(header, whole) if r.offset >= offset]
            position += header.size
            offset = header.last_offset + 1
    return found


def seal(log: PartitionLog) -> None:
    """Do what the flusher does after an fsync."""
    for segment, remembered in log.synced(log.marks()):
        segment.seal(remembered)


def descriptors() -> int:
    """How many this process holds."""
    process: Any = psutil.Process  # untyped
    return int(process().num_fds())


def test_appended_records_are_read_back_with_the_offsets_they_were_given(tmp_path: Path) -> None:
    log = opened(tmp_path)

    assert append(log, batch([(b"a", b"1"), (b"b", b"2")])) == 0
    assert append(log, one(b"3", b"c")) == 2
    assert values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_read_begins_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(200):
        append(log, one(b"v" * 50, b"%d" % number))

    assert values(log, start=150) == [(number, b"%d" % number) for number in range(150, 200)]


def test_a_read_smaller_than_a_batch_returns_the_whole_batch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, one(b"x" * 10_000, b"big"))
    append(log, one(b"y", b"next"))

    assert values(log, max_bytes=1) == [(0, b"big"), (1, b"next")]


def test_records_are_hidden_until_they_are_revealed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, one(b"1", b"seen"))
    marks = log.marks()
    log.append(one(b"2", b"unseen"))
    log.reveal(marks)

    assert (log.high_watermark, log.next_offset) == (1, 2)
    assert values(log) == [(0, b"seen")]


def test_a_reopened_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=300))
    for number in range(20):
        append(log, one(b"v", b"%d" % number))
    seal(log)
    log.close()

    again = opened(tmp_path, limits(segment_bytes=300))

    assert append(again, one(b"v", b"20")) == 20
    assert values(again) == [(number, b"%d" % number) for number in range(21)]


def test_a_torn_tail_is_cut_off_at_the_last_whole_batch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, one(b"1", b"whole"))
    path = log.segments[-1].path
    with path.open("ab") as file:
        file.write(one(b"2", b"torn")[:-3])

    again = opened(tmp_path)

    assert values(again) == [(0, b"whole")]
    assert append(again, one(b"3", b"next")) == 1


def test_a_flipped_bit_in_the_last_batch_cuts_that_batch_off(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, one(b"1", b"whole"))
    append(log, one(b"2", b"broken"))
    _flip(log.segments[-1].path, -2)

    assert values(opened(tmp_path)) == [(0, b"whole")]


def test_a_flipped_bit_in_the_middle_costs_only_its_own_batch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for key in (b"a", b"b", b"c"):
        append(log, one(b"v", key))
    size = log.segments[-1].size // 3
    _flip(log.segments[-1].path, size + 65)

    again = opened(tmp_path)

    assert values(again) == [(0, b"a"), (2, b"c")]
    assert append(again, one(b"v", b"d")) == 3
    assert list(tmp_path.glob("*.damaged"))


def test_a_flipped_bit_in_an_offset_costs_only_its_own_batch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for key in (b"a", b"b", b"c"):
        append(log, one(b"v", key))
    _flip(log.segments[-1].path, log.segments[-1].size // 3)

    again = opened(tmp_path)
    append(again, one(b"v", b"d"))

    assert values(again) == values(opened(tmp_path)) == [(0, b"a"), (2, b"c"), (3, b"d")]


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(bytes(data))


def test_a_damaged_sidecar_is_not_believed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(5):
        append(log, one(b"v", b"%d" % number))
    log.close()
    _flip(log.segments[-1].sidecar, 20)

    assert len(values(opened(tmp_path))) == 5


def test_a_repeated_batch_of_an_idempotent_producer_is_written_once(tmp_path: Path) -> None:
    log = opened(tmp_path)
    records = batch([(b"a", b"1")], producer_id=7, epoch=0, sequence=0)

    assert append(log, records) == append(log, records) == 0
    assert len(values(log)) == 1


@pytest.mark.parametrize("closed_cleanly", [True, False])
def test_a_repeat_is_recognised_after_a_restart(tmp_path: Path, *, closed_cleanly: bool) -> None:
    log = opened(tmp_path, limits(segment_bytes=200))
    for sequence in range(5):
        append(log, batch([(b"k", b"v")], producer_id=7, epoch=0, sequence=sequence))
    seal(log)
    if closed_cleanly:
        log.close()

    again = opened(tmp_path, limits(segment_bytes=200))

    assert append(again, batch([(b"k", b"v")], producer_id=7, epoch=0, sequence=4)) == 4
    assert append(again, batch([(b"k", b"v")], producer_id=7, epoch=0, sequence=5)) == 5


def test_a_gap_in_a_producers_sequence_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([(b"a", b"1")], producer_id=7, epoch=0, sequence=0))

    with pytest.raises(Refused) as refused:
        log.append(batch([(b"c", b"3")], producer_id=7, epoch=0, sequence=2))
    assert refused.value.code is ErrorCode.out_of_order_sequence_number


def test_an_older_epoch_of_a_producer_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([(b"a", b"1")], producer_id=7, epoch=1, sequence=0))

    with pytest.raises(Refused) as refused:
        log.append(batch([(b"b", b"2")], producer_id=7, epoch=0, sequence=1))
    assert refused.value.code is ErrorCode.invalid_producer_epoch


def test_sequences_wrap_around_after_the_largest_number(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, batch([(b"a", b"1")], producer_id=7, epoch=0, sequence=2**31 - 1))

    assert append(log, batch([(b"b", b"2")], producer_id=7, epoch=0, sequence=0)) == 1


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.corrupt_message),
        (b"\0" * 61, ErrorCode.corrupt_message),
        (one(b"v")[:-1], ErrorCode.corrupt_message),
        (one(b"v") + one(b"v"), ErrorCode.invalid_record),
        (batch([(b"k", b"v")], attributes=0x10), ErrorCode.invalid_txn_state),
        (one(b"v" * (1 << 20)), ErrorCode.message_too_large),
    ],
)
def test_a_bad_batch_is_refused_with_kafkas_reason(tmp_path: Path, records: bytes, code: ErrorCode) -> None:
    log = opened(tmp_path)

    with pytest.raises(Refused) as refused:
        log.append(records)
    assert refused.value.code is code
    assert log.next_offset == 0


def test_a_changed_byte_under_the_checksum_is_refused(tmp_path: Path) -> None:
    records = bytearray(one(b"value"))
    records[-3] ^= 1

    with pytest.raises(Refused, match="checksum"):
        opened(tmp_path).append(bytes(records))


def test_offsets_are_found_by_time(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=400))
    for number in range(30):
        append(log, batch([(b"k", b"v"), (b"k", b"w")], at_s=T0_S + 10 * number))

    assert log.find_time(T0_MS) == (T0_MS, 0)
    assert log.find_time(T0_MS + 100_500) == (T0_MS + 101_000, 21)
    assert log.find_time(T0_MS + 102_000) == (T0_MS + 110_000, 22)
    assert log.find_time(T0_MS + 10_000_000) is None
    assert log.latest_record() == (T0_MS + 291_000, 59)


def test_segments_older_than_their_retention_are_retired(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=200, retention_ms=60_000))
    for number in range(10):
        append(log, one(b"v" * 50, b"%d" % number, at_s=T0_S + 20 * number))

    log.retire(T0_MS + 150_000)

    assert values(log)[0][0] == log.start_offset > 0
    assert values(log)[-1] == (9, b"9")


def test_a_log_whose_every_record_is_too_old_keeps_its_place(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(retention_ms=60_000))
    for number in range(3):
        append(log, one(b"v", b"%d" % number))

    for segment in log.retire(T0_MS + DAY_MS):
        segment.path.unlink()

    assert values(log) == []
    assert append(opened(tmp_path), one(b"v")) == 3


def test_only_so_many_bytes_are_retained(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=200, retention_bytes=500))
    for number in range(20):
        append(log, one(b"v" * 50, b"%d" % number))

    log.retire(T0_MS)

    assert 500 <= log.size < 900
    assert values(log)[-1] == (19, b"19")


def test_what_was_never_revealed_can_be_taken_back(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=200))
    append(log, batch([(b"a", b"1")], producer_id=7, epoch=0, sequence=0))
    for sequence in range(1, 6):
        log.append(batch([(b"b", b"2" * 60)], producer_id=7, epoch=0, sequence=sequence))

    log.take_back()

    assert values(log) == [(0, b"a")]
    assert append(log, batch([(b"c", b"3")], producer_id=7, epoch=0, sequence=1)) == 1
    assert values(opened(tmp_path)) == [(0, b"a"), (1, b"c")]


def test_closed_segments_nobody_reads_hold_no_file_and_are_found_by_time_all_the_same(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=200))
    for number in range(100):
        append(log, one(b"v", b"%d" % number, at_s=T0_S + number))
    seal(log)
    before = descriptors()

    log.rest()  # they were read or written since it began
    log.rest()

    assert len(log.segments) > 20
    assert before - descriptors() == len(log.segments) - 1
    assert [log.find_time(T0_MS + n * 1000) for n in (0, 50, 99)] == [
        (T0_MS, 0),
        (T0_MS + 50_000, 50),
        (T0_MS + 99_000, 99),
    ]
    assert [key for _, key in values(log)] == [b"%d" % number for number in range(100)]
    log.close()


def test_a_log_is_opened_without_holding_its_closed_segments(tmp_path: Path) -> None:
    log = opened(tmp_path, limits(segment_bytes=200))
    for number in range(50):
        append(log, one(b"v", b"%d" % number))
    log.close()
    before = descriptors()

    again = opened(tmp_path, limits(segment_bytes=200))

    assert descriptors() - before == 1
    assert len(values(again)) == 50
    again.close()


class LogMachine(RuleBasedStateMachine):
    """Whatever is done to a log, it holds exactly what a list would."""

    @initialize(segment_bytes=st.integers(150, 2000))
    def begin(self, segment_bytes: int) -> None:
        """Begin with segments of any size."""
        import tempfile  # noqa: PLC0415 - hypothesis cannot take tmp_path

        self.temporary = tempfile.TemporaryDirectory()
        self.directory = Path(self.temporary.name)
        self.limits = limits(segment_bytes=segment_bytes)
        self.log = opened(self.directory, self.limits)
        self.expected: list[bytes] = []

    @rule(keys=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5))
    def append(self, keys: list[bytes]) -> None:
        """Append a batch."""
        assert append(self.log, batch([(key, b"v") for key in keys])) == len(self.expected)
        self.expected += keys

    @rule()
    def reopen_after_a_clean_end(self) -> None:
        """Stop and start."""
        self.log.close()
        self.log = opened(self.directory, self.limits)

    @rule()
    def reopen_after_a_kill(self) -> None:
        """Leave everything as it lies and start."""
        self._let_go()
        self.log = opened(self.directory, self.limits)

    @rule(garbage=st.binary(min_size=1, max_size=100))
    def reopen_after_a_torn_write(self, garbage: bytes) -> None:
        """Be killed in the middle of a write."""
        self._let_go()
        with self.log.segments[-1].path.open("ab") as file:
            file.write(one(b"never acknowledged" + garbage)[: -len(garbage)])
        self.log = opened(self.directory, self.limits)

    @rule()
    def sync(self) -> None:
        """Let the flusher pass."""
        seal(self.log)

    @rule(without_sidecars=st.booleans())
    def rest(self, *, without_sidecars: bool) -> None:
        """Let upkeep pass twice with nobody reading in between, and perhaps lose what it relied on."""
        self.log.rest()
        self.log.rest()
        if without_sidecars:
            for segment in self.log.segments[:-1]:
                segment.unseal()

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), max_bytes=st.integers(1, 5000))
    def read_from_anywhere(self, data: st.DataObject, max_bytes: int) -> None:
        """Consume from some offset on."""
        start = data.draw(st.integers(0, len(self.expected) - 1))
        found = values(self.log, start, max_bytes)
        assert found == list(enumerate(self.expected))[start:]

    @invariant()
    def nothing_is_lost(self) -> None:
        """Everything appended is there, in order."""
        if hasattr(self, "log"):
            assert values(self.log) == list(enumerate(self.expected))

    def _let_go(self) -> None:
        for segment in self.log.segments:
            segment.close()

    @override
    def teardown(self) -> None:
        """Clean up."""
        if hasattr(self, "log"):
            self._let_go()
            self.temporary.cleanup()


LogMachine.TestCase.settings = hypothesis_settings(max_examples=40, stateful_step_count=25)
TestLogAgainstAList = LogMachine.TestCase


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    append(log, one(b"1", b"before"))
    whole = os.pwrite

    def half(fd: int, data: bytes, position: int) -> int:
        return whole(fd, data[:40], position)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(Refused) as refused:
        log.append(one(b"2", b"lost"))
    monkeypatch.undo()

    assert refused.value.code is ErrorCode.kafka_storage_error
    assert append(log, one(b"3", b"after")) == 1
    assert values(opened(tmp_path)) == [(0, b"before"), (1, b"after")]
