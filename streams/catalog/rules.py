"""Validate and sort entries of the catalogue; pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from schemas.catalog import Capability, ExtractionSupport
from schemas.countries import NAME_OF
from schemas.problems import FieldProblem, ProblemCode

CODE_FORM: Final = r"[A-Z]{2}_[A-Z0-9]+(?:_[A-Z0-9]+){0,8}"
"""`<CC>_<DOCUMENT_TYPE>[_<VARIANT>]` (G18)."""

MOST_CODE_CHARS: Final = 64

_CODE: Final = re.compile(CODE_FORM)


def problems_of(entry: Capability) -> Iterator[FieldProblem]:
    """Yield every problem of an entry with its pointer into the body."""
    if entry.country not in NAME_OF:
        yield _wrong("/country", "The country must be an ISO 3166-1 alpha-2 code in upper case.")
    stem = f"{entry.country}_{entry.document_type}"
    named = entry.code == stem or entry.code.startswith(f"{stem}_")
    if not named or len(entry.code) > MOST_CODE_CHARS or _CODE.fullmatch(entry.code) is None:
        yield _wrong("/code", f"The code must be {stem}, or begin with {stem}_ and name a variant.")
    automated = entry.extraction_support is ExtractionSupport.AUTOMATED
    if automated and entry.reader is None:
        yield _wrong("/reader", "AUTOMATED extraction needs a reader.")
    if not automated and entry.reader is not None:
        yield _wrong("/reader", "An entry with a reader has AUTOMATED extraction.")


def in_order(entries: Iterable[Capability]) -> list[Capability]:
    """Return the entries sorted by country, document type and code (G98)."""
    return sorted(entries, key=lambda entry: (entry.country, entry.document_type, entry.code))


def _wrong(pointer: str, message: str) -> FieldProblem:
    return FieldProblem(code=ProblemCode.VALIDATION_FAILED, message=message, pointer=pointer)
