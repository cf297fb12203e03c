"""Data sets of OpenSanctions: `targets.simple.csv` and FollowTheMoney entities, one JSON object a line."""

import csv
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from schemas.enums import CheckKind
from schemas.lists import EntityKind, Gender, Identifier, NameEntry
from streams.lists.formats.facts import country_codes, partial_dates
from streams.lists.formats.reading import FormatUnreadable, Reading, reading_csv, unique, utf8_text

_KINDS: Final = {
    "Person": EntityKind.PERSON,
    "Vessel": EntityKind.VESSEL,
    "Airplane": EntityKind.AIRCRAFT,
    **dict.fromkeys(
        ("Company", "Organization", "LegalEntity", "PublicBody", "CryptoWallet"), EntityKind.ORGANISATION
    ),
}
_GENDERS: Final = {"male": Gender.MALE, "female": Gender.FEMALE}
_NUMBERS: Final = (
    "idNumber", "passportNumber", "registrationNumber", "taxNumber", "imoNumber", "leiCode", "innCode",
)  # fmt: skip
_COUNTRIES: Final = ("nationality", "country", "citizenship", "jurisdiction")
_TOPIC_CHECKS: Final = {"sanction": CheckKind.SANCTIONS, "role.pep": CheckKind.PEP, "role.rca": CheckKind.PEP}
_NEEDED: Final = {"id", "schema", "name", "aliases"}
_MOST_LINE_CHARS: Final = 4_000_000

Row = dict[str, str]


def read_simple_csv(file: BinaryIO) -> Reading:
    """Read `targets.simple.csv`.

    Raises:
        FormatUnreadable: The header does not have the columns.
    """
    rows = csv.DictReader(utf8_text(file), restkey="rest", restval="")
    with reading_csv():
        columns = set(rows.fieldnames or ())
    if not columns >= _NEEDED:
        raise FormatUnreadable("it does not have the columns of targets.simple.csv")
    reading = Reading()
    reading.entries = reading.convert(((f"line {rows.line_num}", row) for row in rows), _from_row)
    return reading


def read_entities(file: BinaryIO) -> Reading:
    """Read entities line by line; those of other schemata, such as addresses, are no targets."""
    reading = Reading()
    reading.entries = reading.convert(_lines(file), _from_entity)
    return reading


def _lines(file: BinaryIO) -> Iterator[tuple[str, str]]:
    lines = utf8_text(file)
    for number, line in enumerate(iter(lambda: lines.readline(_MOST_LINE_CHARS), ""), start=1):
        if line.strip():
            yield f"line {number}", line


def _cells(row: Row, *columns: str) -> list[str]:
    return [cell.strip() for column in columns for cell in row.get(column, "").split(";") if cell.strip()]


def _from_row(row: Row) -> NameEntry:
    return NameEntry(
        entity_id=row["id"],
        kind=_KINDS.get(row["schema"], EntityKind.ORGANISATION),
        names=unique([row["name"], *_cells(row, "aliases")]),
        birth_dates=partial_dates(*_cells(row, "birth_date")),
        countries=country_codes(*_cells(row, "countries")),
        identifiers=tuple(
            Identifier(type="identifier", value=one[:256]) for one in _cells(row, "identifiers")
        ),
        addresses=unique(_cells(row, "addresses")),
        programs=unique(cell[:256] for cell in _cells(row, "program_ids", "dataset")),
    )


def _from_entity(line: str) -> NameEntry | None:
    try:
        entity = json.loads(line)
    except RecursionError as error:
        raise ValueError from error
    if not isinstance(entity, dict) or not isinstance(entity.get("properties"), dict):
        raise ValueError("no entity")  # noqa: TRY004 - a row that cannot be read
    kind = _KINDS.get(str(entity.get("schema")))
    topics = _values(entity, "topics")
    if kind is None or not _values(entity, "name"):
        return None
    return NameEntry(
        entity_id=str(entity["id"]),
        kind=kind,
        names=unique(_values(entity, "name") + _values(entity, "alias") + _values(entity, "previousName")),
        weak_names=unique(_values(entity, "weakAlias")),
        birth_dates=partial_dates(*_values(entity, "birthDate")),
        countries=country_codes(*(one for column in _COUNTRIES for one in _values(entity, column))),
        gender=next((_GENDERS[one] for one in _values(entity, "gender") if one in _GENDERS), None),
        identifiers=tuple(
            Identifier(type=column.removesuffix("Number").removesuffix("Code"), value=one[:256])
            for column in _NUMBERS
            for one in _values(entity, column)
        ),
        addresses=unique(_values(entity, "address")),
        wallets=unique(_values(entity, "publicKey")),
        programs=unique(one[:256] for one in _values(entity, "program")),
        checks=tuple(dict.fromkeys(_TOPIC_CHECKS[one] for one in topics if one in _TOPIC_CHECKS)),
    )


def _values(entity: dict[str, Any], name: str) -> list[str]:
    found = entity["properties"].get(name, [])
    return [one for one in found if isinstance(one, str) and one.strip()] if isinstance(found, list) else []
