"""Examine photographs as a verification would, and compute the distances of their faces."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.calibration.pairs import LabelledPairs, Pair
from app.intake.images import MAX_IMAGE_BYTES
from schemas.enums import CheckVerdict
from schemas.problems import EngineFailed, ImageNotEvaluable, ImageUndecodable
from streams.verification.checks import FaceView, RequiredChecks
from streams.verification.engines import Engines
from streams.verification.policy import VerificationPolicy
from streams.verification.rules import is_number, most_severe
from streams.verification.verdicts import selfie_image_findings
from streams.vision_ports import Embedding, ImageDecoder

NO_FACE: Final = "no face"
SEVERAL_FACES: Final = "several faces of like size"
BLURRED: Final = "blurred, so that a person decides whatever the distance"
UNREADABLE: Final = "not one still JPEG, PNG or WebP within the limits of a verification"
TOO_LARGE: Final = f"larger than {MAX_IMAGE_BYTES // 1_000_000} MB"
TOO_SMALL: Final = "too few pixels"
UNREACHED: Final = "cannot be opened"
BROKEN: Final = "an engine broke or took too long"
SAME_PICTURE: Final = "both are the same picture, pixel by pixel"
NO_DISTANCE: Final = "the engine gave no number"


@dataclass(frozen=True, slots=True)
class Photograph:
    """Findings of a photograph; without a usable face, the reason."""

    name: str
    digest: str = ""
    embedding: Embedding | None = None
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pair with its distance; without one, why not."""

    pair: Pair
    distance: float | None
    left_out: str | None = None


class Photographer:
    """Computes the face vector of each photograph, as many at a time as there are children."""

    def __init__(self, engines: Engines, policy: VerificationPolicy, at_once: int) -> None:
        self._decoder: Final[ImageDecoder] = engines.decoder
        self._checks = RequiredChecks(engines, policy)
        self._policy = policy
        self._at_once = at_once

    async def look_at(
        self, labelled: LabelledPairs, report: Callable[[Photograph], None]
    ) -> dict[str, Photograph]:
        """Examine every photograph and return the findings by name; report each as soon as it is done."""
        waiting = iter(labelled.photographs)
        seen: dict[str, Photograph] = {}

        async def work() -> None:
            for name in waiting:
                seen[name] = await self._look(labelled.root, name)
                report(seen[name])

        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._at_once):
                tasks.create_task(work())
        return seen

    async def _look(self, root: Path, name: str) -> Photograph:
        try:
            content = await asyncio.to_thread(_read, root / name)
            if len(content) > MAX_IMAGE_BYTES:
                return Photograph(name, left_out=TOO_LARGE)
            picture = await self._checks.call(self._decoder.decode(content))
            view = await self._checks.look(picture)
        except OSError:
            return Photograph(name, left_out=UNREACHED)
        except ImageUndecodable:
            return Photograph(name, left_out=UNREADABLE)
        except ImageNotEvaluable:
            return Photograph(name, left_out=TOO_SMALL)
        except EngineFailed:
            return Photograph(name, left_out=BROKEN)
        return Photograph(name, picture.digest, view.embedding, self._fault(view))

    def _fault(self, view: FaceView) -> str | None:
        """Return why a verification would not let the distance of this face decide, or None."""
        if view.embedding is None:
            return NO_FACE
        if view.seen.several_alike:
            return SEVERAL_FACES
        found = [verdict for _, verdict in selfie_image_findings(self._policy.images, view.seen)]
        unclear = bool(found) and most_severe(found) not in {CheckVerdict.PASSED, CheckVerdict.WARNED}
        return BLURRED if unclear else None


def compare(
    engines: Engines, pairs: Sequence[Pair], photographs: dict[str, Photograph]
) -> Iterator[Comparison]:
    """Yield the distance of each pair."""
    for pair in pairs:
        one, other = photographs[pair.first], photographs[pair.second]
        usable = one.left_out is None and other.left_out is None
        if not usable or one.embedding is None or other.embedding is None:
            why = "; ".join(f"{seen.name}: {seen.left_out}" for seen in (one, other) if seen.left_out)
            yield Comparison(pair, None, why)
        elif one.digest and one.digest == other.digest:
            yield Comparison(pair, None, SAME_PICTURE)
        elif not is_number(distance := float(engines.faces.distance(one.embedding, other.embedding))):
            yield Comparison(pair, None, NO_DISTANCE)
        else:
            yield Comparison(pair, distance)


def _read(path: Path) -> bytes:
    """Return the file, or one byte more than is allowed of it."""
    with path.open("rb") as file:
        return file.read(MAX_IMAGE_BYTES + 1)
