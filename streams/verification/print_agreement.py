"""Read the few printed lines of a passport that show its agreement with the machine-readable zone.

Recognised are the lines with the place and shape of a compared field, and the labels of those that match
the zone. Nothing is concluded from a line that differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from streams.verification.image_text import PictureText, machine_lines
from streams.verification.readers import printed_fields
from streams.verification.readers.anchors import label_of
from streams.verification.readers.layout import Placed, facing, length, levelled, shortened
from streams.verification.readers.print_candidates import WIDTHS, Candidate, candidates, pairs_of, width_of
from streams.verification.readers.td3_lines import LENGTH
from streams.verification.readers.td3_mrz import Td3Reading
from streams.verification.readers.visual_zone import LABELS
from streams.vision_ports import Detail, Quad, TextLine, TextPage, Turn

ROUNDS: Final = 3
"""Most times that lines of the print are chosen before the whole page is read."""
NEAR: Final = 0.6
"""Share of the compared fields that must be found to agree for a closer look at few lines to be worth it."""
BEGINNING_ASPECT: Final = 4.5
"""So much of a label names it in most typefaces: `Date of expiry`."""
LABEL_ASPECT: Final = 7.0
"""Characters of a label that identify it; the rest repeats it in other languages."""


async def find_agreeing(
    text: PictureText, zone: Td3Reading, turn: Turn, detail: Detail
) -> tuple[TextPage | None, bool]:
    """Read the lines where the compared fields are likely to stand, and the labels of those that agree.

    Return them only if all agree, because contradictions need the whole page; and whether most do.
    """
    quads = [facing(quad, turn) for quad in await text.find(detail)]
    zone_lines = machine_lines(quads, 0)
    if not zone_lines:
        return None, False
    quads = [quad for quad in quads if quad not in zone_lines]
    lines = levelled(text.turned([TextLine("", 0.0, quad) for quad in quads], turn))
    pairs: Sequence[Candidate] = pairs_of(lines)
    letters = printed_fields.letters(zone)
    widths = [share * length(zone_lines[0]) / LENGTH for share in WIDTHS]
    agreeing: dict[str, Candidate] = {}
    agreed: dict[int, Placed] = {}
    for _ in range(ROUNDS):
        wanted = {name: count for name, count in letters.items() if name not in agreeing}
        pairs = [pair for pair in pairs if pair.value not in agreed]
        tried = candidates(lines, pairs, wanted, widths)
        places = {one.value: one for one in tried.values()}
        page = await text.read([quads[place] for place in places], turn)
        for place, line in zip(places, page.lines, strict=True):
            agreed[place] = replace(lines[place], text=line.text)
            said = [name for name in wanted if printed_fields.says(name, line, page, zone)]
            agreeing |= dict.fromkeys(said, places[place])
        width = width_of([*agreed.values()])
        widths = [width] if width else widths
        if not places or agreeing.keys() == letters.keys():
            break
    if agreeing.keys() != letters.keys():
        return None, len(agreeing) >= NEAR * len(letters)
    values = [quads[place] for place in dict.fromkeys(one.value for one in agreeing.values())]
    labels = await _labels(text, {name: quads[one.label] for name, one in agreeing.items()}, turn)
    page = await text.read([*values, *dict.fromkeys(labels)], turn)
    return (page if printed_fields.agrees(page, zone) else None), True


async def _labels(text: PictureText, labels: Mapping[str, Quad], turn: Turn) -> list[Quad]:
    """Return as much of each field's label as names the field: its first words, or more where they do not."""
    beginnings = {name: shortened(quad, BEGINNING_ASPECT) for name, quad in labels.items()}
    page = await text.read([*beginnings.values()], turn)
    return [
        beginnings[name] if label_of(line.text, LABELS) == name else shortened(labels[name], LABEL_ASPECT)
        for name, line in zip(beginnings, page.lines, strict=True)
    ]
