"""The simple form of the lists of the US Treasury's OFAC, as XML: `sdn.xml`, `consolidated.xml`."""

from datetime import date
from typing import BinaryIO, Final
from xml.etree.ElementTree import Element

from schemas.lists import EntityKind, Gender, Identifier, NameEntry
from streams.lists.formats.facts import country_codes, partial_dates
from streams.lists.formats.reading import Reading, unique
from streams.lists.formats.xml import children, local_name, records, text, texts

_KINDS: Final = {
    "individual": EntityKind.PERSON,
    "vessel": EntityKind.VESSEL,
    "aircraft": EntityKind.AIRCRAFT,
}
_GENDERS: Final = {"male": Gender.MALE, "female": Gender.FEMALE}
_WALLET: Final = "Digital Currency Address"


def read(file: BinaryIO) -> Reading:
    """Read the entries; aliases of category weak become weak names."""
    reading = Reading()
    rows = (
        (f"entry {at}", one) for at, one in enumerate(records(file, "publshInformation", "sdnEntry"), start=1)
    )
    reading.entries = reading.convert(rows, lambda element: _entry(element, reading))
    return reading


def _entry(element: Element, reading: Reading) -> NameEntry | None:
    if local_name(element) == "publshInformation":
        month, day, year = text(element, "Publish_Date").split("/")
        reading.source_date = date(int(year), int(month), int(day))
        return None
    aliases = [(text(one, "category"), _name(one)) for one in children(element, "akaList", "aka")]
    documents = [(text(one, "idType"), text(one, "idNumber")) for one in children(element, "idList", "id")]
    return NameEntry(
        entity_id=text(element, "uid"),
        kind=_KINDS.get(text(element, "sdnType").lower(), EntityKind.ORGANISATION),
        names=unique([_name(element), *(name for category, name in aliases if category != "weak")]),
        weak_names=unique(name for category, name in aliases if category == "weak"),
        birth_dates=partial_dates(*texts(element, "dateOfBirthList", "dateOfBirthItem", "dateOfBirth")),
        countries=country_codes(
            *texts(element, "nationalityList", "nationality", "country"),
            *texts(element, "citizenshipList", "citizenship", "country"),
            *texts(element, "addressList", "address", "country"),
        ),
        gender=next(
            (
                _GENDERS[value.lower()]
                for kind, value in documents
                if kind == "Gender" and value.lower() in _GENDERS
            ),
            None,
        ),
        identifiers=tuple(
            Identifier(type=kind or "document", value=value[:256])
            for kind, value in documents
            if value and kind != "Gender" and not kind.startswith(_WALLET)
        ),
        addresses=unique(_address(one) for one in children(element, "addressList", "address")),
        wallets=unique(value for kind, value in documents if kind.startswith(_WALLET)),
        programs=unique(texts(element, "programList", "program")),
    )


def _name(element: Element) -> str:
    return f"{text(element, 'firstName')} {text(element, 'lastName')}"


def _address(element: Element) -> str:
    parts = ("address1", "address2", "address3", "city", "stateOrProvince", "postalCode", "country")
    return ", ".join(filter(None, (text(element, part) for part in parts)))
