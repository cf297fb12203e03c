"""Image files from their first bytes to pixels: as a front reads their structure and a child decodes them."""

from contextlib import suppress

from app.vision.images import decode, strip_upright
from schemas.problems import ImageNotEvaluable, ImageUndecodable
from tests.specimens.hostile import picture, png, with_png_chunk, written
from tests.specimens.hostile_corpus import exif

SEEDS = (
    *(written(picture(170, 165), kind, quality=60) for kind in ("JPEG", "WEBP")),
    png(170, 165),
    written(picture(170, 165), "JPEG", progressive=True),
    written(picture(170, 165), "WEBP", lossless=True),
    written(picture(170, 165, "P"), "PNG"),
    with_png_chunk(png(170, 165), b"eXIf", exif(3)),
    written(picture(170, 165), "JPEG", exif=b"Exif\0\0" + exif(3)),
)


def target(data: bytes) -> None:
    """Strip and decode one file; the two conditions of an image are answers."""
    with suppress(ImageUndecodable, ImageNotEvaluable):
        strip_upright(data)
    with suppress(ImageUndecodable, ImageNotEvaluable):
        decode(data)
