"""Compute where each field was read: from lines of text to places on the upright picture."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from streams.verification.observations import Place, Source
from streams.verification.readers.layout import Placed, between, turn_back
from streams.verification.readers.likeness import distance
from streams.verification.readers.td3_lines import (
    BIRTH,
    EXPIRY,
    FILLER,
    LENGTH,
    NAMES,
    NATIONALITY,
    NUMBER,
    SEX,
)
from streams.verification.readers.td3_mrz import Td3Reading
from streams.verification.readers.td3_text import MIN_LENGTH, normalise
from streams.vision_ports import Quad, TextPage

_DECIMALS: Final = 5
"""A tenth of a pixel on the largest picture."""
ISSUER: Final = slice(2, 5)
"""Of the first line."""
_SECOND: Final = {
    "document_number": NUMBER,
    "nationality": NATIONALITY,
    "date_of_birth": BIRTH,
    "sex": slice(SEX, SEX + 1),
    "expiry_date": EXPIRY,
}
"""Where the fields of the second line stand in it."""

Places = Mapping[str, tuple[Place, ...]]
"""Field to where it was read."""


def zone_places(zone: Td3Reading, page: TextPage) -> Places:
    """Return where the fields of a zone stand; among the page's lines are those in which it was found.

    The letters of a zone stand at equal distances, so that a part of a line is a share of its quad.
    """
    lines = [line for line in page.lines if len(normalise(line.text)) >= MIN_LENGTH]
    parts = ({"issuing_state": ISSUER, "full_name": NAMES} | _names(zone.lines[0]), _SECOND)
    found: dict[str, tuple[Place, ...]] = {}
    for text, fields in zip(zone.lines, parts, strict=True):
        if not (text and lines):
            continue
        line = min(lines, key=lambda one: distance(normalise(one.text), text))
        for name, part in fields.items():
            quad = _part(line.quad, part)
            found[name] = (Place(Source.ZONE, _on_picture(quad, page), text[part].strip(FILLER)),)
    return found


def _names(first: str) -> dict[str, slice]:
    surname, _, given = first[NAMES].partition(FILLER * 2)
    start = NAMES.start + len(surname) + 2
    given = given.rstrip(FILLER)
    parts = {"surname": slice(NAMES.start, NAMES.start + len(surname))}
    return parts | ({"given_names": slice(start, start + len(given))} if given else {})


def merged(*several: Places) -> Places:
    """Return all places of each field."""
    names: Iterable[str] = dict.fromkeys(name for places in several for name in places)
    return {name: tuple(one for places in several for one in places.get(name, ())) for name in names}


def printed_places(page: TextPage, lines: Mapping[str, Sequence[Placed]]) -> Places:
    """Return where the printed fields of a page stand, by their lines."""
    return {
        name: tuple(Place(Source.PAGE, _on_picture(one.quad, page), one.text) for one in several)
        for name, several in lines.items()
        if several
    }


def _part(quad: Quad, part: slice) -> Quad:
    one, two, three, four = quad
    start, stop = part.start / LENGTH, part.stop / LENGTH
    return (
        between(one, two, start),
        between(one, two, stop),
        between(four, three, stop),
        between(four, three, start),
    )


def _on_picture(quad: Quad, page: TextPage) -> Quad:
    wide, tall = (page.width, page.height) if page.turn in (0, 180) else (page.height, page.width)
    one, two, three, four = ((_share(x, wide), _share(y, tall)) for x, y in turn_back(quad, page))
    return one, two, three, four


def _share(at: float, side: int) -> float:
    return round(min(1.0, max(0.0, at / max(side, 1))), _DECIMALS)
