"""A moving head made from one portrait by a depth warp, and the same portrait as a print held up."""

import math
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from streams.vision_ports import Picture, Pixels
from tests.vision.portraits import astronaut, grace_hopper

Plane = NDArray[np.float64]

EYES_CM: Final = 6.2
"""Between the middles of the eyes of an adult."""
HALF_WIDTH_CM: Final = 7.6
HALF_HEIGHT_CM: Final = 11.5
HALF_DEPTH_CM: Final = 9.5
"""Half axes of the ellipsoid that stands for the head."""
NOSE_CM: Final = 2.9
"""How far the nose stands out of it."""
AWAY_CM: Final = 50.0
"""From the camera to the head."""
POINTS: Final = 3
"""Points along each side of a pixel that are turned, so that no gaps are left."""

LENS: Final = 1.1
"""Focal length of the camera that sees a print, in widths of the frame."""
BESIDE_CM: Final = 1e4
"""Where a ray meets nothing."""

SIZE: Final = (640, 640)
"""Width and height of a frame."""

PORTRAITS: Final = {
    "astronaut": (astronaut, (203.5, 102.0), (246.4, 104.3), (224.4, 134.6)),
    "grace hopper": (grace_hopper, (223.3, 195.1), (307.0, 190.7), (270.0, 252.8)),
}
"""The middles of the right and left eye and the nose, as the landmarks of the default engine have them."""


class Head:
    """A person before a camera, who can turn and nod."""

    def __init__(self, name: str, eyes_px: float = 96.0, size: tuple[int, int] = SIZE) -> None:
        """Place the portrait with the eyes level and as far apart as given."""
        portrait, right, left, nose = PORTRAITS[name]
        away, between = np.subtract(left, right), np.add(right, left) / 2
        tilt = math.degrees(math.atan2(away[1], away[0]))
        matrix = cv2.getRotationMatrix2D(tuple(between), tilt, eyes_px / math.hypot(*away))
        self._eyes = np.array((size[0] / 2, size[1] * 0.42))
        matrix[:, 2] = matrix[:, 2] + self._eyes - between
        self._nose = matrix @ np.array((*nose, 1.0))
        self._px = eyes_px / EYES_CM
        self._centre = self._eyes + np.array((0.0, 2.5 * self._px))
        placed = cv2.warpAffine(
            portrait().pixels, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
        )
        self.picture = Picture(np.asarray(placed, np.uint8))
        """The straight face."""
        rows, columns = np.mgrid[: size[1], : size[0]].astype(np.float64)
        self._wall = np.asarray(cv2.GaussianBlur(placed, (0, 0), eyes_px / 4), np.uint8)
        beside = self._far(columns, rows) >= 1
        self._wall[beside] = self.picture.pixels[beside]

    def _far(self, x: Plane, y: Plane) -> Plane:
        """Return how far points are from the middle of the head; 1 at its outline."""
        across, below = (x - self._centre[0]) / self._px, (y - self._centre[1]) / self._px
        far: Plane = (across / HALF_WIDTH_CM) ** 2 + (below / HALF_HEIGHT_CM) ** 2
        return far

    def turned(self, left: float = 0.0, up: float = 0.0) -> Picture:
        """Return the head turned to its left and up, degrees; negative: right and down.

        What the head uncovers shows a blurred wall.
        """
        height, width = self.picture.pixels.shape[:2]
        x, y, colours = self._points()
        across, below = (x - self._centre[0]) / self._px, (y - self._centre[1]) / self._px
        to_x, to_y, near = _seen(across, below, self._depth(x, y), math.radians(left), math.radians(up))
        columns = np.clip(np.rint(self._centre[0] + to_x * self._px), 0, width - 1).astype(np.intp)
        rows = np.clip(np.rint(self._centre[1] + to_y * self._px), 0, height - 1).astype(np.intp)
        order = np.argsort(near)  # the nearer ones last
        drawn = self._wall.copy()
        drawn[rows[order], columns[order]] = colours[order]
        return Picture(np.asarray(cv2.medianBlur(drawn, 3), np.uint8))

    def _points(self) -> tuple[Plane, Plane, Pixels]:
        """Return the points of the head, several to a pixel, and their colours."""
        height, width = self.picture.pixels.shape[:2]
        (left, top), half = self._centre, np.array((HALF_WIDTH_CM, HALF_HEIGHT_CM)) * self._px
        columns = np.arange(max(0, left - half[0]), min(width - 1, left + half[0]), 1 / POINTS)
        rows = np.arange(max(0, top - half[1]), min(height - 1, top + half[1]), 1 / POINTS)
        x, y = np.meshgrid(columns, rows)
        inside = self._far(x, y) < 1
        return x[inside], y[inside], _sampled(self.picture.pixels, x, y)[inside]

    def _depth(self, x: Plane, y: Plane) -> Plane:
        """Return how far points of the head stand out towards the camera, cm."""
        along = np.clip((y - self._eyes[1]) / (self._nose[1] - self._eyes[1]), 0, 1.3)
        rise = np.where(along < 1, along, (1.3 - along) / 0.3)
        ridge = np.exp(-(((x - self._nose[0]) / (0.9 * self._px)) ** 2) / 2)
        depth: Plane = HALF_DEPTH_CM * np.sqrt(1 - self._far(x, y)) + NOSE_CM * rise * ridge
        return depth

    def print(self, left: float, away_cm: float, radius_cm: float = math.inf) -> Picture:
        """Return the portrait as a print in life size, turned about the upright axis between its eyes.

        With a radius it is bent round an upright cylinder, the face outside.
        """
        height, width = self.picture.pixels.shape[:2]
        lens = LENS * width
        rays = np.meshgrid(np.arange(width) - self._eyes[0], np.arange(height) - self._eyes[1])
        x, y = rays[0] / lens, rays[1] / lens
        angle = math.radians(left)
        flat = math.isinf(radius_cm)
        along, far = _on_plane(x, angle, away_cm) if flat else _on_cylinder(x, angle, away_cm, radius_cm)
        at_x, at_y = along * self._px + self._eyes[0], y * far * self._px + self._eyes[1]
        return Picture(_sampled(self.picture.pixels, at_x, at_y))


