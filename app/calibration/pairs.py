"""Read pairs.csv: pairs of photographs labelled same or different."""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.process.startup import CannotStart

PAIRS_FILE: Final = "pairs.csv"
COLUMNS: Final = ("first", "second", "label")
LABELS: Final[Mapping[str, bool]] = {"same": True, "different": False}
"""Whether the two photographs are of one person, by the word that says so."""

EXAMPLE: Final = (
    "first,second,label\nada/passport.jpg,ada/selfie.jpg,same\nada/passport.jpg,obi/selfie.jpg,different"
)
FAULTS_SHOWN: Final = 20
"""Faults listed one by one; a file with more was made by a program that is wrong in one way."""


class CalibrationRefused(CannotStart):
    """A calibration cannot be made of what was given; the message says how to fix it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One row: two photographs, by their paths in the folder, and whether they are of one person."""

    line: int
    first: str
    second: str
    mated: bool


@dataclass(frozen=True, slots=True)
class LabelledPairs:
    """A file without a fault."""

    root: Path
    """The folder, free of symbolic links."""
    pairs: tuple[Pair, ...]

    @property
    def photographs(self) -> tuple[str, ...]:
        """Every photograph once, in the order in which they are named."""
        return tuple(dict.fromkeys(name for pair in self.pairs for name in (pair.first, pair.second)))

    @property
    def people(self) -> int:
        """An upper bound of the number of people: photographs never labelled same count apart."""
        return len(set(_people(self.pairs).values()))


class _Fault(Exception):
    """A fault of one row."""


def read_pairs(folder: Path) -> LabelledPairs:
    """Return the pairs of a folder. Blocking; reads only.

    Raises:
        CalibrationRefused: There is no such file, or rows of it are wrong; each is named by its line.
    """
    try:
        root = Path(os.path.realpath(folder, strict=True))
        rows = [*_rows(root / PAIRS_FILE)]
    except OSError as error:
        named = error.filename or folder
        raise CalibrationRefused(f"{named}: {error.strerror}; {_expected(folder)}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise CalibrationRefused(f"{folder / PAIRS_FILE} is no CSV file in UTF-8: {error}") from error
    places, pairs, faults = _Places(root), [], dict[int, str]()
    for line, row in rows:
        try:
            pairs.append(_pair(places, line, row))
        except _Fault as fault:
            faults[line] = str(fault)
    faults |= _repeated(pairs)
    faults |= _contradicting(pairs)
    if faults:
        raise CalibrationRefused(_described(folder, faults))
    return LabelledPairs(root, tuple(pairs))


def _rows(file: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each row that is not empty, with the line it begins on.

    Raises:
        CalibrationRefused: The first line does not name the columns.
    """
    with file.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text)
        header = [cell.strip().lower() for cell in next(reader, [])]
        if missing := [column for column in COLUMNS if header.count(column) != 1]:
            raise CalibrationRefused(
                f"{file} line 1: no column {', '.join(missing)}, or twice; {_expected(file.parent)}"
            )
        began = reader.line_num
        for cells in reader:
            if any(map(str.strip, cells)):
                yield began + 1, dict(zip(header, cells, strict=False))
            began = reader.line_num


class _Places:
    """Finds photographs below the folder, wherever symbolic links lead, and asks for each path once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, str] = {}

    def named(self, column: str, path: str) -> str:
        """Return a photograph's own path in the folder.

        Raises:
            _Fault: It leads out of the folder, or to no file.
        """
        if path not in self._known:
            self._known[path] = self._found(column, path)
        return self._known[path]

    def _found(self, column: str, path: str) -> str:
        try:
            real = Path(os.path.realpath(self._root / path, strict=True))
        except FileNotFoundError as error:
            raise _Fault(f"{column}: there is no file {shown(path)}") from error
        except (OSError, ValueError) as error:
            raise _Fault(f"{column}: {shown(path)} cannot be looked at") from error
        if not real.is_relative_to(self._root):
            raise _Fault(f"{column}: {shown(path)} leads out of the folder; copy the photograph into it")
        if not real.is_file():
            raise _Fault(f"{column}: {shown(path)} is no file")
        return real.relative_to(self._root).as_posix()


def _pair(places: _Places, line: int, row: Mapping[str, str]) -> Pair:
    first, second, label = ((row.get(column) or "").strip() for column in COLUMNS)
    for column, path in (("first", first), ("second", second)):
        if not path:
            raise _Fault(f"{column}: is empty")
        if Path(path).is_absolute():
            raise _Fault(f"{column}: {shown(path)} is absolute; write it relative to the folder")
    if (mated := LABELS.get(label.lower())) is None:
        raise _Fault(f"label: {shown(label)} is neither same nor different")
    names = places.named("first", first), places.named("second", second)
    if names[0] == names[1]:
        raise _Fault("first and second are one file; name two photographs")
    return Pair(line, *names, mated)


def _repeated(pairs: Sequence[Pair]) -> dict[int, str]:
    """Return the rows that repeat another one: counted twice, a pair would feign certainty."""
    lines: dict[frozenset[str], int] = {}
    faults = {}
    for pair in pairs:
        line = lines.setdefault(frozenset((pair.first, pair.second)), pair.line)
        if line != pair.line:
            faults[pair.line] = f"first, second: line {line} has the same two photographs already"
    return faults


def _contradicting(pairs: Sequence[Pair]) -> dict[int, str]:
    """Return the rows that call two people what other rows, one after the other, call one person."""
    people = _people(pairs)
    return {
        pair.line: "label: is different, but rows labelled same make both photographs one person's"
        for pair in pairs
        if not pair.mated and people[pair.first] == people[pair.second]
    }


def _people(pairs: Sequence[Pair]) -> dict[str, str]:
    """Return for each photograph one that stands for its person: that of all who are labelled the same."""
    above: dict[str, str] = {}

    def topmost(name: str) -> str:
        while (higher := above.setdefault(name, name)) != name:
            above[name] = name = above[higher]
        return name

    for pair in pairs:
        one, other = topmost(pair.first), topmost(pair.second)
        if pair.mated:
            above[other] = one
    return {name: topmost(name) for name in [*above]}


def _described(folder: Path, faults: Mapping[int, str]) -> str:
    listed = [f"line {line}, {faults[line]}" for line in sorted(faults)][:FAULTS_SHOWN]
    more = len(faults) - len(listed)
    if more:
        listed.append(f"and {more} more")
    rows = "1 row is" if len(faults) == 1 else f"{len(faults)} rows are"
    return "\n  ".join([f"{folder / PAIRS_FILE}: {rows} wrong", *listed])


def _expected(folder: Path) -> str:
    return f"{folder / PAIRS_FILE} looks like this:\n{EXAMPLE}"


def shown(text: str) -> str:
    """Return a text of somebody else's as it can be printed: without control characters, not too long."""
    printable = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return printable if len(printable) <= 120 else printable[:119] + "…"  # noqa: PLR2004 - a line's length
