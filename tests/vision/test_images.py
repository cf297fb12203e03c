"""Decoding: what comes out of every accepted file, and what is kept of it."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from app.vision.containers.base import ImageFormat
from app.vision.containers.jpeg import most_pixels
from app.vision.images import (
    MIN_SHORTER_SIDE_PX,
    check_header,
    decode,
    encode_box,
    examine,
    strip_metadata,
    with_digest,
)
from app.vision.measures import measure_sharpness
from schemas.problems import ImageNotEvaluable, ImageUndecodable
from streams.vision_ports import Picture, Pixels
from tests.specimens.degrade import blurred
from tests.specimens.hostile import picture, with_jpeg_segment, with_png_chunk, written

CANARY = "GPS 6.5244 N 3.3792 E"
ORIENTATION, DESCRIPTION = 0x0112, 0x010E
LOSSLESS: dict[str, tuple[str, dict[str, Any]]] = {
    "baseline JPEG": ("JPEG", {"quality": 80}),
    "progressive JPEG": ("JPEG", {"progressive": True, "subsampling": 0}),
    "restarting JPEG": ("JPEG", {"restart_marker_blocks": 4}),
    "PNG": ("PNG", {}),
    "lossy WebP": ("WEBP", {"quality": 70}),
    "lossless WebP": ("WEBP", {"lossless": True}),
}


def exif(orientation: int = 1) -> Image.Exif:
    tags = Image.Exif()
    tags[ORIENTATION], tags[DESCRIPTION] = orientation, CANARY
    return tags


def pillow_rgb(file: bytes) -> Pixels:
    with Image.open(io.BytesIO(file)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("kind", LOSSLESS)
def test_pixels_are_those_pillow_decodes(kind: str) -> None:
    form, options = LOSSLESS[kind]
    file = written(picture(), form, **options)
    assert np.array_equal(decode(file).pixels, pillow_rgb(file))


@pytest.mark.parametrize("kind", LOSSLESS)
def test_the_stored_copy_has_the_same_pixels(kind: str) -> None:
    form, options = LOSSLESS[kind]
    file = written(picture(), form, exif=exif(), **options)
    assert np.array_equal(decode(strip_metadata(file)).pixels, decode(file).pixels)


@pytest.mark.parametrize("kind", LOSSLESS)
def test_the_stored_copy_has_no_metadata(kind: str) -> None:
    form, options = LOSSLESS[kind]
    file = written(picture(), form, exif=exif(), icc_profile=b"profile" * 100, **options)
    stored = strip_metadata(file)
    assert CANARY.encode() in file
    assert CANARY.encode() not in stored
    assert b"profile" not in stored


@pytest.mark.parametrize("kind", LOSSLESS)
def test_stripping_twice_changes_nothing(kind: str) -> None:
    form, options = LOSSLESS[kind]
    stored = strip_metadata(written(picture(), form, exif=exif(), **options))
    assert strip_metadata(stored) == stored


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_every_orientation_is_made_upright(form: str, orientation: int) -> None:
    file = written(picture(), form, exif=exif(orientation))
    with Image.open(io.BytesIO(file)) as image:
        upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    assert np.array_equal(decode(file).pixels, upright)


@pytest.mark.parametrize("orientation", range(2, 9))
def test_a_turned_image_is_stored_upright_without_metadata(orientation: int) -> None:
    file = written(picture(), "JPEG", exif=exif(orientation), quality=95)
    stored = strip_metadata(file)
    assert check_header(stored).orientation == 1
    assert CANARY.encode() not in stored
    assert np.abs(decode(stored).pixels.astype(int) - decode(file).pixels).mean() < 3


def test_a_picture_has_one_digest_in_every_format_and_another_has_another() -> None:
    file = written(picture(), "PNG")
    same = written(Image.open(io.BytesIO(file)), "WEBP", lossless=True)
    mirrored = written(ImageOps.mirror(picture()), "PNG")

    digests = [with_digest(decode(one)).digest for one in (file, same, mirrored)]

    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 64


def test_a_turned_file_has_the_digest_of_the_upright_picture() -> None:
    turned = written(picture().transpose(Image.Transpose.ROTATE_90), "PNG", exif=exif(6))

    assert with_digest(decode(turned)).digest == with_digest(decode(written(picture(), "PNG"))).digest


def test_the_header_tells_the_upright_size() -> None:
    header = check_header(written(picture(400, 300), "JPEG", exif=exif(6)))
    assert (header.format, header.width, header.height) == (ImageFormat.JPEG, 300, 400)


@pytest.mark.parametrize("mode", ["L", "P", "1", "LA", "RGBA", "CMYK"])
def test_every_colour_mode_becomes_rgb(mode: str) -> None:
    form = "JPEG" if mode == "CMYK" else "PNG"
    file = written(picture(mode=mode), form)
    if mode in ("LA", "RGBA"):
        with Image.open(io.BytesIO(file)) as image:
            white = Image.new("RGBA", image.size, "white")
            expected = np.asarray(Image.alpha_composite(white, image.convert("RGBA")).convert("RGB"))
    else:
        expected = pillow_rgb(file)
    assert np.array_equal(decode(file).pixels, expected)


def test_transparent_pixels_lie_on_white() -> None:
    clear = Image.new("RGBA", (200, 200), (10, 20, 30, 0))
    assert (decode(written(clear, "PNG")).pixels == 255).all()


def test_a_transparent_palette_lies_on_white() -> None:
    clear = Image.new("P", (200, 200), 0)
    clear.putpalette([40, 50, 60])
    assert (decode(written(clear, "PNG", transparency=0)).pixels == 255).all()


def test_sixteen_bits_are_scaled_to_eight() -> None:
    grey = Image.fromarray(np.full((200, 200), 0x8040, np.uint16))
    assert (decode(written(grey, "PNG")).pixels == 0x80).all()


def test_a_very_large_picture_comes_at_half_size() -> None:
    pixels = decode(written(Image.new("RGB", (5_000, 4_001), "red"), "PNG")).pixels
    assert pixels.shape == (2_001, 2_500, 3)
    assert (pixels == (255, 0, 0)).all()


def test_the_smallest_evaluable_side_is_accepted() -> None:
    assert decode(written(picture(MIN_SHORTER_SIDE_PX, 400), "PNG")).width == MIN_SHORTER_SIDE_PX


def test_a_smaller_side_is_not_evaluable() -> None:
    with pytest.raises(ImageNotEvaluable):
        check_header(written(picture(MIN_SHORTER_SIDE_PX - 1, 400), "PNG"))


@pytest.mark.parametrize(
    "tail", [b"\0" * 40, b"\0\0\0\x18ftypmp42film", b"\xff\xd8\xff\xdb gain map", b"xSEFT"]
)
def test_what_cameras_append_is_accepted_and_not_kept(tail: bytes) -> None:
    file = written(picture(), "JPEG")
    assert strip_metadata(file + tail) == strip_metadata(file)


def test_an_adobe_marker_stays_because_it_decides_the_colours() -> None:
    file = written(picture(mode="CMYK"), "JPEG")
    assert b"Adobe" in file
    assert np.array_equal(decode(strip_metadata(file)).pixels, pillow_rgb(file))


@pytest.mark.parametrize("marker", [0xE1, 0xE2, 0xE5, 0xED, 0xFE])
def test_no_application_segment_or_comment_is_kept(marker: int) -> None:
    file = with_jpeg_segment(written(picture(), "JPEG"), marker, CANARY.encode())
    assert CANARY.encode() not in strip_metadata(file)


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt", b"iTXt", b"tIME", b"pHYs", b"prVt"])
def test_no_ancillary_chunk_is_kept(kind: bytes) -> None:
    file = with_png_chunk(written(picture(), "PNG"), kind, CANARY.encode())
    assert CANARY.encode() not in strip_metadata(file)


@settings(max_examples=40)
@given(
    pixels=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(sorted(LOSSLESS)),
    width=st.integers(160, 200),
    height=st.integers(160, 200),
    comment=st.binary(min_size=1, max_size=300),
)
def test_stripping_never_changes_a_pixel(
    pixels: int, kind: str, width: int, height: int, comment: bytes
) -> None:
    noise = np.random.default_rng(pixels).integers(0, 256, (height, width, 3), dtype=np.uint8)
    form, options = LOSSLESS[kind]
    file = written(Image.fromarray(noise), form, exif=exif(), **options)
    if form == "JPEG":
        file = with_jpeg_segment(file, 0xFE, comment)
    assert np.array_equal(decode(strip_metadata(file)).pixels, decode(file).pixels)


@settings(max_examples=40)
@given(
    width=st.integers(160, 400),
    height=st.integers(160, 400),
    progressive=st.booleans(),
    comment=st.binary(max_size=12).map(lambda tail: b"\xff\xc0\0\x11\x08\0\x01\0\x01" + tail),
)
def test_a_jpeg_never_has_more_pixels_than_are_expected_of_its_bytes(
    width: int, height: int, comment: bytes, *, progressive: bool
) -> None:
    file = with_jpeg_segment(written(picture(width, height), "JPEG", progressive=progressive), 0xFE, comment)

    assert most_pixels(file) >= width * height == check_header(file).width * check_header(file).height
    assert most_pixels(strip_metadata(file)) == width * height


@pytest.mark.parametrize(
    "tail", [b"\r\n", b"\0\0saved by an editor", b"\x01\x02" * 2_000, b"<x:xmpmeta>edited</x:xmpmeta>"]
)
def test_bytes_behind_a_jpeg_are_dropped_and_no_reason_to_refuse_it(tail: bytes) -> None:
    file = written(picture(), "JPEG")
    assert strip_metadata(file + tail) == strip_metadata(file)
    assert np.array_equal(decode(file + tail).pixels, decode(file).pixels)


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 40 + b"PK\x03\x04" + b"x" * 40,
        b"text, then %PDF-1.7",
        b"\n<!DOCTYPE html><p>",
        b"..<SCRIPT>alert(1)</script>",
        b"MZ\x90\0",
        b"#!/bin/sh",
        b"x" * 70_000,
    ],
)
def test_a_jpeg_that_is_also_another_file_or_drags_much_behind_it_is_refused(tail: bytes) -> None:
    with pytest.raises(ImageUndecodable):
        check_header(written(picture(), "JPEG") + tail)


def test_a_sharp_page_measures_sharper_than_a_blurred_one() -> None:
    sharp = picture(1000, 800)
    page = np.asarray(sharp)
    assert measure_sharpness(Picture(page)).blur > 4 * measure_sharpness(Picture(blurred(page, 2.5))).blur


def test_brightness_and_glare_are_those_of_the_box() -> None:
    page = np.zeros((400, 400, 3), np.uint8)
    page[100:200, 100:200] = 255
    inside = measure_sharpness(Picture(page), (110, 110, 190, 190))
    assert (inside.brightness, inside.glare) == (255, 1)
    assert measure_sharpness(Picture(page), (210, 210, 390, 390)).glare == 0


def test_a_turned_view_of_a_picture_can_be_measured() -> None:
    page = np.asarray(picture(400, 300))
    assert measure_sharpness(Picture(np.rot90(page)), (10, 10, 290, 390)).blur > 0


def test_a_box_is_cut_out_as_a_jpeg_of_its_size() -> None:
    crop = encode_box(Picture(np.asarray(picture())), (10.4, 20, 210, 190.6))
    assert (check_header(crop).width, check_header(crop).height) == (200, 171)


def test_a_box_outside_the_picture_cannot_be_cut() -> None:
    with pytest.raises(ImageNotEvaluable):
        encode_box(Picture(np.asarray(picture())), (400, 0, 500, 100))


@settings(max_examples=300)
@given(
    form=st.sampled_from(["JPEG", "PNG", "WEBP"]),
    places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=12),
    cut=st.integers(0, 400),
)
def test_a_damaged_file_decodes_or_is_refused_by_name(
    form: str, places: list[tuple[int, int]], cut: int
) -> None:
    """Nothing but the two named conditions ever leaves the decoder, and never for a file that is whole."""
    whole = written(picture(176, 168), form, exif=exif(6))
    file = bytearray(whole)
    for place, value in places:
        file[place % len(file)] = value
    damaged = bytes(file[: len(file) - cut])
    try:
        stored, seen = strip_metadata(damaged), decode(damaged)
    except (ImageUndecodable, ImageNotEvaluable):
        assert damaged != whole
    else:
        assert decode(stored).pixels.shape == seen.pixels.shape


def refusal_of(look: Callable[[bytes], object], file: bytes) -> type[Exception] | None:
    try:
        look(file)
    except (ImageUndecodable, ImageNotEvaluable) as refused:
        return type(refused)
    return None


@settings(max_examples=300)
@given(
    kind=st.sampled_from([*sorted(LOSSLESS), "printer's JPEG"]),
    places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4),
    header=st.integers(100, 700) | st.just(10**6),
    mode=st.sampled_from(["RGB", "L"]),
    cut=st.integers(0, 400),
)
def test_examining_refuses_what_decoding_refuses_and_nothing_else(
    kind: str, places: list[tuple[int, int]], header: int, mode: str, cut: int
) -> None:
    form, options = LOSSLESS.get(kind, ("JPEG", {"quality": 90}))
    seen = picture(176, 168).convert(mode if kind in LOSSLESS else "CMYK")
    file = bytearray(written(seen, form, **options))
    for place, value in places:
        file[place % min(header, len(file))] = value
    damaged = bytes(file[: len(file) - cut])
    assert refusal_of(examine, damaged) is refusal_of(decode, damaged)
    ended = damaged + b"\xff\xd9"  # as a JPEG without the end of its picture
    assert refusal_of(examine, ended) is refusal_of(decode, ended)
