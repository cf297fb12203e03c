"""What the fake camera shows: a file of Motion JPEG, written anew for each scene."""

import io
import random
from pathlib import Path
from typing import Final

from PIL import Image, ImageFilter

from app.demo.specimens import PassportSpecimen, draw_passport
from tests.journeys.service import hopper

SIZE: Final = (1280, 720)
FRAMES: Final = 12


def write_scene(path: Path, frames: list[Image.Image]) -> None:
    """Write what the camera shows from its next start on; it begins again at the end."""
    out = io.BytesIO()
    for frame in frames:
        frame.save(out, "JPEG", quality=92)
    path.write_bytes(out.getvalue())


def passport(blurred: float = 0.0) -> Image.Image:
    """A specimen passport on a table, as the camera sees it."""
    page = draw_passport(PassportSpecimen(), hopper().portrait)
    table = Image.new("RGB", SIZE, (92, 72, 54))
    page.thumbnail((SIZE[0] - 80, SIZE[1] - 40))
    table.paste(page, ((SIZE[0] - page.width) // 2, (SIZE[1] - page.height) // 2))
    return table.filter(ImageFilter.GaussianBlur(blurred)) if blurred else table


def face() -> Image.Image:
    """A person looking straight ahead."""
    wall = Image.new("RGB", SIZE, (120, 120, 120))
    person = hopper().selfie.convert("RGB")
    person.thumbnail((SIZE[0], SIZE[1]))
    wall.paste(person, ((SIZE[0] - person.width) // 2, 0))
    return wall


def steady(picture: Image.Image) -> list[Image.Image]:
    """The picture in a hand that trembles by a pixel or two."""
    chance = random.Random(7)
    moves = [(chance.randint(-1, 1), chance.randint(-1, 1)) for _ in range(FRAMES)]
    return [picture.transform(picture.size, Image.Transform.AFFINE, (1, 0, x, 0, 1, y)) for x, y in moves]


def black() -> list[Image.Image]:
    """A covered lens."""
    return [Image.new("RGB", SIZE)] * 2
