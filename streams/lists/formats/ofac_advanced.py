"""The advanced form of the lists of the US Treasury's OFAC, as XML: `sdn_advanced.xml`.

What a number means stands in the reference values at its beginning, and is looked up there by name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final
from xml.etree.ElementTree import Element

from schemas.lists import EntityKind, Gender, Identifier, NameEntry
from streams.lists.formats.facts import country_code, country_codes, date_of_parts, partial_dates, whole_date
from streams.lists.formats.reading import Reading, unique
from streams.lists.formats.xml import children, local_name, records, text, texts

_REFERENCES: Final = (
    "FeatureType",
    "Country",
    "IDRegDocType",
    "PartySubType",
    "PartyType",
    "DetailReference",
)
_WALLET: Final = "Digital Currency Address"
_BIRTH_DATE: Final = "Birthdate"
_COUNTRIES: Final = ("Nationality Country", "Citizenship Country", "Nationality of Registration")
_GENDERS: Final = {"male": Gender.MALE, "female": Gender.FEMALE}
_KINDS: Final = {"vessel": EntityKind.VESSEL, "aircraft": EntityKind.AIRCRAFT}


@dataclass(slots=True)
class _Known:
    """What the parties refer to."""

    names: dict[tuple[str, str], str] = field(default_factory=dict)
    """By kind of reference value and id."""
    parents: dict[str, str] = field(default_factory=dict)
    """The party type of each subtype."""
    places: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    documents: dict[str, list[Identifier]] = field(default_factory=dict)
    entries: dict[str, NameEntry] = field(default_factory=dict)
    programs: dict[str, list[str]] = field(default_factory=dict)

    def name(self, kind: str, number: str | None) -> str:
        """Return what a reference stands for; empty for an unknown one."""
        return self.names.get((kind, number or ""), "")


def read(file: BinaryIO) -> Reading:
    """Read the parties; their programmes stand at the end of the file, so entries wait for it."""
    reading = Reading()
    reading.entries = _entries(file, reading)
    return reading


def _entries(file: BinaryIO, reading: Reading) -> Iterator[NameEntry]:
    known = _Known()
    for entry in reading.convert(_parties(file, reading, known), lambda element: _entry(element, known)):
        known.entries[entry.entity_id] = entry
    for entity_id, entry in known.entries.items():
        yield entry.model_copy(update={"programs": unique(known.programs.get(entity_id, []))})


def _parties(file: BinaryIO, reading: Reading, known: _Known) -> Iterator[tuple[str, Element]]:
    """Yield the parties; take in what they refer to on the way."""
    others = ("DateOfIssue", "Location", "IDRegDocument", "SanctionsEntry")
    for element in records(file, "DistinctParty", *others, *_REFERENCES):
        match local_name(element):
            case "DistinctParty":
                yield f"party {element.get('FixedRef')}", element
            case "DateOfIssue":
                reading.source_date = reading.source_date or whole_date(_date(element))
            case "Location":
                known.places[element.get("ID", "")] = _place(element, known)
            case "IDRegDocument":
                _take_document(element, known)
            case "SanctionsEntry":
                found = [one for one in texts(element, "SanctionsMeasure", "Comment") if one]
                known.programs.setdefault(element.get("ProfileID", ""), []).extend(found)
            case kind:
                number = element.get("ID", "")
                known.names[kind, number] = (element.text or "").strip()
                known.parents[number] = element.get("PartyTypeID", known.parents.get(number, ""))


def _date(element: Element) -> str:
    return date_of_parts(text(element, "Year"), text(element, "Month"), text(element, "Day"))


def _place(element: Element, known: _Known) -> tuple[str | None, str]:
    country = next(
        (known.name("Country", one.get("CountryID")) for one in children(element, "LocationCountry")), ""
    )
    parts = texts(element, "LocationPart", "LocationPartValue", "Value")
    return country_code(country), ", ".join(filter(None, (*parts, country)))


def _take_document(element: Element, known: _Known) -> None:
    number = text(element, "IDRegistrationNo")
    if number:
        kind = known.name("IDRegDocType", element.get("IDRegDocTypeID")) or "document"
        document = Identifier(type=kind[:256], value=number[:256])
        known.documents.setdefault(element.get("IdentityID", ""), []).append(document)


def _entry(element: Element, known: _Known) -> NameEntry:
    profile = _first(element, "Profile")
    identity = _first(profile, "Identity")
    aliases = sorted(children(identity, "Alias"), key=lambda alias: alias.get("Primary") != "true")
    strong = [_name(one) for one in aliases if one.get("LowQuality") != "true"]
    features = [
        (known.name("FeatureType", one.get("FeatureTypeID")), version)
        for one in children(profile, "Feature")
        for version in children(one, "FeatureVersion")
    ]
    countries = [_country(version, known) for kind, version in features if kind in _COUNTRIES]
    places = [place for kind, version in features if kind == "Location" for place in _places(version, known)]
    genders = (_detail(version, known).lower() for kind, version in features if kind == "Gender")
    return NameEntry(
        entity_id=profile.get("ID") or element.get("FixedRef", ""),
        kind=_kind(profile.get("PartySubTypeID"), known),
        names=unique(strong),
        weak_names=unique(_name(one) for one in aliases if one.get("LowQuality") == "true"),
        birth_dates=tuple(
            dict.fromkeys(_dates(version for kind, version in features if kind == _BIRTH_DATE))
        ),
        countries=country_codes(*countries, *(code for code, _ in places)),
        gender=next((_GENDERS[one] for one in genders if one in _GENDERS), None),
        identifiers=tuple(known.documents.get(identity.get("ID", ""), ())),
        addresses=unique(address for _, address in places),
        wallets=unique(
            text(version, "VersionDetail") for kind, version in features if kind.startswith(_WALLET)
        ),
    )


def _first(element: Element, name: str) -> Element:
    """Return the first child of the name; raises KeyError if there is none."""
    for child in children(element, name):
        return child
    raise KeyError(name)


def _kind(subtype: str | None, known: _Known) -> EntityKind:
    named = known.name("PartySubType", subtype).lower()
    party = known.name("PartyType", known.parents.get(subtype or "")).lower()
    return EntityKind.PERSON if party == "individual" else _KINDS.get(named, EntityKind.ORGANISATION)


def _name(alias: Element) -> str:
    """Put the parts in the order they stand in: the family's first, as the list writes them."""
    return " ".join(texts(alias, "DocumentedName", "DocumentedNamePart", "NamePartValue"))


