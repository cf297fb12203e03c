"""The velocity rows of every key in a span, built anew in memory; few are held decoded at once."""

from collections import OrderedDict
from typing import Final

from schemas.policies import FeatureKey
from streams.transactions import row as velocity_row
from streams.transactions.row import VelocityEvent, VelocityRow

MOST_DECODED: Final = 512

Key = tuple[FeatureKey, str]


class SpanRows:
    """Rows by kind of key and value."""

    def __init__(self) -> None:
        self._decoded = OrderedDict[Key, VelocityRow]()
        self._encoded: dict[Key, bytes] = {}

    def row(self, key: Key) -> VelocityRow:
        """Return the row of a key; a new one knows of nothing."""
        row = self._decoded.get(key)
        if row is None:
            encoded = self._encoded.pop(key, None)
            row = VelocityRow() if encoded is None else velocity_row.decode(encoded)
            self._decoded[key] = row
            if len(self._decoded) > MOST_DECODED:
                oldest, other = self._decoded.popitem(last=False)
                self._encoded[oldest] = velocity_row.encode(other)
        self._decoded.move_to_end(key)
        return row

    def add(self, key: Key, about: str, event: VelocityEvent) -> None:
        """Count a transaction in the row of a key, once."""
        velocity_row.add(self.row(key), about, event)
