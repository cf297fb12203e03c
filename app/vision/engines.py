"""Open the configured vision engines, warmed up, in confined child processes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Final

from prometheus_client import Histogram

from app.vision.faces.operator import OperatorFaces
from app.vision.forker import Forker
from app.vision.liveness import LivenessFiles
from app.vision.pool import VisionPool
from app.vision.pooled import (
    PooledDocumentReader,
    PooledFaceEngine,
    PooledFaceMeasurer,
    PooledImageDecoder,
    PooledLivenessEngine,
    PooledTextReader,
)
from schemas.base import Frozen
from schemas.problems import EngineFailed
from streams.verification.engines import Engines
from streams.verification.policy import FACE_FAIL_AT, FACE_PASS_AT

QUICK_WORKERS: Final = 2
"""Children that decode and measure beside those that run models, so that no image waits for a page: a sandbox
verification needs 1 ms of a child, a page 1.5 s."""


class EngineChoice(Frozen):
    """The configured models, and their resources."""

    faces: OperatorFaces | None = None
    """None: the default engine."""
    face_accept_at: float = FACE_PASS_AT
    """Distances of the default engine up to this one are the same person."""
    face_reject_above: float = FACE_FAIL_AT
    """Distances of the default engine above this one are another person."""
    liveness: LivenessFiles | None = None
    """None: LIVENESS is not evaluated."""
    workers: int
    """Children that run models."""
    waiting: int
    """Jobs of one tenant that may queue for them."""


@asynccontextmanager
async def open_engines(
    choice: EngineChoice, forker: Forker | None = None, times: Histogram | None = None
) -> AsyncIterator[Engines]:
    """Make the children that load and warm the models once and run them.

    `forker` is one that has loaded this very choice; without it one is started and ended here. `times` counts
    how long the jobs take.

    Raises:
        CannotFork: This system cannot confine children.
        ForkerRefused: A model is missing, altered or not of its contract; the message says how to fix it.
        EngineFailed: A model broke on its first run.
    """
    if forker is None:
        async with open_forker(choice) as own, open_engines(choice, own, times) as engines:
            yield engines
        return
    facts = forker.facts
    if facts is None:
        raise EngineFailed("a forker without models")
    pool = VisionPool(forker, choice.workers, waiting=choice.waiting, times=times)
    quick = VisionPool(forker, QUICK_WORKERS, waiting=choice.waiting, times=times)
    try:
        await asyncio.gather(pool.start(), quick.start())
        yield Engines(
            decoder=PooledImageDecoder(quick),
            text=PooledTextReader(pool, facts.text_version),
            read_document=PooledDocumentReader(pool),
            faces=PooledFaceEngine(pool, facts.faces),
            measure_faces=PooledFaceMeasurer(pool),
            liveness=PooledLivenessEngine(pool, facts.liveness) if facts.liveness else None,
            load=pool,
        )
    finally:
        await asyncio.gather(pool.aclose(), quick.aclose())


@asynccontextmanager
async def open_forker(choice: EngineChoice | None = None) -> AsyncIterator[Forker]:
    """Run a forker with the models of a choice, or without any; raises as `open_engines`."""
    with starting_forker(choice) as forker:
        await asyncio.to_thread(forker.wait_until_loaded)
        yield forker


@contextmanager
def starting_forker(choice: EngineChoice | None = None) -> Iterator[Forker]:
    """Start a forker and end it; while its models load this process may start the rest.

    Raises:
        CannotFork: This system cannot confine children.
    """
    with closing(Forker(choice.model_dump_json() if choice else None)) as forker:
        yield forker
