"""Lines of a zone that the detector lost or cut in pieces: where they are looked for."""

from math import cos, radians, sin

import pytest

from streams.verification.readers.layout import height, length
from streams.verification.readers.td3_strips import first_line_strips, joined, of_page
from streams.vision_ports import Quad

SECOND: Quad = ((66, 768), (1184, 768), (1184, 806), (66, 806))
"""A line of 44 letters at 25.4 px each."""


def at(left: float, right: float, top: float, tall: float = 38) -> Quad:
    return (left, top), (right, top), (right, top + tall), (left, top + tall)


def turned(quad: Quad, degrees: float) -> Quad:
    across, down = cos(radians(degrees)), sin(radians(degrees))
    one, two, three, four = ((x * across - y * down, x * down + y * across) for x, y in quad)
    return one, two, three, four


def near(quad: Quad, expected: Quad, within: float) -> bool:
    return all(
        abs(x - a) <= within and abs(y - b) <= within for (x, y), (a, b) in zip(quad, expected, strict=True)
    )


def test_without_any_piece_the_strip_stands_one_pitch_above() -> None:
    strip, *_ = first_line_strips(SECOND, [])
    assert near(strip, at(66, 1184, 768 - 63.5), 16)


@pytest.mark.parametrize("degrees", [0, 5, -8, 90, 95, 180, 265])
def test_a_strip_runs_through_the_pieces_over_the_whole_line(degrees: float) -> None:
    pieces = [turned(at(66, 500, 684), degrees), turned(at(520, 900, 685), degrees)]
    strip, *_ = first_line_strips(turned(SECOND, degrees), pieces)
    assert near(strip, turned(at(66, 1184, 684), degrees), 16)


def test_a_text_far_above_or_of_another_size_is_no_piece() -> None:
    strips = first_line_strips(SECOND, [at(66, 900, 635), at(66, 900, 684, 90)])
    assert strips == first_line_strips(SECOND, [])


@pytest.mark.parametrize("degrees", [0, 6, 90, 186])
def test_pieces_beside_one_another_are_one_line(degrees: float) -> None:
    pieces = [turned(piece, degrees) for piece in (at(66, 480, 768), at(500, 820, 770), at(840, 1184, 767))]
    (line,) = joined([pieces[1], pieces[2], pieces[0]])
    assert abs(length(line) - 1118) < 10
    assert height(line) < 45
    assert near(line, turned(SECOND, degrees), 8)


def test_texts_apart_or_below_one_another_are_not_joined() -> None:
    assert joined([at(66, 400, 100), at(700, 1100, 100), at(66, 400, 180)]) == ()


def test_a_line_without_any_extent_makes_no_strip() -> None:
    point: Quad = ((5, 5), (5, 5), (5, 5), (5, 5))
    assert first_line_strips(point, [SECOND]) == ()
    assert joined([point, point]) == ()


@pytest.mark.parametrize("degrees", [0, 7, -20, 90, 180])
def test_lines_beside_the_page_and_above_it_are_of_another_paper(degrees: float) -> None:
    number, form, other_page = (
        turned(place, degrees)
        for place in (at(860, 1040, 110, 26), at(1320, 1540, 300, 26), at(200, 600, -300, 26))
    )
    assert of_page(turned(SECOND, degrees), [number, form, other_page]) == [number]
