"""Read a passport's machine-readable zone quickly, where the print confirms what was read.

Long lines are read squeezed (`Detail.COARSE`). No check digit guards names, sex and nationality, so such a
zone counts only if the print agrees with it in everything that is compared, and the issuing state with the
nationality. Nothing else is concluded: any other page is read as if this had not been tried.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from schemas.enums import ExtractionStatus
from streams.verification.image_text import PictureText, machine_lines
from streams.verification.observations import Agreement
from streams.verification.print_agreement import find_agreeing
from streams.verification.readers import printed_fields, visual_zone
from streams.verification.readers.layout import TURNS, height, length
from streams.verification.readers.td3_lines import FILLER
from streams.verification.readers.td3_mrz import Td3Reading, read_td3
from streams.verification.readers.td3_witness import settle
from streams.vision_ports import Detail, Quad, TextPage, Turn

PAIR_SHARE_MIN: Final = 0.9
"""Share of a zone's longer line that its shorter one is long; a page seen from the side is read at length."""
PAIR_ASPECT_MIN: Final = 20.0
"""A zone's lines are some 27 times as long as high, the headings of slips less than 20."""


async def read_confirmed_zone(
    text: PictureText, today: date
) -> tuple[Td3Reading, Mapping[str, Agreement], TextPage] | None:
    """Return a zone that the print confirms, how, and by which lines; None when anything is uncertain."""
    found = await _squeezed_zone(text, today)
    if found is None or not _is_whole(found[0]):
        return None
    zone, turn = found
    page, _ = await find_agreeing(text, zone, turn, Detail.COARSE)
    if page is None:
        return None
    zone = settle(zone, visual_zone.witness(page, zone), today)
    if not (_is_whole(zone) and printed_fields.agrees(page, zone)):
        return None
    return zone, visual_zone.compare(page, zone), page


async def _squeezed_zone(text: PictureText, today: date) -> tuple[Td3Reading, Turn] | None:
    """Return the zone whose check digits hold, in whichever orientation."""
    for turn in TURNS:
        lines = machine_lines(await text.find(Detail.COARSE), turn)
        if not _are_pair(lines):
            continue
        page = await text.read(lines, turn, Detail.COARSE)
        zone = read_td3(page, today)
        if zone is not None and zone.holds:
            return zone, turn
    return None


def _are_pair(lines: Sequence[Quad]) -> bool:
    """Return whether the two longest lines are as long and as alike as those of a zone."""
    pair = [line for line in lines[:2] if length(line) > PAIR_ASPECT_MIN * height(line)]
    return len(pair) == 2 and length(pair[1]) > PAIR_SHARE_MIN * length(pair[0])  # noqa: PLR2004 - a zone's lines


def _is_whole(zone: Td3Reading) -> bool:
    """Return whether every field was read, names that end within their line, and one country twice."""
    return (
        zone.holds
        and zone.status is ExtractionStatus.EXTRACTED
        and zone.lines[0].endswith(FILLER * 2)
        and zone.fields.get("nationality") == zone.fields.get("issuing_state")
    )
