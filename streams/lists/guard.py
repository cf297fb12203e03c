"""Whether a new version of a list may replace the last one; a source that sends something else must not."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from schemas.lists import NameEntry

_MOST_CHANGED: Final = 0.2
"""Share by which the number of entries may rise or fall at once."""

_MOST_FIELDS_LOST: Final = 0.2
"""Share of the entries that may lose a field they had before."""

_MOST_FAILED: Final = 0.05
"""Share of the rows that may be unreadable."""

_FEW: Final = 20
"""Entries up to which shares say nothing."""

_FIELDS: Final = ("birth_dates", "countries", "identifiers", "addresses", "programs")


@dataclass(frozen=True, slots=True)
class Contents:
    """What a version of a list holds, in numbers."""

    entries: int
    filled: Mapping[str, int]
    """How many entries have the field."""
    source_date: date | None = None
    failed: int = 0


class Census:
    """Counts entries as they pass."""

    def __init__(self) -> None:
        self.entries = 0
        self.filled = dict.fromkeys(_FIELDS, 0)

    def add(self, entry: NameEntry) -> None:
        """Count an entry and the fields it has."""
        self.entries += 1
        for name in _FIELDS:
            self.filled[name] += bool(getattr(entry, name))


def objections(previous: Contents | None, found: Contents) -> list[str]:
    """Return why the new version may not replace the last one; empty when it may."""
    return list(_objections(previous, found))


def _objections(previous: Contents | None, found: Contents) -> Iterator[str]:
    if not found.entries:
        yield "it has no entries"
    if found.failed > _MOST_FAILED * (found.entries + found.failed) and found.failed:
        yield f"{found.failed} of its rows cannot be read"
    if previous is None:
        return
    if found.source_date and previous.source_date and found.source_date < previous.source_date:
        yield f"it is of {found.source_date}, older than the last one of {previous.source_date}"
    if max(previous.entries, found.entries) <= _FEW:
        return
    if abs(found.entries - previous.entries) > _MOST_CHANGED * previous.entries:
        yield f"it has {found.entries} entries; the last one has {previous.entries}"
    for name, filled in previous.filled.items():
        before, after = filled / max(previous.entries, 1), found.filled.get(name, 0) / max(found.entries, 1)
        if before - after > _MOST_FIELDS_LOST:
            yield f"{name} is filled in {after:.0%} of its entries; in the last one in {before:.0%}"
