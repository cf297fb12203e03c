"""Read the printed lines of a passport that are compared with the machine-readable zone.

First the few that show its agreement: the lines with the place and shape of a compared field, and the labels
of those that match the zone; nothing is concluded from a line that differs. Where the whole page was read
and does not agree, what was hardly recognised or hidden is read once more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from streams.verification.image_text import PictureText, machine_lines
from streams.verification.observations import Agreement
from streams.verification.readers import printed_fields
from streams.verification.readers.anchors import label_of
from streams.verification.readers.layout import (
    Placed,
    between,
    contains,
    facing,
    height,
    length,
    levelled,
    shortened,
    turn_back,
)
from streams.verification.readers.print_candidates import WIDTHS, Candidate, candidates, pairs_of, width_of
from streams.verification.readers.td3_lines import LENGTH
from streams.verification.readers.td3_mrz import Td3Reading
from streams.verification.readers.td3_witness import CLEAR
from streams.verification.readers.visual_zone import LABELS, compare, printed_sex
from streams.vision_ports import Detail, Quad, TextLine, TextPage, Turn

ROUNDS: Final = 3
"""Most times that lines of the print are chosen before the whole page is read."""
NEAR: Final = 0.6
"""Share of the compared fields that must be found to agree for a closer look at few lines to be worth it."""
BEGINNING_ASPECT: Final = 4.5
"""So much of a label names it in most typefaces: `Date of expiry`."""
LABEL_ASPECT: Final = 7.0
"""Characters of a label that identify it; the rest repeats it in other languages."""
PARTS: Final = ((0.5, 1.0), (0.4, 1.0), (0.65, 1.0), (0.0, 0.5), (0.0, 0.4))
"""Parts of a line that are read by themselves; most states print Latin letters behind others."""
BILINGUAL_MAX: Final = 24
"""Lines read in parts; a passport has a dozen labels and as many values."""
PART_ASPECT_MIN: Final = 1.3
"""Width over height from which a line has parts: `Ж/F` has, `F` has none."""
LETTER_ASPECT_MAX: Final = 0.85
"""Width over height of the widest letters; a line of fewer lost some."""
LARGE: Final = 2.5
"""Height of a line that may hide others, in those of the usual line."""


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


async def read_parts(text: PictureText, page: TextPage, zone: Td3Reading) -> TextPage:
    """Read parts of bilingual lines that were hardly recognised, unless a page agrees with its zone.

    Beside a script that the recogniser does not know, it loses Latin letters too. A part replaces its line
    where it names a field, or is what stands on its side of a stroke.
    """
    if printed_fields.agrees(page, zone):
        return page
    lines = {line: line for line in page.lines}
    for start, stop in PARTS:
        hard = [line for line in page.lines if lines[line] is line and _is_bilingual(line)][:BILINGUAL_MAX]
        quads = [_part(turn_back(line.quad, page), start, stop) for line in hard]
        read = await text.read(quads, page.turn)
        lines |= {
            line: _clearer(line, part, last=stop == 1) for line, part in zip(hard, read.lines, strict=True)
        }
    return replace(page, lines=tuple(lines.values()))


async def read_hidden(text: PictureText, page: TextPage, zone: Td3Reading) -> TextPage:
    """Read the lines of a page that its largest line hides, where a field is not found.

    A detector takes what is printed upon a large pale word for a part of that word.
    """
    usual = median(height(line.quad) for line in page.lines) if page.lines else 0.0
    large = [line.quad for line in page.lines if length(line.quad) > height(line.quad) > LARGE * usual]
    if not large or Agreement.NOT_FOUND not in compare(page, zone).values():
        return page
    largest = max(large, key=length)
    found = [facing(quad, page.turn) for quad in await text.find_around(turn_back(largest, page))]
    known = [turn_back(line.quad, page) for line in page.lines if line.quad != largest]
    new = [one for one in found if not any(contains(quad, between(one[0], one[2], 0.5)) for quad in known)]
    lines = (await text.read(new, page.turn)).lines
    return replace(page, lines=(*page.lines, *(line for line in lines if line.score >= CLEAR)))


def _is_bilingual(line: TextLine) -> bool:
    """Return whether a line may be of two scripts: hardly recognised with a stroke, or most of it lost."""
    long, high = length(line.quad), height(line.quad)
    sparse = long > LETTER_ASPECT_MAX * high * len("".join(line.text.split()))
    hard = sparse or (line.score < CLEAR and "/" in line.text)
    return hard and long > PART_ASPECT_MIN * high and label_of(line.text, LABELS) is None


def _part(quad: Quad, start: float, stop: float) -> Quad:
    one, two, three, four = quad
    return (
        between(one, two, start),
        between(one, two, stop),
        between(four, three, stop),
        between(four, three, start),
    )


def _clearer(line: TextLine, part: TextLine, *, last: bool) -> TextLine:
    """Return the line with what its first or last part shows, or the line itself."""
    if label_of(part.text, LABELS) is not None:
        return replace(line, text=part.text, score=part.score)
    if part.score < CLEAR:
        return line
    before, stroke, _ = part.text.partition("/")
    behind = part.text.rpartition("/")[2]
    sex = behind if last else before
    if printed_sex(sex) and "/" in line.text and sex in line.text:
        return replace(line, text=sex, score=part.score)
    if not (last and stroke and behind) or printed_sex(line.text):
        return line
    return replace(line, text=f"{line.text.partition('/')[0]}/{behind}", score=part.score)
