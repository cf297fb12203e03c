"""What the front may do in its event loop with an image, and what belongs in a child."""

import pytest

from app.intake.images import ReceivedImage, make_storable
from app.vision.images import strip_upright
from schemas.problems import ProblemCode, Refused
from tests.specimens.hostile import jpeg_of_size, picture, written


def arrived(content: bytes) -> ReceivedImage:
    """An image as it was sent in the document's place."""
    return ReceivedImage("/document/image_base64", content, "")


class Gate:
    """Does in the event loop what is allowed there, and notes what is left to a child."""

    def __init__(self) -> None:
        self.turned = 0

    def strip_upright(self, data: bytes) -> bytes | None:
        """As the real one."""
        return strip_upright(data)

    async def strip_metadata(self, data: bytes) -> bytes:
        """Stand for the child."""
        self.turned += 1
        return data


@pytest.mark.parametrize("orientation", range(2, 9))
async def test_an_image_that_must_be_turned_is_left_to_a_child(orientation: int) -> None:
    gate, turned = Gate(), picture()
    turned.getexif()[274] = orientation

    await make_storable(gate, arrived(written(turned, "JPEG", exif=turned.getexif())))

    assert gate.turned == 1


async def test_an_upright_image_is_stripped_at_once() -> None:
    gate = Gate()
    stored = await make_storable(gate, arrived(written(picture(), "JPEG")))

    assert (stored.media_type, gate.turned) == ("image/jpeg", 0)


async def test_an_image_over_the_limits_is_refused_at_its_place_before_it_is_turned() -> None:
    with pytest.raises(Refused) as refused:
        await make_storable(Gate(), arrived(jpeg_of_size(65_535, 65_535)))

    assert refused.value.refusal.code is ProblemCode.IMAGE_UNDECODABLE
    assert refused.value.refusal.errors[0].pointer == "/document/image_base64"
