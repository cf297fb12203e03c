"""Find the lines of a passport's page that print the compared fields.

`visual_zone` compares the print; this module locates it.
"""

from collections.abc import Mapping
from typing import Final

from streams.verification.observations import Agreement
from streams.verification.readers import visual_zone
from streams.verification.readers.anchors import Side, Value, values
from streams.verification.readers.layout import Placed, level, levelled
from streams.verification.readers.td3_mrz import Td3Reading
from streams.vision_ports import TextLine, TextPage

_USUAL_DATE: Final = len("12 AUG 1974") - 1
"""Its spaces are half as wide as its letters."""


def letters(zone: Td3Reading) -> dict[str, int]:
    """Return the number of printed letters of each compared field by the zone, roughly for dates."""
    counts = {
        "document_number": len(zone.number or ""),
        "surname": len(zone.fields.get("surname", "")),
        "given_names": len(zone.fields.get("given_names", "")),
        "date_of_birth": _USUAL_DATE if zone.birth else 0,
        "expiry_date": _USUAL_DATE if zone.expires else 0,
        "sex": len(zone.fields.get("sex", "")),
    }
    return {name: count for name, count in counts.items() if count}


def at_labels(page: TextPage) -> Mapping[str, Value]:
    """Return the value at each field's label."""
    return values(level(page), visual_zone.LABELS, (Side.BELOW, Side.RIGHT))


def lines_of(page: TextPage, zone: Td3Reading) -> dict[str, tuple[Placed, ...]]:
    """Return the line of each compared field: the one at its label, or one equal to the zone."""
    labelled, placed = at_labels(page), levelled(page)
    found: dict[str, tuple[Placed, ...]] = {}
    for name in letters(zone):
        if name in labelled:
            found[name] = (labelled[name].line,)
        elif name != "sex":
            pairs = zip(placed, page.lines, strict=True)
            found[name] = tuple(line for line, text in pairs if says(name, text, page, zone))[:1]
    return found


def says(name: str, line: TextLine, page: TextPage, zone: Td3Reading) -> bool:
    """Return whether a line alone equals the zone's value; for the sex, whether it is one of its letters."""
    if name == "sex":
        return visual_zone.printed_sex(line.text) == zone.fields.get("sex")
    alone = TextPage((line,), page.width, page.height, page.turn)
    return visual_zone.compare(alone, zone)[name] is Agreement.MATCH


def agrees(page: TextPage, zone: Td3Reading) -> bool:
    """Return whether every field of the zone is on the page at its label and agrees."""
    labelled, agreement = at_labels(page), visual_zone.compare(page, zone)
    return all(name in labelled and agreement[name] is Agreement.MATCH for name in letters(zone))
