"""Ports of the vision engines, and their values: pictures, text and faces."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.enums import TextEnum
from schemas.problems import ImageNotEvaluable, ImageUndecodable

Pixels = NDArray[np.uint8]
"""An upright RGB picture: shape (height, width, 3), 0-255."""

Quad = tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]
"""Four corners of a text line in pixels, clockwise from the line's own top left."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""

Turn = Literal[0, 90, 180, 270]
"""A clockwise quarter turn in degrees."""

Embedding = NDArray[np.float32]
"""A face as a vector; comparable only with vectors of the same engine."""


TENANT: Final = ContextVar("engine_tenant", default="")
"""The tenant that engines work for; set while a command is executed, for fair scheduling."""


@contextmanager
def on_behalf_of(tenant_id: str) -> Iterator[None]:
    """Set the tenant that engines work for within the context."""
    token = TENANT.set(tenant_id)
    try:
        yield
    finally:
        TENANT.reset(token)


_DEADLINE: Final = ContextVar[asyncio.Timeout | None]("engine_deadline", default=None)


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[None]:
    """Limit the engine time within the context, without the time spent in `not_counted`.

    Raises:
        TimeoutError: It took longer.
    """
    async with asyncio.timeout(seconds) as limit:
        token = _DEADLINE.set(limit)
        try:
            yield
        finally:
            _DEADLINE.reset(token)


@contextmanager
def not_counted() -> Iterator[None]:
    """Pause the deadline within the context: for waiting, or work that is limited otherwise."""
    limit, loop = _DEADLINE.get(), asyncio.get_running_loop()
    until = None if limit is None or limit.expired() else limit.when()
    if limit is None or until is None:
        yield
        return
    left_s = until - loop.time()
    limit.reschedule(None)
    try:
        yield
    finally:
        if not limit.expired():
            limit.reschedule(loop.time() + left_s)


@dataclass(frozen=True, slots=True)
class Picture:
    """A decoded image: upright, RGB, without metadata."""

    pixels: Pixels
    digest: str = ""
    """Digest of the size and the pixels, hexadecimal: equal pictures have equal digests, in whatever format
    they came. Empty for a picture that was not decoded from an image."""

    @property
    def width(self) -> int:
        """Width in pixels."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Height in pixels."""
        return int(self.pixels.shape[0])


@dataclass(frozen=True, slots=True)
class Sharpness:
    """How well an image, or a region of it, can be evaluated; measured, not judged."""

    blur: float
    """90th percentile over 64-px tiles of the Laplacian's variance at 1000 px longer side; low is blurred."""
    brightness: float
    """Mean luma, 0-255."""
    glare: float
    """Share of the region that is burnt out, 0-1; of a whole image 0, for white paper counts as burnt out."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """One recognised line of text where it stands on the upright page."""

    text: str
    score: float
    """The recogniser's confidence, 0-1."""
    quad: Quad


@dataclass(frozen=True, slots=True)
class TextPage:
    """What a text reader saw on a page turned upright by `turn`."""

    lines: tuple[TextLine, ...]
    width: int
    """Width of the turned page, pixels."""
    height: int
    """Height of the turned page, pixels."""
    turn: Turn


@dataclass(frozen=True, slots=True)
class Face:
    """A detected face in pixels of the picture it was found on."""

    box: Box
    score: float
    """The detector's confidence; its scale belongs to the engine."""
    points: tuple[tuple[float, float], ...]
    """Five landmarks in the engine's own fixed order."""
    turn: Turn = 0
    """The clockwise turn of the picture that made this face upright; box and points are on the turned one."""


@dataclass(frozen=True, slots=True)
class MeasuredFaces:
    """The faces on a picture, best first; sharpness and vector of the best one, None without a face."""

    faces: tuple[Face, ...]
    sharpness: Sharpness | None = None
    embedding: Embedding | None = None


@dataclass(frozen=True, slots=True)
class Pose:
    """How a face is turned, in units of the distance between the middles of the eyes."""

    turn: float
    """The nose across, from the middle between the eyes; positive: towards the person's left."""
    drop: float
    """The nose below the axis of the eyes."""
    right_eye: float = 0.0
    left_eye: float = 0.0
    """How wide the eyes are; both 0 where the engine does not see their corners."""


Condition = ImageUndecodable | ImageNotEvaluable
"""The errors of an image that cannot be decoded or evaluated."""


class EngineLoad(Protocol):
    """How much engines have to do."""

    @property
    def workers(self) -> int:
        """Jobs that can run at once."""
        ...

    finished: int
    """Jobs that ended in any way, ever."""
    progress: int
    """Grows while there is progress: when a job ends, and while one works that takes long."""
    running: int

    @property
    def waiting(self) -> int:
        """Jobs that wait for a worker."""
        ...

    async def probe(self) -> str | None:
        """Return why no job can be expected to end well, or None."""
        ...


