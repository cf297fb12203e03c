"""The initial content of the catalogue (G72); pure."""

from collections.abc import Iterator
from datetime import datetime

from schemas.catalog import Capability, CaptureRequirements, ExtractionSupport
from schemas.countries import NAME_OF, PASSPORT_ISSUERS
from schemas.enums import DocumentType, ReaderClass

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
