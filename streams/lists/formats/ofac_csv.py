"""The lists of the US Treasury's OFAC as CSV without a header: `sdn.csv`, with `add.csv` and `alt.csv`.

`-0-` is empty; birth dates, nationalities, numbers and wallets stand in the remarks.
"""

import csv
import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from schemas.lists import EntityKind, Gender, Identifier, NameEntry
from streams.lists.formats.facts import country_codes, partial_dates
from streams.lists.formats.reading import FormatUnreadable, Reading, reading_csv, unique, utf8_text

_COLUMNS: Final = 12
_ALIAS_COLUMNS: Final = 4
_ADDRESS_COLUMNS: Final = 5
_EMPTY: Final = "-0-"
_KINDS: Final = {
    "individual": EntityKind.PERSON,
    "vessel": EntityKind.VESSEL,
    "aircraft": EntityKind.AIRCRAFT,
}
_NUMBER: Final = re.compile(
    r"^(?:alt\. )?(Passport|National ID No\.|Tax ID No\.|Registration Number|Identification Number|Vessel "
    r"Registration Identification|Cedula No\.|Company Number)\s+(?:IMO )?([^\s(]+)",
    re.IGNORECASE,
)
_WALLET: Final = re.compile(r"^(?:alt\. )?Digital Currency Address - \w+ (\S+)")
_PROGRAMS: Final = re.compile(r"[\]\[]+")

Rows = dict[str, list[list[str]]]


def read(file: BinaryIO, aliases: BinaryIO | None = None, addresses: BinaryIO | None = None) -> Reading:
    """Read `sdn.csv` and, where given, the files of aliases and addresses.

    Raises:
        FormatUnreadable: The first row does not have the columns.
    """
    rows = csv.reader(utf8_text(file))
    with reading_csv():
        other_names = _by_entity(aliases, _ALIAS_COLUMNS)
        places = _by_entity(addresses, _ADDRESS_COLUMNS)
        first = next(rows, [])
    if len(first) != _COLUMNS or not first[0].strip().isdigit():
        raise FormatUnreadable("its first row is not one of sdn.csv")
    reading = Reading()

    def numbered() -> Iterator[tuple[str, list[str]]]:
        yield "line 1", first
        for row in rows:
            if len(row) == _COLUMNS:
                yield f"line {rows.line_num}", row
            elif row and row != ["\x1a"]:
                reading.fail(f"line {rows.line_num}", "another number of columns")

    reading.entries = reading.convert(numbered(), lambda row: _entry(row, other_names, places))
    return reading


def _by_entity(file: BinaryIO | None, columns: int) -> Rows:
    found: Rows = {}
    for row in csv.reader(utf8_text(file)) if file else ():
        if len(row) > columns - 1:
            found.setdefault(row[0].strip(), []).append([_filled(cell) for cell in row])
    return found


def _filled(cell: str) -> str:
    return "" if cell.strip() == _EMPTY else cell.strip()


def _entry(row: list[str], other_names: Rows, places: Rows) -> NameEntry:
    entity, name, kind, program, *_, remarks = map(_filled, row)
    of_kind = _KINDS.get(kind, EntityKind.ORGANISATION)
    facts = [fact.strip().rstrip(".") for fact in remarks.split(";")]
    aliases = other_names.get(entity, [])
    addresses = places.get(entity, [])
    weak = [alias[3] for alias in aliases if alias[-1].lower().startswith("weak")]
    return NameEntry(
        entity_id=entity,
        kind=of_kind,
        names=unique(
            _turned(one, of_kind) for one in (name, *(alias[3] for alias in aliases if alias[3] not in weak))
        ),
        weak_names=unique(_turned(one, of_kind) for one in weak),
        birth_dates=partial_dates(*_after(facts, "DOB ")),
        countries=country_codes(
            *_after(facts, "nationality "), *_after(facts, "citizen "), *(one[4] for one in addresses)
        ),
        gender=next(
            (Gender(one[0].upper()) for one in _after(facts, "Gender ") if one.lower() in {"male", "female"}),
            None,
        ),
        identifiers=tuple(
            Identifier(type=found[1].removesuffix(" No."), value=found[2])
            for fact in facts
            if (found := _NUMBER.match(fact))
        ),
        addresses=unique(", ".join(filter(None, one[2:5])) for one in addresses),
        wallets=unique(found[1] for fact in facts if (found := _WALLET.match(fact))),
        programs=unique(_PROGRAMS.split(program)),
    )


def _turned(name: str, kind: EntityKind) -> str:
    """Put the given names of a person first."""
    family, comma, given = name.partition(",")
    return f"{given} {family}" if comma and kind is EntityKind.PERSON else name


def _after(facts: list[str], start: str) -> list[str]:
    return [
        fact.removeprefix("alt. ")[len(start) :]
        for fact in facts
        if fact.removeprefix("alt. ").startswith(start)
    ]