class SharpnessMeter(Protocol):
    """Measure how well a picture can be evaluated."""

    async def sharpness(self, picture: Picture, box: Box | None = None) -> Sharpness:
        """Measure the whole picture or one box of it (left, top, right, bottom).

        Raises:
            ImageNotEvaluable: The box lies outside the picture.
        """
        ...


class ImageDecoder(SharpnessMeter, Protocol):
    """Decode images of requests safely."""

    async def decode(self, image: bytes) -> Picture:
        """Return the upright RGB picture.

        Raises:
            ImageUndecodable: Not one still JPEG, PNG or WebP, truncated, or over the limits of G61.
            ImageNotEvaluable: It decodes but is below the minimum size.
        """
        ...

    async def examine(self, images: Sequence[bytes]) -> tuple[Condition | None, ...]:
        """Decode each image as `decode` would and return what is wrong with it; its pixels are not wanted."""
        ...

    async def encode(self, picture: Picture, box: Box) -> bytes:
        """Return one box of the picture as a JPEG without metadata."""
        ...

    async def print_rows(self, picture: Picture) -> int:
        """Return how many rows of print the picture seems to show; cheap, and no proof that there are any."""
        ...


class Detail(TextEnum):
    """How closely to look for text."""

    COARSE = "coarse"
    """Enough for the lines of a machine-readable zone whose content is checked; quick."""
    FINE = "fine"
    """Every line, small print too, and every letter as wide as it is; twice the cost of finding, and a third
    more of reading a long line."""


class TextReader(Protocol):
    """Finds and recognises text; makes no sense of it.

    Finding and recognising are two steps, so that a page lying on its side or on its head is searched
    once, and only the lines that matter are recognised, in whichever direction the caller asks.
    """

    model_version: str
    """Engine and first eight hex digits of each model's SHA-256."""

    async def find_lines(self, picture: Picture, detail: Detail) -> tuple[Quad, ...]:
        """Return where lines of text stand, from top to bottom; at most 200, the largest ones.

        Corners are given as if the picture were upright. May raise `Overloaded` or `EngineFailed`.
        """
        ...

    async def read_lines(
        self, picture: Picture, quads: Sequence[Quad], detail: Detail = Detail.FINE
    ) -> tuple[TextLine, ...]:
        """Return one line for each quad, in order; one that cannot be read has an empty text and score 0.

        A line is read from its quad's first corner towards its second, so the order of the corners
        says how the page is turned. A coarse look may misread letters of long lines. May raise `Overloaded`
        or `EngineFailed`.
        """
        ...

    async def read_codes(self, picture: Picture) -> tuple[str, ...]:
        """Return the text of each QR code that can be read; an unreadable one says nothing."""
        ...


class FaceEngine(Protocol):
    """Find faces and measure the distance of two. A smaller distance always means more alike."""

    model_version: str
    """Engine and first eight hex digits of the weights' SHA-256, such as `dlib-resnet-v1@55533b28`."""
    pass_at: float
    """Distances up to this one are the same person."""
    fail_at: float
    """Distances above this one are another person; between the two a review is needed."""
    copy_at: float
    """Parallaxes up to this one are two copies of one photograph."""

    async def find(self, picture: Picture, turn: Turn | None = None) -> tuple[Face, ...]:
        """Return the faces, best first (score, then size); small spurious ones are left out.

        With a turn only faces that stand upright at it are looked for, which costs less.
        """
        ...

    async def embed(self, picture: Picture, face: Face) -> Embedding:
        """Align the face and return its vector."""
        ...

    def distance(self, one: Embedding, other: Embedding) -> float:
        """Return how far apart two faces are in the engine's own metric."""
        ...

    def pose(self, face: Face) -> Pose | None:
        """Return how a face is turned; None for landmarks that are those of no face."""
        ...

    async def parallax(self, one: Picture, one_face: Face, other: Picture, other_face: Face) -> float:
        """Return how far two photographs of one face are from being copies of one photograph.

        In pixels of the aligned face scaled to 150 pixels; smaller is more alike. May raise `Overloaded` or
        `EngineFailed`.
        """
        ...


class LivenessEngine(Protocol):
    """Estimate how likely a face on a still image is a living person before the camera."""

    model_version: str
    pass_at: float
    fail_at: float

    async def score(self, picture: Picture, face: Face) -> float:
        """Return the likelihood of a living person, 0-1."""
        ...
