"""The `FaceEngine` port over a face core: models run in a pool, a distance is counted at once."""

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from typing_extensions import override

from app.vision.faces import dlib_engine
from app.vision.faces.core import FaceCore
from app.vision.faces.operator import OperatorFaces
from streams.sight import Embedding, Face, FaceEngine, Picture

P = ParamSpec("P")
R = TypeVar("R")


class Run(Protocol):
    """Runs blocking work away from the event loop; `VisionPool.run` is one."""

    async def __call__(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the work returns, or raise `Overloaded` or `EngineFailed`."""
        ...


class PooledFaceEngine(FaceEngine):
    """A face core whose blocking work runs where `run` runs it; one core serves all threads."""

    def __init__(
        self, core: FaceCore, run: Run, *, model_version: str, pass_at: float, fail_at: float
    ) -> None:
        self.model_version = model_version
        self.pass_at = pass_at
        self.fail_at = fail_at
        self._core = core
        self._run = run

    @override
    async def find(self, picture: Picture) -> tuple[Face, ...]:
        return await self._run(self._core.find, picture)

    @override
    async def embed(self, picture: Picture, face: Face) -> Embedding:
        return await self._run(self._core.embed, picture, face)

    @override
    def distance(self, one: Embedding, other: Embedding) -> float:
        return self._core.distance(one, other)

    async def warm(self) -> None:
        """Run every network once, so that the first request does not pay for it.

        Raises:
            EngineFailed: A model broke.
        """
        await self._run(self._core.warm)


def build_face_engine(run: Run, files: OperatorFaces | None = None) -> PooledFaceEngine:
    """Load the face engine: the operator's models, or the default one; blocks for about a second.

    Raises:
        ModelUnusable: A model is missing, altered or not of its contract; the message names the mend.
    """
    if files is None:
        return PooledFaceEngine(
            dlib_engine.load_core(),
            run,
            model_version=dlib_engine.MODEL_VERSION,
            pass_at=dlib_engine.PASS_AT,
            fail_at=dlib_engine.FAIL_AT,
        )
    return PooledFaceEngine(
        files.load(),
        run,
        model_version=files.model_version,
        pass_at=files.embedder.pass_at,
        fail_at=files.embedder.fail_at,
    )
