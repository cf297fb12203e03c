"""The sanctions list of the United Kingdom's foreign office, as CSV: one row for each name and address."""

import csv
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from schemas.lists import EntityKind, Gender, Identifier, NameEntry
from streams.lists.formats.facts import country_codes, partial_dates, whole_date
from streams.lists.formats.reading import FormatUnreadable, Reading, reading_csv, unique, utf8_text

_REPORT_DATE: Final = "report date"
_KINDS: Final = {
    "individual": EntityKind.PERSON,
    "entity": EntityKind.ORGANISATION,
    "ship": EntityKind.VESSEL,
}
_GENDERS: Final = {"male": Gender.MALE, "female": Gender.FEMALE}
_GIVEN: Final = tuple(f"Name {number}" for number in range(1, 6))
_FAMILY: Final = "Name 6"
_NUMBERS: Final = (
    ("passport", "Passport number"),
    ("national id", "National Identifier number"),
    ("registration", "Business registration number (s)"),
    ("imo", "IMO number"),
)
_NEEDED: Final = {"Unique ID", _FAMILY}

Row = dict[str, str]


def read(file: BinaryIO) -> Reading:
    """Read the rows, grouped by their unique id.

    Raises:
        FormatUnreadable: The header does not have the columns; a page of HTML sometimes comes instead.
    """
    lines = utf8_text(file)
    first = lines.readline()
    header = first if first.lower().startswith('"unique id') or "Unique ID" in first else lines.readline()
    with reading_csv():
        columns = [name.strip() for name in next(csv.reader([header]), [])]
    if not set(columns) >= _NEEDED:
        raise FormatUnreadable("it does not have the columns of this list")
    reading = Reading()
    dates = partial_dates(first.partition(":")[2].strip(' ",\r\n').replace("-", " "))
    if first.strip('"').lower().startswith(_REPORT_DATE) and dates:
        reading.source_date = whole_date(dates[0])
    rows = csv.DictReader(lines, fieldnames=columns, restkey="rest", restval="")
    reading.entries = reading.convert(_grouped(rows), _entry)
    return reading


def _grouped(rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each entity; they need not follow one another."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row["Unique ID"].strip():
            groups.setdefault(row["Unique ID"].strip(), []).append(row)
    yield from groups.items()


def _entry(rows: list[Row]) -> NameEntry:
    first = rows[0]
    weak = [row for row in rows if "low" in row.get("Alias strength", "").lower()]
    strong = sorted(
        (row for row in rows if row not in weak),
        key=lambda row: "primary" not in row.get("Name type", "").lower(),
    )
    return NameEntry(
        entity_id=first["Unique ID"].strip(),
        kind=_KINDS.get(
            first.get("Designation Type", first.get("Individual, Entity, Ship", "")).strip().lower(),
            EntityKind.ORGANISATION,
        ),
        names=unique(name for row in strong or weak for name in _names(row)),
        weak_names=unique(name for row in weak for name in _names(row)) if strong else (),
        birth_dates=_all_dates(rows),
        countries=country_codes(
            *(row.get(column) for row in rows for column in ("Nationality(/ies)", "Address Country"))
        ),
        gender=next(
            (found for row in rows if (found := _GENDERS.get(row.get("Gender", "").strip().lower()))), None
        ),
        identifiers=tuple(dict.fromkeys(_identifiers(rows))),
        addresses=unique(_address(row) for row in rows),
        programs=unique(row.get("Regime Name") for row in rows),
    )


def _names(row: Row) -> Iterator[str]:
    yield " ".join(row.get(column, "") for column in (*_GIVEN, _FAMILY))
    yield row.get("Name non-latin script", "")


def _all_dates(rows: list[Row]) -> tuple[str, ...]:
    return partial_dates(*(row.get("D.O.B") for row in rows))


def _identifiers(rows: list[Row]) -> Iterator[Identifier]:
    for row in rows:
        for kind, column in _NUMBERS:
            if value := row.get(column, "").strip():
                yield Identifier(type=kind, value=value[:256])


def _address(row: Row) -> str:
    columns = (
        *(f"Address Line {number}" for number in range(1, 7)),
        "Address Postal Code",
        "Address Country",
    )
    return ", ".join(filter(None, (row.get(column, "").strip() for column in columns)))
