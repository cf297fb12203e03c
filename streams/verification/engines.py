"""The engines of an evaluation, how their answers are awaited, and the parts of a picture they are shown."""

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import structlog

from schemas.problems import EngineFailed, ImageNotEvaluable
from streams.verification.observations import DocumentFindings
from streams.verification.policy import FaceBands, VerificationPolicy
from streams.vision_ports import (
    Box,
    EngineLoad,
    Face,
    FaceEngine,
    ImageDecoder,
    LivenessEngine,
    MeasuredFaces,
    Picture,
    SharpnessMeter,
    TextReader,
    Turn,
)

PORTRAIT_MARGIN: Final = 0.35
"""Margin around the face on each side, as a share of its box: hair, chin and shoulders."""

log = structlog.get_logger(__name__)

One = TypeVar("One")
Other = TypeVar("Other")


class DocumentReader(Protocol):
    """Read the text of a document."""

    async def __call__(self, reader: TextReader, picture: Picture, today: date) -> DocumentFindings:
        """Return what was read; an unknown document is a finding too.

        Raises:
            EngineFailed: The text reader broke.
            Overloaded: The text reader has no room.
        """
        ...


class FaceMeasurer(Protocol):
    """Find the faces on a picture and measure the best one."""

    async def __call__(
        self, engine: FaceEngine, meter: SharpnessMeter, picture: Picture, turn: Turn | None, /
    ) -> MeasuredFaces:
        """Return the faces, as `FaceEngine.find` does, and what was measured of the best one.

        Raises:
            EngineFailed: An engine broke.
            Overloaded: An engine has no room.
        """
        ...


async def measure_faces(
    engine: FaceEngine, meter: SharpnessMeter, picture: Picture, turn: Turn | None, /
) -> MeasuredFaces:
    """Measure the best face step by step: a `FaceMeasurer` wherever the engines are.

    Raises:
        EngineFailed: An engine broke.
        Overloaded: An engine has no room.
    """
    faces = await engine.find(picture, turn)
    if not faces:
        return MeasuredFaces(faces)
    best = faces[0]
    try:
        sharpness = await meter.sharpness(turned(picture, best), best.box)
    except ImageNotEvaluable as error:
        raise EngineFailed("a face lies outside its picture") from error
    return MeasuredFaces(faces, sharpness, await engine.embed(picture, best))


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of an evaluation."""

    decoder: ImageDecoder
    text: TextReader
    read_document: DocumentReader
    faces: FaceEngine
    measure_faces: FaceMeasurer = measure_faces
    liveness: LivenessEngine | None = None
    """None: LIVENESS answers NOT_EVALUATED."""
    load: EngineLoad | None = None
    """The load of the engines; None where it is not counted."""


async def both(one: Coroutine[Any, Any, One], other: Coroutine[Any, Any, Other]) -> tuple[One, Other]:
    """Await two results concurrently; when one fails, cancel the other before raising."""
    try:
        async with asyncio.TaskGroup() as group:
            first, second = group.create_task(one), group.create_task(other)
    except BaseExceptionGroup as failures:
        first_failure = failures.exceptions[0]
        raise first_failure from first_failure.__cause__
    return first.result(), second.result()


async def unless_broken(engine: str, answer: Awaitable[One]) -> One | None:
    """Return the result, or None when the engine broke or timed out; only the engine's name is logged."""
    try:
        return await answer
    except EngineFailed as error:
        log.warning("engine.failed", engine=engine, cause=type(error.__cause__ or error).__name__)
        return None


def face_bands(policy: VerificationPolicy, engine: FaceEngine) -> FaceBands:
    """Return the thresholds of an engine: the policy's, or else its own."""
    own_bands = FaceBands(accept_at=engine.pass_at, reject_above=engine.fail_at, copy_at=engine.copy_at)
    return policy.face_bands.get(name_of(engine.model_version), own_bands)


def name_of(model_version: str) -> str:
    """Return the engine's name, the part of its version before the weights."""
    return model_version.partition("@")[0]


def area(box: Box) -> float:
    """Return the area of a box in square pixels."""
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def turned(picture: Picture, face: Face) -> Picture:
    """Return the picture turned upright for the face; a view, no pixels are copied."""
    return Picture(np.rot90(picture.pixels, k=-face.turn // 90)) if face.turn else picture


def with_margin(box: Box, picture: Picture) -> Box:
    """Return the box with a margin around it, within the picture."""
    wide, high = (box[2] - box[0]) * PORTRAIT_MARGIN, (box[3] - box[1]) * PORTRAIT_MARGIN
    left, top = max(0.0, box[0] - wide), max(0.0, box[1] - high)
    return left, top, min(float(picture.width), box[2] + wide), min(float(picture.height), box[3] + high)
