"""Tells which lines of a passport's page print the compared fields, to read few lines and to show them.

`visual_zone` says how the print agrees; this says where it stands.
"""

from collections.abc import Mapping
from typing import Final

from streams.verification.observations import Agreement
from streams.verification.readers import visual_zone
from streams.verification.readers.anchors import Side, Value, values
from streams.verification.readers.layout import Placed, level, levelled
from streams.verification.readers.td3_mrz import Td3Reading
from streams.vision_ports import TextLine, TextPage

_USUAL_DATE: Final = len("12 AUG 1974")


def letters(zone: Td3Reading) -> dict[str, int]:
    """Return how many letters the print of each compared field has that the zone tells, a date's roughly."""
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
    """Return the line of each compared field: the one at its label, or one that says what the zone says."""
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
    """Tell whether a line says by itself what the zone says; of the sex, whether it is a letter for one."""
    if name == "sex":
        return line.text.strip().upper()[:1] == zone.fields.get("sex")
    alone = TextPage((line,), page.width, page.height, page.turn)
    return visual_zone.compare(alone, zone)[name] is Agreement.MATCH


def agrees(page: TextPage, zone: Td3Reading) -> bool:
    """Tell whether every field that the zone tells stands on the page at its label and agrees."""
    labelled, agreement = at_labels(page), visual_zone.compare(page, zone)
    return all(name in labelled and agreement[name] is Agreement.MATCH for name in letters(zone))
