"""Lists of tenants' own: entries as JSON, one a line (NDJSON), as CSV, or as one JSON document (G116)."""

import csv
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from pydantic import ValidationError

from schemas.enums import TextEnum
from schemas.lists import ENTRY_MODEL, ListEntry, ListKind, entry_key
from streams.lists.formats.reading import utf8_text

_MOST_ERRORS: Final = 100
_MOST_LINE_CHARS: Final = 1_000_000
_MOST_PARTS: Final = 2_000_000
"""Objects and arrays of a JSON document, which are all in memory at one time; eight for each entry."""
_MANY: Final = frozenset(
    {"names", "weak_names", "birth_dates", "countries", "addresses", "wallets", "programs", "checks"}
)
"""Columns of a CSV file that hold several values, with `;` between them."""


class TextForm(TextEnum):
    """How entries are written down."""

    NDJSON = "NDJSON"
    CSV = "CSV"
    JSON = "JSON"


class EntryError(NamedTuple):
    """What is wrong with an entry, and where it stands."""

    pointer: str
    """RFC 6901, such as `/entries/3/names`."""
    line: int | None
    message: str


class EntriesInvalid(Exception):
    """Entries cannot be read; `errors` has the first hundred."""

    def __init__(self, errors: list[EntryError]) -> None:
        super().__init__(f"{len(errors)} errors")
        self.errors = errors


def read_entries(file: BinaryIO, form: TextForm, kind: ListKind, most: int) -> list[ListEntry]:
    """Return all entries.

    Raises:
        EntriesInvalid: An entry cannot be read, an id stands twice, or there are more than `most`.
    """
    rows = {TextForm.NDJSON: _ndjson, TextForm.CSV: _csv, TextForm.JSON: _json}[form]
    entries: list[ListEntry] = []
    errors: list[EntryError] = []
    seen: set[str] = set()
    for position, (line, row) in enumerate(rows(file)):
        if position == most:
            raise EntriesInvalid([EntryError("/entries", line, f"there are more than {most} entries")])
        try:
            entry = ENTRY_MODEL[kind].model_validate_json(json.dumps(row))
        except ValidationError as error:
            errors += _errors_of(error, position, line)
        else:
            if entry_key(entry) in seen:
                errors.append(EntryError(f"/entries/{position}", line, "this entry stands twice"))
            seen.add(entry_key(entry))
            entries.append(entry)
        if len(errors) >= _MOST_ERRORS:
            break
    if errors:
        raise EntriesInvalid(errors[:_MOST_ERRORS])
    return entries


def _errors_of(error: ValidationError, position: int, line: int | None) -> Iterator[EntryError]:
    for found in error.errors(include_input=False, include_url=False):
        yield EntryError(_pointer("entries", position, *found["loc"]), line, found["msg"])


def _pointer(*place: str | int) -> str:
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in place)
    return "".join(f"/{part}" for part in parts)


class _KeyTwice(Exception):
    """An object names a key twice: one of its values would be lost."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _KeyTwice
    return found


def _parse(text: str, pointer: str, line: int | None = None) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        message = "this is no JSON"
    except _KeyTwice:
        message = "a key stands twice in an object"
    raise EntriesInvalid([EntryError(pointer, line, message)])


def _ndjson(file: BinaryIO) -> Iterator[tuple[int | None, Any]]:
    lines = utf8_text(file)
    position = 0
    for number, text in enumerate(iter(lambda: lines.readline(_MOST_LINE_CHARS), ""), start=1):
        if text.strip():
            yield number, _parse(text, f"/entries/{position}", number)
            position += 1


def _json(file: BinaryIO) -> Iterator[tuple[int | None, Any]]:
    text = utf8_text(file).read()
    if text.count("{") + text.count("[") > _MOST_PARTS:
        raise EntriesInvalid([EntryError("/entries", None, "there are too many objects and arrays")])
    document = _parse(text, "")
    entries = document.pop("entries", None) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise EntriesInvalid([EntryError("/entries", None, "a list of entries is missing")])
    if document:
        unknown = [EntryError(_pointer(name), None, "this field is unknown") for name in document]
        raise EntriesInvalid(unknown[:_MOST_ERRORS])
    for entry in entries:
        yield None, entry


def _csv(file: BinaryIO) -> Iterator[tuple[int | None, Any]]:
    """Read rows under a header; cells that hold several values have `;` between, identifiers `type:value`."""
    rows = csv.DictReader(utf8_text(file), restval="")
    try:
        for row in rows:
            if None in row:
                raise EntriesInvalid(
                    [EntryError("/entries", rows.line_num, "a row has more cells than the header")]
                )
            yield rows.line_num, {name: _cell(name, text) for name, text in row.items() if text.strip()}
    except csv.Error:
        raise EntriesInvalid([EntryError("/entries", rows.line_num, "this is no CSV")]) from None


def _cell(name: str, text: str) -> Any:
    cells = [cell.strip() for cell in text.split(";") if cell.strip()]
    if name == "identifiers":
        pairs = (cell.partition(":") for cell in cells)
        return [
            {"type": kind if colon else "identifier", "value": value if colon else kind}
            for kind, colon, value in pairs
        ]
    return cells if name in _MANY else text.strip()
