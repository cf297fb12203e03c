"""What every reader of a published form shares: its result, its errors, and a record of rows that failed."""

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from io import TextIOWrapper
from typing import BinaryIO, Final, TypeVar

from pydantic import ValidationError

from schemas.lists import NameEntry

Row = TypeVar("Row")

_MOST_FAILURES: Final = 20
"""Failed rows that are described; beyond them they are only counted."""


class FormatUnreadable(Exception):
    """The file is not of the form it was read as; the message says what it is instead."""


@dataclass(slots=True)
class Reading:
    """What a file holds: fill it by iterating over `entries`; the rest is complete when that ends."""

    entries: Iterator[NameEntry] = field(default_factory=lambda: iter(()))
    source_date: date | None = None
    """When its publisher says it is from."""
    failed: int = 0
    problems: list[str] = field(default_factory=list)
    """The first rows that failed, and why; never what they hold."""

    def fail(self, where: str, why: str) -> None:
        """Count a row that cannot be read."""
        self.failed += 1
        if len(self.problems) < _MOST_FAILURES:
            self.problems.append(f"{where}: {why}")

    def convert(
        self, rows: Iterable[tuple[str, Row]], convert: Callable[[Row], NameEntry | None]
    ) -> Iterator[NameEntry]:
        """Yield the entry of each row; a row that cannot be read is counted, None is no entry.

        Raises:
            FormatUnreadable: A field has no end (`reading_csv`).
        """
        with reading_csv():
            yield from self._converted(rows, convert)

    def _converted(
        self, rows: Iterable[tuple[str, Row]], convert: Callable[[Row], NameEntry | None]
    ) -> Iterator[NameEntry]:
        for where, row in rows:
            try:
                entry = convert(row)
            except ValidationError as error:
                first = error.errors(include_input=False, include_url=False)[0]
                self.fail(where, f"{'/'.join(map(str, first['loc']))}: {first['msg']}")
            except (ValueError, KeyError, IndexError) as error:
                self.fail(where, type(error).__name__)
            else:
                if entry is not None:
                    yield entry


@contextmanager
def reading_csv() -> Iterator[None]:
    """Refuse a file with a field that has no end.

    Raises:
        FormatUnreadable: A field is longer than the csv module takes, as after a quote that is not closed.
    """
    try:
        yield
    except csv.Error as error:
        raise FormatUnreadable("a field of it does not end; perhaps a quote is not closed") from error


def utf8_text(file: BinaryIO) -> TextIOWrapper:
    """Return the text of a file; bytes that are no UTF-8 become the replacement character."""
    return TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")


def unique(texts: Iterable[str | None]) -> tuple[str, ...]:
    """Return the texts that are not blank, each once, without surrounding and doubled spaces."""
    return tuple(dict.fromkeys(text for text in (" ".join((one or "").split()) for one in texts) if text))
