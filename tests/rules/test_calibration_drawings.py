"""SVG and PNG show the same: what one file says, the other's pixels show at the same place."""

from io import BytesIO
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from app.calibration.charts import ADVISED, HEIGHT, MATED, NONMATED, WIDTH, draw_det, draw_distributions
from app.calibration.drawing import Bar, Drawing, Line, Words
from app.calibration.error_rates import Band, Comparisons

SPACE = "{http://www.w3.org/2000/svg}"
CHANCE = np.random.default_rng(7)
COMPARISONS = Comparisons(
    list(np.clip(CHANCE.normal(0.40, 0.08, 300), 0.05, 2)), list(CHANCE.normal(0.80, 0.1, 3_000))
)
NOW, NEW = Band(0.5, 0.6), Band(0.46, 0.57)


def drawn(drawing: Drawing) -> tuple[ET.Element, Image.Image]:
    """Both forms of a drawing, as a reader opens them."""
    image = Image.open(BytesIO(drawing.png()))
    image.load()
    return ET.fromstring(drawing.svg()), image  # noqa: S314 - our own file


def colour_at(image: Image.Image, x: float, y: float) -> str:
    """The colour of a pixel, as SVG writes it."""
    return "#" + bytes(image.getpixel((int(x), int(y)))).hex()  # type: ignore[arg-type]  # RGB gives three


def test_every_bar_and_line_of_the_svg_is_painted_at_its_place_in_the_png() -> None:
    drawing = Drawing(120, 80, "a < b & c")
    drawing.add(
        Bar(10, 20, 30, 60, MATED),
        Line(((40, 10), (40, 70)), NONMATED, 3),
        Line(((50, 40), (110, 40)), ADVISED, 3, dash=10),
    )
    svg, image = drawn(drawing)
    bar, line, dashed = svg[2], svg[3], svg[4]

    assert svg.findtext(f"{SPACE}title") == "a < b & c"
    assert (image.size, image.format) == ((120, 80), "PNG")
    assert [bar.get(name) for name in ("x", "y", "width", "height")] == ["10.00", "20.00", "20.00", "40.00"]
    assert [colour_at(image, x, y) for x, y in ((10, 20), (29, 59), (9, 40), (30, 40))] == [
        MATED, MATED, "#ffffff", "#ffffff"
    ]  # fmt: skip
    assert (line.get("points"), line.get("stroke")) == ("40.00,10.00 40.00,70.00", NONMATED)
    assert [colour_at(image, 40, y) for y in (12, 40, 68)] == [NONMATED] * 3
    assert dashed.get("stroke-dasharray") == "10"
    assert [colour_at(image, x, 40) for x in (55, 65, 75)] == [ADVISED, "#ffffff", ADVISED]


@pytest.mark.parametrize(
    ("words", "box"),
    [
        (Words((100, 60), "HHHHHH", 20), (100, 44, 200, 62)),
        (Words((100, 60), "HHHHHH", 20, "end"), (0, 44, 101, 62)),
        (Words((100, 100), "HHHHHH", 20, "middle", sideways=True), (84, 40, 102, 160)),
    ],
)
def test_words_stand_where_their_anchor_says(words: Words, box: tuple[int, int, int, int]) -> None:
    drawing = Drawing(200, 200, "words")
    drawing.add(words)
    svg, image = drawn(drawing)
    dark = Image.eval(image.convert("L"), lambda grey: 255 if grey < 128 else 0).getbbox()

    assert svg[-1].text == "HHHHHH"
    assert dark is not None
    assert dark[0] >= box[0]
    assert dark[1] >= box[1]
    assert dark[2] <= box[2]
    assert dark[3] <= box[3]


def test_the_bars_of_each_kind_are_shares_that_add_up() -> None:
    svg, image = drawn(draw_distributions(COMPARISONS, NOW, NEW))
    see_through = [bar for bar in svg.iter(f"{SPACE}rect") if bar.get("fill-opacity") != "1"]
    bars = {colour: [bar for bar in see_through if bar.get("fill") == colour] for colour in (MATED, NONMATED)}
    heights = {colour: sum(float(bar.get("height", 0)) for bar in found) for colour, found in bars.items()}

    assert image.size == (WIDTH, HEIGHT)
    assert heights[MATED] == pytest.approx(heights[NONMATED], rel=0.01)
    assert {"in force 0.5, 0.6", "recommended 0.46, 0.57", "same, 300 pairs"} <= {
        str(text.text) for text in svg.iter(f"{SPACE}text")
    }


def test_the_det_curve_falls_from_left_to_right_through_the_recommended_thresholds() -> None:
    svg, image = drawn(draw_det(COMPARISONS, NOW, NEW))
    lines = [line for line in svg.iter(f"{SPACE}polyline") if line.get("stroke-width") == "2"]
    curve = [tuple(map(float, point.split(","))) for point in str(lines[0].get("points")).split()]
    crosses = [line for line in svg.iter(f"{SPACE}polyline") if line.get("stroke") == ADVISED]

    assert len(lines) == 1
    assert curve == sorted(curve)
    assert [y for _, y in curve] == sorted(y for _, y in curve)
    assert len(crosses) == 4
    inside = [point for point in curve if 90 < point[0] < 720 and 80 < point[1] < 440]
    assert len(inside) > 10
    painted = [
        min(sum(image.getpixel((int(x) + dx, int(y) + dy))) for dx in (-1, 0, 1) for dy in (-1, 0, 1))  # type: ignore[arg-type]  # RGB gives three
        for x, y in inside
    ]
    assert max(painted) < 3 * 128, "the curve is missing from the PNG"
