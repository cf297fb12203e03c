"""Read a document of any known class from its picture, in any orientation.

The order is that of cost: the long lines of a small copy, in four turns, which may be a machine-readable
zone or the headings of a slip; then the whole page. Where a zone holds, the page is read to compare the print
with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from statistics import fmean
from typing import Any, Final

from schemas.enums import ExtractionStatus, ReaderClass, TextEnum
from streams.verification.confirmed_zone import read_confirmed_zone
from streams.verification.image_text import PictureText, legible_lines, machine_lines
from streams.verification.observations import Agreement, DocumentFindings
from streams.verification.print_agreement import find_agreeing, read_hidden, read_parts
from streams.verification.readers import nin_slip, printed_fields, td3_strips, visual_zone
from streams.verification.readers.layout import TURNS, facing, height, is_lengthwise, length, turn_back
from streams.verification.readers.nin_slip import SlipReading
from streams.verification.readers.places import Places, merged, printed_places, zone_places
from streams.verification.readers.td3_mrz import Td3Reading, read_td3
from streams.verification.readers.td3_witness import could_be_settled, settle
from streams.vision_ports import Detail, Picture, Quad, TextPage, TextReader, Turn

STRIP_SCORE_MIN: Final = 0.95
"""Recogniser's score from which a strip nobody found text in counts: cut too high or low it is misread."""
PROBES: Final = 5
"""Lines read in both directions to find the orientation of a page without a zone."""
PROBE_ASPECT_MAX: Final = 10.0
"""Longer lines add nothing about the direction and take longer to read."""
ZONE_SHARE_MIN: Final = 0.9
"""Share of the longest line that the zone's other line is long; a row of labels in one line is shorter."""


class DocumentClass(TextEnum):
    """The kind of document found."""

    TD3_PASSPORT = "TD3 passport"
    NIN_SLIP = "NIN slip"
    UNKNOWN = "unknown document with text"
    NOTHING = "nothing readable"


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """The result of reading a document; personal parts are not in its representation."""

    document_class: DocumentClass
    turn: Turn
    """The clockwise quarter turn of the picture that makes the text upright."""
    status: ExtractionStatus
    """Of the reader; UNSUPPORTED for an unknown document, FAILED when nothing is readable."""
    passport: Td3Reading | None = None
    """The machine-readable zone, when one was found."""
    slip: SlipReading | None = None
    """The NIN slip, when the page is one."""
    printed: Mapping[str, Agreement] = field(default_factory=dict)
    """How the visual zone agrees with a zone that holds, by field; empty without one."""
    codes: tuple[str, ...] = field(default=(), repr=False)
    """Texts of the QR codes of a slip."""
    code: Agreement = Agreement.NOT_FOUND
    """How those codes agree with the printed number."""
    places: Places = field(default_factory=dict, repr=False)
    """Where each field was read."""
    text_score: float = 0.0
    """Mean score of the legible lines, 0-1; the best single sign of an image's quality."""
    model_version: str = ""
    """Of the text reader."""

    @property
    def readable(self) -> bool:
        """Whether any text was seen."""
        return self.document_class is not DocumentClass.NOTHING

    @property
    def fields(self) -> Mapping[str, Any]:
        """What was extracted, by the keys of G11."""
        source = self.passport or self.slip
        return source.fields if source else {}

    @property
    def confidence(self) -> Mapping[str, float]:
        """Confidence of each field, 0-1; `document_number` is that of `number`."""
        source = self.passport or self.slip
        return source.confidence if source else {}

    @property
    def number(self) -> str | None:
        """The full document number: sensitive, never a field."""
        source = self.passport or self.slip
        return source.number if source else None


async def read_findings(reader: TextReader, picture: Picture, today: date) -> DocumentFindings:
    """Read a document and return what the rules need; see `read_document`."""
    return findings_of(await read_document(reader, picture, today))


async def read_document(
    reader: TextReader,
    picture: Picture,
    today: date,
    *,
    expected: ReaderClass | None = None,
    compare_print: bool = True,
) -> DocumentReading:
    """Classify the document on a picture and read it; an unknown document is a reading too.

    `expected` is the class tried first; the other one is tried after it. `today`
    decides centuries. Without `compare_print` a passport's visual zone is not read, which is most of the
    work. Raises what the reader's methods raise.
    """
    desk = _PictureReading(reader, picture, today)
    if expected is ReaderClass.NG_NIN_SLIP:
        page = await desk.read_page()
        if (slip := nin_slip.read_slip(page)) is not None:
            return await desk.finish_slip(page, slip)
    if compare_print and (confirmed := await read_confirmed_zone(desk.text, today)) is not None:
        return desk.passport(*confirmed)
    found = await desk.find_zone()
    if found is not None:
        return await desk.finish_passport(*found, compare_print=compare_print)
    page = await desk.read_page()
    if (slip := nin_slip.read_slip(page)) is not None:
        return await desk.finish_slip(page, slip)
    legible = legible_lines(page)
    document_class = DocumentClass.UNKNOWN if legible else DocumentClass.NOTHING
    status = ExtractionStatus.UNSUPPORTED if legible else ExtractionStatus.FAILED
    return desk.reading(document_class, status, page)


