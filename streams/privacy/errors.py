"""Refusals of requests about erased subjects (G65)."""

from collections.abc import Iterator
from contextlib import contextmanager

from schemas.problems import ProblemCode, Refused, VeristreamError
from streams.ports.errors import Erased


def subject_erased() -> Refused:
    """Return the refusal of a request that names an erased subject; it created nothing."""
    message = "The subject was erased; nothing can be kept under this id any more. Use another id."
    return Refused.at("/subject_id", ProblemCode.VALIDATION_FAILED, message)


def no_longer_stored(error: VeristreamError) -> Refused:
    """Return the refusal of a command whose images were erased or removed."""
    if isinstance(error, Erased):
        return subject_erased()
    message = "The images are no longer kept; send them again."
    return Refused.because(ProblemCode.STORE_FAILED, message)


@contextmanager
def refusing_erased() -> Iterator[None]:
    """Convert `Erased` into a refusal at /subject_id.

    Raises:
        Refused: VALIDATION_FAILED at /subject_id.
    """
    try:
        yield
    except Erased:
        raise subject_erased() from None
