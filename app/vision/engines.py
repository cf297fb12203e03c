"""Opens every engine that sees, as configured, warm and behind one bounded pool."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.vision.faces.engine import build_face_engine
from app.vision.faces.operator import OperatorFaces
from app.vision.images import PooledImageDecoder
from app.vision.liveness import MMOD_BOX, YUNET_BOX, LivenessFiles, build_liveness_engine
from app.vision.ocr import RapidTextReader
from app.vision.pool import VisionPool
from schemas.base import Frozen
from streams.verification.checks import Engines
from streams.verification.reading import read_findings


class EngineChoice(Frozen):
    """Which models see, and with how much room."""

    faces: OperatorFaces | None = None
    """None: the default engine."""
    liveness: LivenessFiles | None = None
    """None: LIVENESS is not evaluated."""
    workers: int
    """Threads that run models."""
    waiting: int
    """Jobs that may queue for them."""


@asynccontextmanager
async def open_engines(choice: EngineChoice) -> AsyncIterator[Engines]:
    """Load the models and try each of them; text readers are made and tried on every thread.

    Raises:
        ModelUnusable: A model is missing, altered or not of its contract; the message names the mend.
        EngineFailed: A model broke on its first run.
    """
    pool = VisionPool(choice.workers, waiting=choice.waiting)
    shape = MMOD_BOX if choice.faces is None else YUNET_BOX
    try:
        text, faces, liveness = await asyncio.gather(
            asyncio.to_thread(RapidTextReader, pool),
            asyncio.to_thread(build_face_engine, pool.run, choice.faces),
            asyncio.to_thread(build_liveness_engine, pool.run, choice.liveness, shape),
        )
        await pool.warm(text.warm_up)
        await faces.warm()
        if liveness is not None:
            await liveness.warm()
        yield Engines(
            decoder=PooledImageDecoder(pool),
            text=text,
            read_document=read_findings,
            faces=faces,
            liveness=liveness,
        )
    finally:
        await pool.aclose()
