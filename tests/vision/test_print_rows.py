import random

import numpy as np
import pytest

from app.demo.specimens import draw_card_slip, draw_long_slip, draw_passport
from app.vision.images import decode
from app.vision.measures import print_rows
from streams.verification.reuse import PRINT_ROWS_MIN
from streams.vision_ports import Picture
from tests.specimens import degrade, people
from tests.vision.portraits import astronaut, grace_hopper

PAGES = {
    "passport": draw_passport(people.passport(random.Random(1)), people.portrait()),
    "long slip": draw_long_slip(people.slip(random.Random(2)), people.portrait()),
    "card slip": draw_card_slip(people.slip(random.Random(3)), people.portrait()),
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    "how", ["clean", "on its left side", "much blurred", "by a telephone", "500 px wide"]
)
def test_a_page_shows_rows_of_print(page: str, how: str) -> None:
    taken = degrade.photographed(PAGES[page], how, random.Random(3))

    assert print_rows(decode(taken)) >= PRINT_ROWS_MIN


@pytest.mark.parametrize("picture", [astronaut(), grace_hopper()])
def test_a_portrait_shows_next_to_none(picture: Picture) -> None:
    assert print_rows(picture) < PRINT_ROWS_MIN


@pytest.mark.parametrize("size", [(160, 8000, 3), (8000, 160, 3), (160, 160, 3)])
def test_any_picture_is_answered(size: tuple[int, ...]) -> None:
    assert print_rows(Picture(np.zeros(size, np.uint8))) == 0


def test_each_of_very_many_rows_is_counted() -> None:
    page = np.random.default_rng(1).integers(230, 256, (640, 640, 3), np.uint8)
    for top in range(8, 632, 8):
        for left in range(12, 612, 26):
            page[top : top + 4, left : left + 14] = 0

    assert print_rows(Picture(page)) == len(range(8, 632, 8)) * len(range(12, 612, 26))
