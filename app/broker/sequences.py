"""Producer state of a partition (KIP-98): detect duplicates, refuse gaps."""

import struct
from collections import deque
from typing import Final

from kio.schema.errors import ErrorCode

from app.broker.batches import BatchHeader
from app.broker.errors import Refused

REMEMBERED_BATCHES: Final = 5
"""Kafka keeps five: a producer has at most five requests in flight."""

FORGOTTEN_AFTER_MS: Final = 24 * 60 * 60 * 1000
"""Kafka's `producer.id.expiration.ms`."""

_SEQUENCES: Final = 1 << 31
_PRODUCER: Final = struct.Struct(">qhqB")
_BATCH: Final = struct.Struct(">iiq")


class _Producer:
    __slots__ = ("batches", "epoch", "seen_ms")

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.seen_ms = seen_ms
        self.batches: deque[tuple[int, int, int]] = deque(maxlen=REMEMBERED_BATCHES)


class Sequences:
    """The last batches of every idempotent producer that wrote to one partition."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def earlier(self, header: BatchHeader) -> int | None:
        """Return the offset a repeated batch already has, or None when it is the next one.

        Raises `Refused` for an old epoch or a gap. A producer nobody remembers may begin anywhere, since its
        records may have left the log (KIP-360).
        """
        known = self._producers.get(header.producer_id)
        if known is None:
            return None
        if header.producer_epoch < known.epoch:
            raise Refused(ErrorCode.invalid_producer_epoch, "a newer epoch of this producer has written")
        if header.producer_epoch > known.epoch:
            if header.base_sequence:
                raise Refused(ErrorCode.out_of_order_sequence_number, "a new epoch begins with sequence 0")
            return None
        return _place(known.batches, header)

    def remember(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Note a batch that was written at `base_offset`."""
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self._producers[header.producer_id] = _Producer(header.producer_epoch, now_ms)
        known.seen_ms = now_ms
        known.batches.append((header.base_sequence, header.last_sequence, base_offset))

    def forget(self, now_ms: int) -> None:
        """Drop producers that have not written for a day."""
        old = [key for key, known in self._producers.items() if now_ms - known.seen_ms > FORGOTTEN_AFTER_MS]
        for key in old:
            del self._producers[key]

    def dump(self) -> bytes:
        """Return everything remembered, for `load`."""
        parts = []
        for key, known in self._producers.items():
            parts.append(_PRODUCER.pack(key, known.epoch, known.seen_ms, len(known.batches)))
            parts.extend(_BATCH.pack(*batch) for batch in known.batches)
        return b"".join(parts)

    def load(self, dumped: bytes) -> None:
        """Remember exactly what `dump` returned."""
        self._producers.clear()
        position = 0
        while position < len(dumped):
            key, epoch, seen_ms, count = _PRODUCER.unpack_from(dumped, position)
            position += _PRODUCER.size
            known = self._producers[key] = _Producer(epoch, seen_ms)
            for _ in range(count):
                first, last, offset = _BATCH.unpack_from(dumped, position)
                known.batches.append((first, last, offset))
                position += _BATCH.size


def _place(batches: deque[tuple[int, int, int]], header: BatchHeader) -> int | None:
    for first, last, offset in batches:
        if (first, last) == (header.base_sequence, header.last_sequence):
            return offset
    ahead = (header.base_sequence - batches[-1][1]) % _SEQUENCES
    if ahead == 1:
        return None
    if ahead > _SEQUENCES // 2:
        raise Refused(ErrorCode.duplicate_sequence_number, "this batch was written long ago")
    raise Refused(ErrorCode.out_of_order_sequence_number, "a batch before this one is missing")
