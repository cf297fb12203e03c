"""Text reading: pinned models, and no network."""

import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from sys import getrefcount

import numpy as np
import pytest
import pytest_asyncio
from rapidocr.ch_ppocr_det.utils import DetPreProcess
from rapidocr.ch_ppocr_rec.utils import CTCLabelDecode

from app.demo.specimens import PassportSpecimen, draw_passport
from app.vision.models import ModelUnusable, open_session
from app.vision.ocr import (
    DETECTOR,
    MAX_LINES,
    RECOGNISER,
    RapidTextReader,
    _crop,
    _Normaliser,
    _packaged_models,
)
from streams.verification.readers.layout import facing, length
from streams.verification.readers.td3_lines import LENGTH
from streams.vision_ports import Detail, Picture, TextLine
from tests.specimens.degrade import as_pixels

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = Picture(as_pixels(draw_passport(PassportSpecimen())))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader() -> AsyncIterator[RapidTextReader]:
    """The reader as it is in a child."""
    opened = RapidTextReader()
    opened.warm()
    yield opened


async def everything_on(reader: RapidTextReader, picture: Picture) -> tuple[TextLine, ...]:
    return await reader.read_lines(picture, await reader.find_lines(picture, Detail.FINE))


async def some_lines_on(reader: RapidTextReader, picture: Picture) -> tuple[TextLine, ...]:
    return await reader.read_lines(picture, (await reader.find_lines(picture, Detail.COARSE))[:8])


async def test_a_page_is_read(reader: RapidTextReader) -> None:
    texts = {line.text for line in await everything_on(reader, PAGE)}
    assert {"SPECIMEN", "ERIKSSON", "ANNA MARIA", "L898902C3", "12 AUG 1974"} <= texts


async def test_one_line_is_answered_for_each_quad_in_order(reader: RapidTextReader) -> None:
    quads = await reader.find_lines(PAGE, Detail.COARSE)
    backwards = await reader.read_lines(PAGE, quads[::-1])
    assert [line.quad for line in backwards] == list(quads[::-1])


async def test_a_line_reads_the_same_whatever_is_read_with_it(reader: RapidTextReader) -> None:
    quads = await reader.find_lines(PAGE, Detail.FINE)
    batched = await reader.read_lines(PAGE, quads)
    assert [await reader.read_lines(PAGE, [quad]) for quad in quads] == [(line,) for line in batched]


async def test_the_order_of_the_corners_turns_the_page(reader: RapidTextReader) -> None:
    lying = Picture(as_pixels(np.rot90(PAGE.pixels)))
    quads = [facing(quad, 90) for quad in await reader.find_lines(lying, Detail.COARSE)]
    assert "ERIKSSON" in {line.text for line in await reader.read_lines(lying, quads)}


async def test_a_quad_of_no_size_has_no_text(reader: RapidTextReader) -> None:
    point = ((5.0, 5.0),) * 4
    assert await reader.read_lines(PAGE, [point]) == (TextLine("", 0.0, point),)


async def test_quads_reaching_over_the_edge_are_read(reader: RapidTextReader) -> None:
    over = ((-50.0, 670.0), (1400.0, 670.0), (1400.0, 740.0), (-50.0, 740.0))
    assert "ERIKSSON" in (await reader.read_lines(PAGE, [over]))[0].text


@pytest.mark.parametrize("size", [(880, 1250), (33, 47), (200, 3000), (10, 10)])
async def test_the_detector_sees_to_the_bit_what_rapidocr_would_show_it(size: tuple[int, int]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8)
    theirs, ours = (kind(2000, "max")(picture) for kind in (DetPreProcess, _Normaliser))
    assert (theirs is None) == (ours is None) == (max(size) < 16)
    assert np.array_equal(np.asarray(theirs), np.asarray(ours))


async def test_the_last_layer_in_pieces_reads_to_the_bit_what_the_whole_model_reads(
    reader: RapidTextReader,
) -> None:
    whole = open_session((_packaged_models() / RECOGNISER).read_bytes())
    characters = whole.get_modelmeta().custom_metadata_map["character"].splitlines()
    theirs, ours = CTCLabelDecode(character=characters), reader._eyes._recogniser
    longest = sorted(await reader.find_lines(PAGE, Detail.FINE), key=length)[-6:]
    crops = [_crop(PAGE.pixels, quad) for quad in longest]
    inputs = [
        ours.resize_norm_img(crop, crop.shape[1] / crop.shape[0])[None] for crop in crops if crop is not None
    ]
    read = [ours.postprocess_op(ours.session(line))[0] for line in inputs]
    assert read == [theirs(np.asarray(whole.run(None, {"x": line})[0]))[0] for line in inputs]
    assert max(len(text) for ((text, _),) in read) == LENGTH


async def test_a_session_does_not_keep_the_file_it_was_opened_from() -> None:
    graph = (_packaged_models() / RECOGNISER).read_bytes()
    before = getrefcount(graph)
    session = open_session(graph)
    assert getrefcount(graph) == before
    assert session.get_inputs()


async def test_an_empty_page_has_no_lines(reader: RapidTextReader) -> None:
    assert await reader.find_lines(Picture(np.full((500, 700, 3), 200, np.uint8)), Detail.FINE) == ()


async def test_a_page_of_a_thousand_words_is_bounded(reader: RapidTextReader) -> None:
    page = np.full((1600, 1600, 3), 255, np.uint8)
    down, across = np.mgrid[:1600, :1600]
    page[(down % 32 < 14) & (across % 64 < 44) & ((down + across) % 5 < 3)] = 0
    assert len(await reader.find_lines(Picture(page), Detail.FINE)) <= MAX_LINES


@pytest.mark.parametrize("size", [(160, 8000), (8000, 160), (160, 160)])
async def test_any_lawful_shape_can_be_searched(reader: RapidTextReader, size: tuple[int, int]) -> None:
    found = await reader.find_lines(Picture(np.full((*size, 3), 220, np.uint8)), Detail.FINE)
    assert found == ()


async def test_the_version_names_both_models(reader: RapidTextReader) -> None:
    assert reader.model_version == "ppocrv6-small@090f04ab+6f327246"


@pytest.mark.parametrize("altered", [DETECTOR, RECOGNISER])
async def test_an_altered_model_is_refused(tmp_path: Path, altered: str) -> None:
    models = tmp_path / "models"
    shutil.copytree(_packaged_models(), models)
    with (models / altered).open("ab") as model:
        model.write(b"\0")
    with pytest.raises(ModelUnusable, match="pinned"):
        RapidTextReader(models)


async def test_a_missing_model_is_refused_and_nothing_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *address: asked.append(address))
    with pytest.raises(ModelUnusable):
        RapidTextReader(tmp_path)
    assert asked == []
