"""What the front may do in its event loop with an image, and what belongs in a thread."""

import pytest

from app.images_in import Arrived, keep_upright
from app.vision import images
from schemas.problems import ProblemCode, Refused
from tests.specimens.hostile import jpeg_of_size, picture, written


def arrived(content: bytes) -> Arrived:
    """An image as it was sent in the document's place."""
    return Arrived("/document/image_base64", content, "")


@pytest.mark.parametrize("orientation", range(2, 9))
def test_an_image_that_must_be_turned_is_left_to_a_thread(orientation: int) -> None:
    turned = picture()
    turned.getexif()[274] = orientation

    content = written(turned, "JPEG", exif=turned.getexif())

    assert keep_upright(images, arrived(content)) is None


def test_an_upright_image_may_be_stripped_at_once() -> None:
    kept = keep_upright(images, arrived(written(picture(), "JPEG")))

    assert kept is not None
    assert kept.content.startswith(b"\xff\xd8")


def test_an_image_over_the_limits_is_refused_at_its_place_before_it_is_turned() -> None:
    with pytest.raises(Refused) as refused:
        keep_upright(images, arrived(jpeg_of_size(65_535, 65_535)))

    assert refused.value.refusal.code is ProblemCode.IMAGE_UNDECODABLE
    assert refused.value.refusal.errors[0].pointer == "/document/image_base64"
