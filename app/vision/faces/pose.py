"""How a face is turned, measured from five landmarks; pure (P14)."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.vision.faces.geometry import Points, as_points
from streams.vision_ports import Face, Pose

CORNERS_OF_EYES: Final = (2, 3, 1, 0, 4)
"""Where the default engine has the outer and inner corner of the right eye, those of the left one (inner,
outer), and the nose."""
MIDDLES_OF_EYES: Final = (0, 0, 1, 1, 2)
"""The same for landmarks that begin with the right eye, the left eye and the nose."""
LANDMARKS: Final = 5


def measure_pose(landmarks: Sequence[tuple[float, float]], order: Sequence[int] = CORNERS_OF_EYES) -> Pose:
    """Return the pose of a face from landmarks that stand at the places `order` names.

    The axis through the middles of the eyes is turned level, their distance is the unit, and the point
    between them is the origin; so neither a tilt of the head nor its size and place changes the measure.

    Raises:
        ValueError: The eyes are at one place.
    """
    right_outer, right_inner, left_inner, left_outer, nose = as_points(landmarks)[list(order)]
    right, left = (right_outer + right_inner) / 2, (left_inner + left_outer) / 2
    unit = _length(left - right)
    if not unit > 0:
        raise ValueError("the eyes are at one place")
    across = (left - right) / unit
    below = np.array((-across[1], across[0]))
    from_eyes = (nose - (right + left) / 2) / unit
    return Pose(
        turn=float(from_eyes @ across),
        drop=float(from_eyes @ below),
        right_eye=_length(right_inner - right_outer) / unit,
        left_eye=_length(left_outer - left_inner) / unit,
    )


def pose_of(face: Face, eye_corners: bool) -> Pose | None:  # noqa: FBT001 - an adjective
    """Return the pose of a detected face; None when its landmarks are none, or lie on each other."""
    if len(face.points) != LANDMARKS:
        return None
    try:
        pose = measure_pose(face.points, CORNERS_OF_EYES if eye_corners else MIDDLES_OF_EYES)
    except ValueError:
        return None
    return pose if pose.drop > 0 else None


def _length(vector: Points) -> float:
    return float(np.hypot(vector[0], vector[1]))
