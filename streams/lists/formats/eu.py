"""The consolidated financial sanctions list of the European Union, as XML."""

from datetime import date
from typing import BinaryIO, Final
from xml.etree.ElementTree import Element

from schemas.lists import EntityKind, Gender, Identifier, NameEntry
from streams.lists.formats.facts import country_codes, date_of_parts, partial_dates, whole_date
from streams.lists.formats.reading import Reading, unique
from streams.lists.formats.xml import children, records

_GENDERS: Final = {"M": Gender.MALE, "F": Gender.FEMALE}


def read(file: BinaryIO) -> Reading:
    """Read persons and enterprises; aliases that the list does not call strong become weak names."""
    reading = Reading(source_date=_generated_on(file))
    rows = ((f"entry {at}", one) for at, one in enumerate(records(file, "sanctionEntity"), start=1))
    reading.entries = reading.convert(rows, _entry)
    return reading


def _generated_on(file: BinaryIO) -> date | None:
    """Read the date from the root element, which the records leave behind."""
    head = file.read(4096)
    file.seek(0)
    found = head.partition(b'generationDate="')[2][:10]
    return whole_date(found.decode("ascii", errors="replace"))


def _entry(element: Element) -> NameEntry:
    aliases = [(one.get("strong") != "false", _whole_name(one)) for one in children(element, "nameAlias")]
    strong = unique(name for is_strong, name in aliases if is_strong)
    weak = unique(name for is_strong, name in aliases if not is_strong)
    kinds = {one.get("classificationCode") for one in children(element, "subjectType")}
    return NameEntry(
        entity_id=element.get("euReferenceNumber") or element.get("logicalId", ""),
        kind=EntityKind.PERSON if "P" in kinds else EntityKind.ORGANISATION,
        names=strong or weak,
        weak_names=weak if strong else (),
        birth_dates=_birth_dates(element),
        countries=country_codes(
            *(one.get("countryIso2Code") for one in children(element, "citizenship")),
            *(one.get("countryIso2Code") for one in children(element, "address")),
        ),
        gender=next(
            (
                _GENDERS[found]
                for one in children(element, "nameAlias")
                if (found := one.get("gender")) in _GENDERS
            ),
            None,
        ),
        identifiers=tuple(
            Identifier(type=one.get("identificationTypeCode") or "document", value=one.get("number", ""))
            for one in children(element, "identification")
            if one.get("number")
        ),
        addresses=unique(_address(one) for one in children(element, "address")),
        programs=unique(one.get("programme") for one in children(element, "regulation")),
    )


def _whole_name(alias: Element) -> str:
    parts = (alias.get(part, "") for part in ("firstName", "middleName", "lastName"))
    return alias.get("wholeName") or " ".join(parts)


def _birth_dates(element: Element) -> tuple[str, ...]:
    found: list[str] = []
    for one in children(element, "birthdate"):
        made = date_of_parts(one.get("year"), one.get("monthOfYear"), one.get("dayOfMonth"))
        found += [made] if made else partial_dates(one.get("birthdate"))
    return tuple(dict.fromkeys(found))


def _address(element: Element) -> str:
    parts = ("street", "poBox", "zipCode", "city", "region", "countryDescription")
    return ", ".join(filter(None, (element.get(part) for part in parts)))