def _dates(versions: Iterable[Element]) -> Iterator[str]:
    """Yield the day of a period of one day, the month or years of a longer one."""
    for version in versions:
        starts = [_date(one) for one in children(version, "DatePeriod", "Start", "From")]
        ends = [_date(one) for one in children(version, "DatePeriod", "End", "To")]
        for start, end in zip(starts, ends or starts, strict=False):
            if start and end and start != end:
                yield from partial_dates(_common(start, end))
            elif start:
                yield start


def _common(start: str, end: str) -> str:
    """Return the month or year that both dates share, else the years from one to the other."""
    for chars in (len("2026-01"), len("2026")):
        if start[:chars] == end[:chars]:
            return start[:chars]
    return f"{start[:4]} to {end[:4]}"


def _country(version: Element, known: _Known) -> str | None:
    detail = _detail(version, known)
    return detail or next((code for code, _ in _places(version, known)), None)


def _places(version: Element, known: _Known) -> list[tuple[str | None, str]]:
    found = (known.places.get(one.get("LocationID", "")) for one in children(version, "VersionLocation"))
    return [one for one in found if one]


def _detail(version: Element, known: _Known) -> str:
    for one in children(version, "VersionDetail"):
        return known.name("DetailReference", one.get("DetailReferenceID")) or (one.text or "").strip()
    return ""