def _on_plane(x: Plane, angle: float, away_cm: float) -> tuple[Plane, Plane]:
    """Return where rays meet a plane that is turned about its middle: along it, and how far away."""
    far = away_cm * math.cos(angle) / (math.cos(angle) + x * math.sin(angle))
    return x * far * math.cos(angle) - (far - away_cm) * math.sin(angle), far


def _on_cylinder(x: Plane, angle: float, away_cm: float, radius_cm: float) -> tuple[Plane, Plane]:
    """Return where rays meet a cylinder: along its surface from the print's middle, and how far away."""
    axis_x, axis_far = -radius_cm * math.sin(angle), away_cm + radius_cm * math.cos(angle)
    half, square = x * axis_x + axis_far, 1 + x * x
    root = half * half - square * (axis_x**2 + axis_far**2 - radius_cm**2)
    far = (half - np.sqrt(np.clip(root, 0, None))) / square
    along = radius_cm * (np.arctan2(x * far - axis_x, axis_far - far) - angle)
    return np.where(root > 0, along, BESIDE_CM), far


def _sampled(pixels: Pixels, x: Plane, y: Plane) -> Pixels:
    at = x.astype(np.float32), y.astype(np.float32)
    return np.asarray(cv2.remap(pixels, *at, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), np.uint8)


def _seen(across: Plane, below: Plane, depth: Plane, left: float, up: float) -> tuple[Plane, Plane, Plane]:
    """Return where points of the turned head are seen, cm about its middle, and how near they are.

    Points of the head that looks straight are seen where they were.
    """
    behind = AWAY_CM + HALF_DEPTH_CM  # the camera stands so far from the head's axis
    across, below = across * (behind - depth) / AWAY_CM, below * (behind - depth) / AWAY_CM
    turned_x = across * math.cos(left) + depth * math.sin(left)
    near = depth * math.cos(left) - across * math.sin(left)
    turned_y = below * math.cos(up) - near * math.sin(up)
    near = near * math.cos(up) + below * math.sin(up)
    larger = AWAY_CM / (behind - near)
    return turned_x * larger, turned_y * larger, near
