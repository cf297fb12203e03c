"""Synchronous core of every face engine: detector, embedder, and the search for the upright turn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Protocol

import numpy as np

from app.vision.faces.geometry import area, turned
from streams.vision_ports import Embedding, Face, Picture, Pixels, Turn

FACES_MAX: Final = 16
"""Only the best faces of a picture are used."""

_SCORE_STEP: Final = 0.1
"""Scores nearer to each other than this say the same, and the larger face comes first."""


_WARM_SIDE: Final = 240
_WARM_POINTS: Final = ((150.0, 100.0), (130.0, 100.0), (90.0, 100.0), (110.0, 100.0), (120.0, 130.0))
"""A picture in pixels, and five different places in it; nobody looks at the vector."""


@dataclass(frozen=True, slots=True)
class Effort:
    """One try at finding faces."""

    side: int
    """The longer side the picture is scaled to, pixels."""
    turn: Turn


@dataclass(frozen=True, slots=True)
class Detection:
    """A face as a detector sees it."""

    face: Face
    """Of turn 0."""
    upright: bool
    """Whether it surely stands; a detector may also answer to a face that lies."""


class Detector(Protocol):
    """Finds upright faces. Any number of threads may call it at once."""

    efforts: Sequence[Effort]
    """What is tried, in this order, until a strong face is found."""
    strong: float
    """A face that scores as much is upright, and the search ends."""
    weakest: float
    """What scores less is no face."""

    def detect(self, pixels: Pixels, side: int, above: int = 0) -> list[Detection]:
        """Return the faces found with the picture's longer side scaled to `side`, best first.

        Smaller copies may be searched too, but need not be where their longer side is at most `above`.

        Raises:
            EngineFailed: The model broke or answered something that is not a number.
        """
        ...


class Embedder(Protocol):
    """Turns an aligned face into a vector. Any number of threads may call it at once."""

    def chip(self, pixels: Pixels, face: Face) -> Pixels:
        """Return the aligned square of a face that is upright on the picture."""
        ...

    def embed(self, pixels: Pixels, face: Face) -> Embedding:
        """Return the vector of a face that is upright on the picture.

        Raises:
            EngineFailed: The model broke or answered something that is not a number.
        """
        ...

    def distance(self, one: Embedding, other: Embedding) -> float:
        """Return how far apart two faces are; smaller is more alike."""
        ...


class _Grade(IntEnum):
    """Quality of the best face of an effort."""

    NOTHING = 0
    WEAK = 1
    STRONG = 2
    UPRIGHT = 3


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of one effort."""

    faces: tuple[Face, ...]
    """Best score first."""
    grade: _Grade
    side: int

    def beats(self, other: "_Found") -> bool:
        """Return whether this effort is better; scores decide among weak faces only."""
        if self.grade is other.grade is _Grade.WEAK:
            return self.faces[0].score > other.faces[0].score
        return self.grade > other.grade


class FaceCore:
    """Detector and embedder; blocks, and may be called from any number of threads at once."""

    def __init__(self, detector: Detector, embedder: Embedder) -> None:
        self._detector = detector
        self._embedder = embedder

    def find(self, picture: Picture, turn: Turn | None = None) -> tuple[Face, ...]:
        """Return the faces, best first: by score, and by size where scores are alike.

        With a turn only that one is tried, and no larger copy once one is as large as the picture itself.

        A larger copy of the picture is tried only when nothing was found on the smaller ones, the next
        quarter turn only when the best face is weak or lies; all faces returned belong to one turn. Copies
        as small as one on which nothing was found at a turn are not searched at that turn again.
        """
        best = _Found((), _Grade.NOTHING, 0)
        nothing_up_to: dict[Turn, int] = {}
        for effort in self._detector.efforts if turn is None else self._at(turn, picture):
            if best.faces and effort.side > best.side:
                continue
            found = self._try(picture, effort, nothing_up_to.get(effort.turn, 0))
            if not found.faces:
                nothing_up_to[effort.turn] = effort.side
            if found.beats(best):
                best = found
            if best.grade is _Grade.UPRIGHT:
                break
        return tuple(sorted(best.faces, key=_rank)[:FACES_MAX])

    def embed(self, picture: Picture, face: Face) -> Embedding:
        """Return the vector of a face `find` returned for this picture."""
        return self._embedder.embed(turned(picture.pixels, face.turn), face)

    def chip(self, picture: Picture, face: Face) -> Pixels:
        """Return the aligned square of a face `find` returned for this picture."""
        return self._embedder.chip(turned(picture.pixels, face.turn), face)

    def distance(self, one: Embedding, other: Embedding) -> float:
        """Return how far apart two faces are; smaller is more alike."""
        return self._embedder.distance(one, other)

    def warm(self) -> None:
        """Run every network once, on a picture without a face.

        Raises:
            EngineFailed: A model broke.
        """
        ramp = np.arange(_WARM_SIDE, dtype=np.uint8)
        pixels = np.stack([np.add.outer(ramp, ramp * step) for step in range(3)], axis=-1)
        self._detector.detect(pixels, self._detector.efforts[0].side)
        self._embedder.embed(pixels, Face((0.0, 0.0, _WARM_SIDE, _WARM_SIDE), 1.0, _WARM_POINTS))

    def _at(self, turn: Turn, picture: Picture) -> Iterator[Effort]:
        for effort in self._detector.efforts:
            if effort.turn == turn:
                yield effort
                if effort.side >= max(picture.width, picture.height):
                    return

    def _try(self, picture: Picture, effort: Effort, above: int) -> _Found:
        detections = self._detector.detect(turned(picture.pixels, effort.turn), effort.side, above)
        seen = [detection for detection in detections if detection.face.score >= self._detector.weakest]
        if not seen:
            return _Found((), _Grade.NOTHING, effort.side)
        grade = _Grade.WEAK
        if seen[0].face.score >= self._detector.strong:
            grade = _Grade.UPRIGHT if seen[0].upright else _Grade.STRONG
        faces = tuple(replace(detection.face, turn=effort.turn) for detection in seen)
        return _Found(faces, grade, effort.side)


def _rank(face: Face) -> tuple[int, float]:
    return -round(face.score / _SCORE_STEP), -area(face.box)
