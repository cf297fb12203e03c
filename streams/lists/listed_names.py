"""The names of one version of a list, as screenings search them, wherever their index is."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final, Protocol

from pydantic import ValidationError
from typing_extensions import override

from schemas.lists import NameEntry
from schemas.problems import VeristreamError
from schemas.screenings import ScreeningTarget
from streams.names.index import NameIndex
from streams.names.matching import Found, Thresholds, find_matches

_WITH_WALLETS: Final = b'"wallets":["'
"""In the line of every entry that has a wallet, and hardly in another one."""

Entries = Callable[[], AsyncIterator[Sequence[bytes]]]
"""Yields the entries of a version part after part, each a line of JSON; it may be called again."""


class NamesUnavailable(VeristreamError):
    """The index cannot be asked for now; another moment it may answer."""


class EntriesInvalid(VeristreamError):
    """A line is no entry of a list of names."""


class ListedNames(Protocol):
    """The names of one version of a list, ready to be searched."""

    def __len__(self) -> int:
        """Return how many entries the list has."""
        ...

    async def search(
        self, target: ScreeningTarget, list_name: str, thresholds: Thresholds
    ) -> Sequence[Found]:
        """Return what is at or above `possible`, best first.

        Raises:
            NamesUnavailable: Nothing was compared.
        """
        ...

    async def entry_digest(self, entity_id: str) -> str | None:
        """Return the SHA-256 of an entity's entry, None when the list has none.

        Raises:
            NamesUnavailable: The list cannot be read for now.
        """
        ...


class IndexNames(Protocol):
    """Indexes the names of a version of a list."""

    async def __call__(self, entries: Entries) -> ListedNames:
        """Return the names; their memory is freed when nothing refers to them.

        Raises:
            EntriesInvalid: A line is no entry.
            NamesUnavailable: There is no index for now.
        """
        ...


class LocalNames(ListedNames):
    """Names whose index is in this process: for the few of the sandbox list."""

    def __init__(self, entries: Iterable[NameEntry]) -> None:
        self._index = NameIndex(entries)

    @override
    def __len__(self) -> int:
        return len(self._index)

    @override
    async def search(
        self, target: ScreeningTarget, list_name: str, thresholds: Thresholds
    ) -> Sequence[Found]:
        return await asyncio.to_thread(find_matches, target, self._index, list_name, thresholds)

    @override
    async def entry_digest(self, entity_id: str) -> str | None:
        entry = await asyncio.to_thread(self._index.find, entity_id)
        return None if entry is None else entry.digest()


class UnsearchedNames(ListedNames):
    """Names that this process never compares."""

    def __init__(self, entries: int) -> None:
        self._entries = entries

    @override
    def __len__(self) -> int:
        return self._entries

    @override
    async def search(
        self, target: ScreeningTarget, list_name: str, thresholds: Thresholds
    ) -> Sequence[Found]:
        raise NamesUnavailable("this process compares no names")

    @override
    async def entry_digest(self, entity_id: str) -> str | None:
        raise NamesUnavailable("this process compares no names")


async def index_locally(entries: Entries) -> ListedNames:
    """Index names in this process; promises what `IndexNames` does."""
    lines = [line async for part in entries() for line in part]
    return await asyncio.to_thread(lambda: LocalNames([*map(read_entry, lines)]))


async def index_nothing(entries: Entries) -> ListedNames:
    """Count the entries for a process that compares no names; promises what `IndexNames` does."""
    return UnsearchedNames(sum([len(part) async for part in entries()]))


async def read_names(entries: Entries, index: IndexNames) -> tuple[ListedNames, tuple[NameEntry, ...]]:
    """Return the names of a version, and those of its entries that have wallets; raises as `index` does."""
    with_wallets: list[NameEntry] = []

    async def noting() -> AsyncIterator[Sequence[bytes]]:
        with_wallets.clear()
        async for part in entries():
            with_wallets.extend(read_entry(line) for line in part if _WITH_WALLETS in line)
            yield part

    names = await index(noting)
    return names, tuple(entry for entry in with_wallets if entry.wallets)


def read_entry(line: bytes) -> NameEntry:
    """Read an entry.

    Raises:
        EntriesInvalid: The line is none. The error repeats nothing of it.
    """
    try:
        return NameEntry.from_bytes(line)
    except ValidationError:
        raise EntriesInvalid("a line is no entry of a list of names") from None
