"""Page through the entries of a stored list, all of them or those that contain a fragment."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from schemas.ids import TenantId
from schemas.problems import StoreUnavailable
from schemas.tenant_lists import StoredList
from streams.lists.storage import EntriesDamaged, ListStorage
from streams.ports.records import Position

MOST_PARTS: Final = 32
"""Parts of a list that one request reads, eight megabytes; then the page is short and goes on by cursor."""

_SEARCHED: Final = ("entity_id", "names", "weak_names", "value", "address", "entity")


class EntryPage(NamedTuple):
    """Entries as they were uploaded, and where the next page begins."""

    rows: list[bytes]
    following: Position | None


class _Found(NamedTuple):
    rows: list[bytes]
    stopped_at: int | None
    """The line after the last one of a full page; None: the part was read to its end."""


async def page_of_entries(
    storage: ListStorage,
    tenant_id: TenantId,
    stored: StoredList,
    fragment: str,
    limit: int,
    before: Position | None,
) -> EntryPage:
    """Return the entries behind a position whose id, name, value or address contains the fragment.

    Raises:
        StoreUnavailable: The entries are damaged, or cannot be read for now.
    """
    part, line = _place(before)
    rows: list[bytes] = []
    try:
        async for lines in storage.parts(tenant_id, stored, part):
            if len(rows) == limit or part - _place(before)[0] >= MOST_PARTS:
                return EntryPage(rows, _position(stored, part, line))
            found = await asyncio.to_thread(_search, lines, line, fragment.casefold(), limit - len(rows))
            rows += found.rows
            if found.stopped_at is not None:
                return EntryPage(rows, _position(stored, part, found.stopped_at))
            part, line = part + 1, 0
    except EntriesDamaged:
        raise StoreUnavailable("the entries of the list are damaged; replace the whole list") from None
    return EntryPage(rows, None)


def _search(lines: Sequence[bytes], first: int, fragment: str, most: int) -> _Found:
    rows: list[bytes] = []
    for number in range(first, len(lines)):
        if len(rows) == most:
            return _Found(rows, number)
        if not fragment or _contains(json.loads(lines[number]), fragment):
            rows.append(lines[number])
    return _Found(rows, None)


def _contains(entry: dict[str, Any], fragment: str) -> bool:
    for name in _SEARCHED:
        value = entry.get(name, ())
        texts = [value] if isinstance(value, str) else value
        if any(fragment in text.casefold() for text in texts):
            return True
    return False


def _place(before: Position | None) -> tuple[int, int]:
    if before is None:
        return 0, 0
    part, _, line = before.id.partition(".")
    return int(part), int(line)


def _position(stored: StoredList, part: int, line: int) -> Position:
    return Position(stored.loaded_at, f"{part}.{line}")
