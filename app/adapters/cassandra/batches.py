"""Sizes of batches: what fits into one, and how to part what does not."""

from collections.abc import Sequence
from typing import Final

from app.adapters.cassandra.session import Write

BATCH_BYTES: Final = 24 * 1024
"""A logged batch is parted above it; Cassandra refuses one above 50 KiB."""

_ROW_BYTES: Final = 64
"""What a row takes beside its values, about."""


def bytes_of(writes: Sequence[Write]) -> int:
    """Return the size of writes in a batch, about."""
    return sum(_bytes_of(write) for write in writes)


def parted(writes: Sequence[Write]) -> list[list[Write]]:
    """Part what is too large for one batch; the last write stays the last."""
    parts: list[list[Write]] = [[]]
    size = 0
    for write in writes:
        own = _bytes_of(write)
        if size + own > BATCH_BYTES and parts[-1]:
            parts.append([])
            size = 0
        parts[-1].append(write)
        size += own
    return parts


def _bytes_of(write: Write) -> int:
    return _ROW_BYTES + sum(len(value) for value in write[1] if isinstance(value, str | bytes))
