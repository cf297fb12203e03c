"""Refusals of a verification whose images cannot be used; pure."""

from collections.abc import Sequence
from typing import Final

from schemas.problems import FieldProblem, ImageNotEvaluable, ImageUndecodable, ProblemCode, Refused

REFUSALS_OF_IMAGES: Final = (
    (ImageUndecodable, ProblemCode.IMAGE_UNDECODABLE, "The image cannot be decoded."),
    (ImageNotEvaluable, ProblemCode.IMAGE_NOT_EVALUABLE, "There is nothing in the image to evaluate."),
)
"""The problem of each decoder error; the first kind found is the answer (G60)."""


def unusable_images(images: Sequence[tuple[str, object]]) -> Refused | None:
    """Return the refusal with the more severe of the two errors, at every image that has it."""
    for condition, code, message in REFUSALS_OF_IMAGES:
        places = [pointer for pointer, image in images if isinstance(image, condition)]
        if places:
            errors = [FieldProblem(code=code, message=message, pointer=pointer) for pointer in places]
            return Refused.because(code, message, *errors)
    return None
