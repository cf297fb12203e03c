"""Validate and sort entries of the catalogue, and its initial content; pure."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from schemas.catalog import Capability, CaptureRequirements, ExtractionSupport
from schemas.countries import NAME_OF, PASSPORT_ISSUERS
from schemas.enums import DocumentType, ReaderClass
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


_NIGERIAN = (
    ("NG_DRIVING_LICENCE", DocumentType.DRIVING_LICENCE, "Nigeria driver's licence"),
    ("NG_OTHER_VOTERS_CARD", DocumentType.OTHER, "Nigeria voter's card"),
    ("NG_RESIDENCE_PERMIT", DocumentType.RESIDENCE_PERMIT, "Nigeria residence permit (CERPAC)"),
    ("NG_NATIONAL_ID", DocumentType.NATIONAL_ID, "Nigeria national identity card"),
)
"""Common documents without a reader."""


def first_catalogue(now: datetime) -> tuple[Capability, ...]:
    """Return the entries of a new deployment."""
    return (*_nigerian(now), *_passports(now))


def _nigerian(now: datetime) -> Iterator[Capability]:
    yield _entry("NG_NIN_SLIP", "NG", DocumentType.NIN_SLIP, "Nigeria NIN slip", ReaderClass.NG_NIN_SLIP, now)
    for code, document_type, display_name in _NIGERIAN:
        yield _entry(code, "NG", document_type, display_name, None, now)


def _passports(now: datetime) -> Iterator[Capability]:
    for country in sorted(PASSPORT_ISSUERS):
        name = f"{NAME_OF[country]} passport"
        yield _entry(f"{country}_PASSPORT", country, DocumentType.PASSPORT, name, ReaderClass.TD3_MRZ, now)


def _entry(
    code: str,
    country: str,
    document_type: DocumentType,
    display_name: str,
    reader: ReaderClass | None,
    now: datetime,
) -> Capability:
    return Capability(
        code=code,
        country=country,
        country_name=NAME_OF[country],
        document_type=document_type,
        display_name=display_name,
        extraction_support=ExtractionSupport.AUTOMATED if reader else ExtractionSupport.MANUAL,
        capture=CaptureRequirements(document_number_required=reader is not None),
        reader=reader,
        created_at=now,
        updated_at=now,
    )