def findings_of(reading: DocumentReading) -> DocumentFindings:
    """Return what the rules need of a reading."""
    zone, slip = reading.passport, reading.slip
    return DocumentFindings(
        status=reading.status,
        reader=ReaderClass.TD3_MRZ if zone else ReaderClass.NG_NIN_SLIP if slip else None,
        legible=reading.readable,
        fields=reading.fields,
        confidence=reading.confidence,
        number=reading.number,
        check_digits=zone.check_digits if zone else {},
        impossible_date=bool(zone and zone.holds and not zone.calendar),
        repairs=zone.repairs if zone else 0,
        printed=reading.printed,
        code=reading.code,
        places=reading.places,
    )


class _PictureReading:
    """The reading of one picture, with cached results of search and recognition."""

    def __init__(self, reader: TextReader, picture: Picture, today: date) -> None:
        self._reader = reader
        self._picture = picture
        self._today = today
        self.text = PictureText(reader, picture)
        self._page: TextPage | None = None
        self._headed: Turn | None = None
        """The turn in which the long lines are headings of a slip."""

    async def find_zone(self) -> tuple[Td3Reading, Turn] | None:
        """Search all orientations for a zone, an uncertain one in detail; read the page if none is found.

        Headings of a slip among the first lines tell the orientation: 23 of 24 slips in every damage of the
        bench, in 0.5 s of processor time. The other, moved by 7 px, is read right as a whole page only.
        """
        best = await self._coarse_zone()
        best = best if best and best[0].holds else await self._joined_zone() or best
        if best is None:
            page = await self.read_page()
            found = read_td3(page, self._today)
            return (found, page.turn) if found is not None else None
        zone, turn = best
        if not (zone.holds and zone.status is ExtractionStatus.EXTRACTED):
            closer = await self._zone(Detail.FINE, turn)
            zone = max(zone, closer or zone, key=_rank)
        return await self._with_names(zone, turn), turn

    async def _coarse_zone(self) -> tuple[Td3Reading, Turn] | None:
        """Return the best zone among the long lines of a small copy, in the turns up to the upright one."""
        best: tuple[Td3Reading, Turn] | None = None
        for turn in TURNS:
            page = await self._long_lines(Detail.COARSE, turn)
            found = read_td3(page, self._today)
            if found is not None and (best is None or _rank(found) > _rank(best[0])):
                best = found, turn
            if found is not None and found.holds:
                break
            if best is None and nin_slip.is_headed(page):
                self._headed = turn
                break
        return best

    async def _joined_zone(self) -> tuple[Td3Reading, Turn] | None:
        """Search for a zone whose lines the detector found in pieces."""
        quads = await self.text.find(Detail.FINE)
        for turn in TURNS:
            running = [facing(quad, turn) for quad in quads if is_lengthwise(quad, turn)]
            lines = td3_strips.longest_joined(running)
            found = read_td3(await self.text.read(lines, turn), self._today) if lines else None
            if found is not None and found.holds:
                return found, turn
        return None

    async def _with_names(self, zone: Td3Reading, turn: Turn) -> Td3Reading:
        """Read the strip above a second line that holds and whose first line was not found."""
        if not zone.holds or zone.lines[0] or zone.second_quad is None:
            return zone
        second = turn_back(zone.second_quad, self.text.turned((), turn))
        quads = [facing(quad, turn) for quad in await self.text.find(Detail.FINE)]
        strips = td3_strips.first_line_strips(second, quads)
        read = [await self.text.read([strip, second], turn) for strip in strips]
        pages = [page for page in read if page.lines[0].score >= STRIP_SCORE_MIN]
        zones = [(page.lines[0].score, read_td3(page, self._today)) for page in pages]
        named = [(score, one) for score, one in zones if one is not None and one.holds and one.lines[0]]
        return max(named, key=lambda pair: pair[0])[1] if named else zone

    async def read_page(self) -> TextPage:
        """Read every line, in the orientation of the headings or else in which the longer ones read best."""
        if self._page is None:
            quads = await self.text.find(Detail.FINE)
            turn = self._headed if self._headed is not None else await self._upright(quads)
            self._page = await self.text.read([facing(quad, turn) for quad in quads], turn)
        return self._page

    async def finish_passport(self, zone: Td3Reading, turn: Turn, *, compare_print: bool) -> DocumentReading:
        """Compare the print with the zone, if the zone holds.

        No check digit guards the names: before print and zone are said to contradict each other there,
        the zone is cut out and read once more.
        """
        printed: Mapping[str, Agreement] = {}
        page = self._page or TextPage((), self._picture.width, self._picture.height, turn)
        if compare_print and could_be_settled(zone):
            page = await self._print(zone, turn)
            zone = settle(zone, visual_zone.witness(page, zone), self._today)
        if compare_print and zone.holds:
            printed = visual_zone.compare(page, zone)
            if Agreement.MISMATCH in (printed["surname"], printed["given_names"]):
                again = await self._zone(Detail.FINE, turn)
                if again is not None and again.holds and again.lines[0] and again.number == zone.number:
                    again = settle(again, visual_zone.witness(page, again), self._today)
                    second_look = visual_zone.compare(page, again)
                    if Agreement.MISMATCH not in second_look.values():
                        zone, printed = again, second_look
        return self.passport(zone, printed, page)

    def passport(self, zone: Td3Reading, printed: Mapping[str, Agreement], page: TextPage) -> DocumentReading:
        """Return the reading of a zone and of how the print agrees."""
        reading = self.reading(DocumentClass.TD3_PASSPORT, zone.status, page)
        return replace(reading, passport=zone, printed=printed, places=self._places(zone, page))

    def _places(self, zone: Td3Reading, page: TextPage) -> Places:
        """Return where the zone and the print were read."""
        everything = self.text.everything(page.turn)
        printed = printed_fields.lines_of(page, zone)
        return merged(zone_places(zone, everything), printed_places(page, printed))

    async def finish_slip(self, page: TextPage, slip: SlipReading) -> DocumentReading:
        """Read a number whose groups were not all found once more, then compare it with the QR codes."""
        if slip.number is None and not slip.ambiguous and (row := nin_slip.number_row(page)) is not None:
            again = await self._reader.read_lines(self._picture, [turn_back(row, page)])
            slip = nin_slip.read_slip(page, [(line.text, line.score) for line in again]) or slip
        codes = await self._reader.read_codes(self._picture)
        reading = self.reading(DocumentClass.NIN_SLIP, slip.status, page)
        code, found = nin_slip.compare_codes(slip.number, codes), printed_places(page, slip.lines)
        return replace(reading, slip=slip, codes=codes, code=code, places=found)

    def reading(
        self, document_class: DocumentClass, status: ExtractionStatus, page: TextPage
    ) -> DocumentReading:
        """Return a reading with the fields common to all classes."""
        scores = [line.score for line in legible_lines(page)]
        return DocumentReading(
            document_class=document_class,
            turn=page.turn,
            status=status,
            text_score=round(fmean(scores), 4) if scores else 0.0,
            model_version=self._reader.model_version,
        )

    async def _print(self, zone: Td3Reading, turn: Turn) -> TextPage:
        """Read of the print what says that it agrees with the zone, or else all of it on the zone's page."""
        for detail in Detail if zone.holds else ():
            page, near = await find_agreeing(self.text, zone, turn, detail)
            if page is not None:
                return page
            if not near:
                break
        quads = [facing(quad, turn) for quad in await self.text.find(Detail.FINE)]
        if zone.second_quad is not None:
            quads = td3_strips.of_page(turn_back(zone.second_quad, self.text.turned((), turn)), quads)
        longest = max(map(length, quads), default=0.0)
        printed = [quad for quad in quads if length(quad) < ZONE_SHARE_MIN * longest]
        page = await read_parts(self.text, await self.text.read(printed, turn), zone)
        return await read_hidden(self.text, page, zone)

    async def _zone(self, detail: Detail, turn: Turn) -> Td3Reading | None:
        return read_td3(await self._long_lines(detail, turn), self._today)

    async def _long_lines(self, detail: Detail, turn: Turn) -> TextPage:
        return await self.text.read(machine_lines(await self.text.find(detail), turn), turn)

    async def _upright(self, quads: Sequence[Quad]) -> Turn:
        """Return the orientation of the page: by the direction of most lines, then by which way they read."""
        across = sum(is_lengthwise(quad, 0) for quad in quads)
        turns: tuple[Turn, Turn] = (0, 180) if 2 * across >= len(quads) else (90, 270)
        running = [facing(quad, turns[0]) for quad in quads if is_lengthwise(quad, turns[0])]
        words = [quad for quad in running if length(quad) <= PROBE_ASPECT_MAX * height(quad)]
        longest = sorted(words or running, key=length)[-PROBES:]
        opposite: dict[Turn, Turn] = {turns[0]: 0, turns[1]: 180}
        sense: dict[Turn, float] = {}
        for turn in turns:
            page = await self.text.read([facing(quad, opposite[turn]) for quad in longest], turn)
            sense[turn] = sum(line.score * len(line.text) for line in page.lines)
        return max(turns, key=lambda turn: sense[turn])


def _rank(zone: Td3Reading) -> tuple[int, bool, bool]:
    return (
        sum(zone.check_digits.values()),
        bool(zone.lines[0]),
        zone.status is ExtractionStatus.EXTRACTED,
    )
