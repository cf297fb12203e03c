"""Parse and check record batches of format 2 (KIP-98)."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c
from kio.schema.errors import ErrorCode
from kio.serial.readers import read_signed_varint, read_signed_varlong

from app.broker.errors import Refused

MAGIC: Final = 2
"""The only record format served; older ones left Kafka with 4.0 (KIP-724)."""

HEADER_BYTES: Final = 61
"""Length of a batch header, the record count included."""

PREFIX_BYTES: Final = 12
"""Base offset and length, which the length field itself does not count."""

CRC_START: Final = 21
"""The checksum covers everything from the attributes on, so offset and epoch may be set by the broker."""

SMALLEST_RECORD_BYTES: Final = 7
"""Length, attributes, time, offset, no key, no value, no headers: a byte each."""

SMALLEST_LENGTH: Final = HEADER_BYTES - PREFIX_BYTES

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_STAMP: Final = struct.Struct(">qii")
_COMPRESSION_MASK: Final = 0x07
_TRANSACTIONAL_OR_CONTROL: Final = 0x30
_APPEND_TIME: Final = 0x08
_SEQUENCE_MASK: Final = 0x7FFFFFFF


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch; names are Kafka's."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record, counted even when compaction removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap to 0 after 2^31 - 1."""
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MASK

    @property
    def idempotent(self) -> bool:
        """Whether the producer is idempotent."""
        return self.producer_id >= 0 and self.base_sequence >= 0

    @property
    def compressed(self) -> bool:
        """Whether the records after the header are compressed as one block."""
        return bool(self.attributes & _COMPRESSION_MASK)

    @property
    def append_time(self) -> bool:
        """Whether `max_timestamp` is the time of every record, set by the broker at its append."""
        return bool(self.attributes & _APPEND_TIME)


class BatchRecord(NamedTuple):
    """One record of an uncompressed batch; `raw` is it as stored, length included."""

    offset: int
    timestamp: int
    key: bytes | None
    tombstone: bool
    raw: bytes


def read_header(data: bytes | memoryview, position: int = 0) -> BatchHeader | None:
    """Read the header at `position`, or None where no batch of this format can begin."""
    if len(data) - position < HEADER_BYTES:
        return None
    header = BatchHeader._make(_HEADER.unpack_from(data, position))
    plausible = header.magic == MAGIC and header.length >= SMALLEST_LENGTH and header.base_offset >= 0
    return header if plausible and header.last_offset_delta >= 0 else None


def intact(header: BatchHeader, batch: bytes | memoryview) -> bool:
    """Return whether `batch` is whole and its CRC32C is the one its header names."""
    return len(batch) == header.size and crc32c(memoryview(batch)[CRC_START:]) == header.crc


def accept(records: bytes, max_bytes: int) -> BatchHeader:
    """Return the header of the one batch a producer may send, or raise `Refused` with Kafka's reason.

    Transactional and control batches are refused: this broker keeps no transactions.
    """
    header = read_header(records)
    if header is None:
        raise Refused(ErrorCode.corrupt_message, "not a record batch of format 2")
    if header.size < len(records):
        raise Refused(ErrorCode.invalid_record, "a produce request carries one batch per partition")
    if not intact(header, records):
        raise Refused(ErrorCode.corrupt_message, "the checksum of the batch does not match")
    if header.record_count != header.last_offset_delta + 1:
        raise Refused(ErrorCode.invalid_record, "the record count does not match the offsets")
    if not header.compressed and header.record_count * SMALLEST_RECORD_BYTES > len(records) - HEADER_BYTES:
        raise Refused(ErrorCode.invalid_record, "the batch is too small for the records it announces")
    if header.attributes & _TRANSACTIONAL_OR_CONTROL:
        raise Refused(ErrorCode.invalid_txn_state, "transactions are not served by the embedded broker")
    if header.size > max_bytes:
        raise Refused(ErrorCode.message_too_large, f"the batch is larger than {max_bytes} bytes")
    return header


STAMP_BYTES: Final = 16
"""What the broker writes anew in a produced batch: offset, length and leader epoch."""


def stamp(base_offset: int, header: BatchHeader) -> bytes:
    """Return the first bytes with the offset the log gives and this node's only epoch, 0."""
    return _STAMP.pack(base_offset, header.length, 0)


def appended_at(header: BatchHeader, records: bytes, now_ms: int) -> tuple[BatchHeader, bytes]:
    """Return the batch with the time of its append as the time of all its records (KIP-32)."""
    timed = header._replace(attributes=header.attributes | _APPEND_TIME, max_timestamp=now_ms)
    covered = _HEADER.pack(*timed)[CRC_START:] + records[HEADER_BYTES:]
    timed = timed._replace(crc=crc32c(covered))
    return timed, _HEADER.pack(*timed)[:CRC_START] + covered


def last_offset_at(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return (last offset, size) of the batch at `position`, which must be a header."""
    base, length = struct.unpack_from(">qi", data, position)
    (delta,) = struct.unpack_from(">i", data, position + 23)
    return base + delta, length + PREFIX_BYTES


def records_of(header: BatchHeader, batch: bytes) -> Iterator[BatchRecord]:
    """Yield the records of an uncompressed batch; raise ValueError where they are not well formed."""
    position = HEADER_BYTES
    for _ in range(header.record_count):
        record, position = _read_record(header, batch, position)
        yield record
    if position != len(batch):
        raise ValueError("the batch goes on after its last record")


def _read_record(header: BatchHeader, batch: bytes, start: int) -> tuple[BatchRecord, int]:
    length, taken = read_signed_varint(batch, start)
    position = start + taken
    end = position + length
    if length < 1 or end > len(batch):
        raise ValueError("a record goes over the end of its batch")
    position += 1  # attributes, unused by Kafka
    elapsed, taken = read_signed_varlong(batch, position)
    position += taken
    delta, taken = read_signed_varint(batch, position)
    position += taken
    key_length, taken = read_signed_varint(batch, position)
    position += taken
    key = batch[position : position + key_length] if key_length >= 0 else None
    value_length, _ = read_signed_varint(batch, position + max(key_length, 0))
    timestamp = header.max_timestamp if header.append_time else header.base_timestamp + elapsed
    record = BatchRecord(header.base_offset + delta, timestamp, key, value_length < 0, batch[start:end])
    return record, end


def rewrite(header: BatchHeader, remaining: list[BatchRecord]) -> bytes:
    """Return the batch with only the `remaining` records; offsets, times and sequences stay as they were."""
    body = b"".join(record.raw for record in remaining)
    smaller = header._replace(length=SMALLEST_LENGTH + len(body), record_count=len(remaining))
    covered = _HEADER.pack(*smaller)[CRC_START:] + body
    return _HEADER.pack(*smaller._replace(crc=crc32c(covered))) + body
