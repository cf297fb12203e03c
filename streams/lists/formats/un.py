"""The consolidated list of the United Nations Security Council, as XML."""

from typing import BinaryIO, Final
from xml.etree.ElementTree import Element

from schemas.lists import EntityKind, Gender, Identifier, NameEntry
from streams.lists.formats.facts import country_codes, partial_dates, whole_date
from streams.lists.formats.reading import Reading, unique
from streams.lists.formats.xml import children, local_name, records, text, texts

_NAME_PARTS: Final = ("FIRST_NAME", "SECOND_NAME", "THIRD_NAME", "FOURTH_NAME")
_GENDERS: Final = {"male": Gender.MALE, "female": Gender.FEMALE}


def read(file: BinaryIO) -> Reading:
    """Read persons and organisations; aliases of low quality become weak names."""
    reading = Reading()
    rows = ((f"entry {at}", one) for at, one in enumerate(records(file, "INDIVIDUAL", "ENTITY"), start=1))
    reading.entries = reading.convert(rows, lambda element: _entry(element, reading))
    return reading


def _entry(element: Element, reading: Reading) -> NameEntry:
    prefix = local_name(element)
    listed_on = max(
        (
            one[:10]
            for one in (text(element, "LISTED_ON"), *texts(element, "LAST_DAY_UPDATED", "VALUE"))
            if one
        ),
        default="",
    )
    if listed := whole_date(listed_on):
        reading.source_date = max(reading.source_date or listed, listed)
    aliases = [
        (text(alias, "QUALITY").lower(), text(alias, "ALIAS_NAME"))
        for alias in children(element, f"{prefix}_ALIAS")
    ]
    return NameEntry(
        entity_id=text(element, "DATAID"),
        kind=EntityKind.PERSON if prefix == "INDIVIDUAL" else EntityKind.ORGANISATION,
        names=unique(
            [
                " ".join(text(element, part) for part in _NAME_PARTS),
                text(element, "NAME_ORIGINAL_SCRIPT"),
                *(name for quality, name in aliases if quality != "low"),
            ]
        ),
        weak_names=unique(name for quality, name in aliases if quality == "low"),
        birth_dates=_birth_dates(element),
        countries=country_codes(
            *texts(element, "NATIONALITY", "VALUE"), *texts(element, f"{prefix}_ADDRESS", "COUNTRY")
        ),
        gender=_GENDERS.get(text(element, "GENDER").lower()),
        identifiers=tuple(
            Identifier(type=text(one, "TYPE_OF_DOCUMENT") or "document", value=text(one, "NUMBER"))
            for one in children(element, f"{prefix}_DOCUMENT")
            if text(one, "NUMBER")
        ),
        addresses=unique(_address(one) for one in children(element, f"{prefix}_ADDRESS")),
        programs=unique([text(element, "UN_LIST_TYPE")]),
    )


def _birth_dates(element: Element) -> tuple[str, ...]:
    found: list[str] = []
    for one in children(element, "INDIVIDUAL_DATE_OF_BIRTH"):
        between = "-".join(filter(None, (text(one, "FROM_YEAR"), text(one, "TO_YEAR"))))
        found += partial_dates(
            text(one, "DATE"), text(one, "YEAR"), f"between {between}" if between else None
        )
    return tuple(dict.fromkeys(found))


def _address(element: Element) -> str:
    parts = ("STREET", "CITY", "STATE_PROVINCE", "ZIP_CODE", "COUNTRY")
    return ", ".join(filter(None, (text(element, part) for part in parts)))
