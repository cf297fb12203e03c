"""Open the configured engines; errors name the setting."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from prometheus_client import Histogram

from app.process.startup import CannotStart
from app.settings import Settings, refused_settings
from app.vision.engines import EngineChoice, open_engines, open_forker
from app.vision.forker import CannotFork, Forker
from schemas.problems import VeristreamError
from streams.verification.engines import Engines


@asynccontextmanager
async def open_chosen_forker(settings: Settings) -> AsyncIterator[Forker]:
    """Load and warm the models of the settings in a process that forks the vision children.

    Raises:
        CannotStart: A model cannot be used, or this system cannot confine children.
        SettingsRefused: A choice is malformed.
    """
    async with AsyncExitStack() as stack:
        with _refused_models():
            forker = await stack.enter_async_context(open_forker(choice_of(settings)))
        yield forker


@asynccontextmanager
async def open_chosen_engines(
    settings: Settings, forker: Forker | None = None, times: Histogram | None = None
) -> AsyncIterator[Engines]:
    """Open the engines of the settings, in children of a forker that has their models; raises as it does."""
    async with AsyncExitStack() as stack:
        with _refused_models():
            engines = await stack.enter_async_context(open_engines(choice_of(settings), forker, times))
        yield engines


def choice_of(settings: Settings) -> EngineChoice:
    """Return which models the settings name.

    Raises:
        SettingsRefused: A choice is malformed.
    """
    with refused_settings():
        return EngineChoice.model_validate(
            {
                "faces": settings.faces,
                "face_accept_at": settings.face_accept_at,
                "face_reject_above": settings.face_reject_above,
                "liveness": settings.liveness,
                "workers": settings.vision_workers,
                "waiting": settings.vision_queue,
            }
        )


@contextmanager
def _refused_models() -> Iterator[None]:
    try:
        yield
    except CannotFork as error:
        raise CannotStart(str(error)) from error
    except VeristreamError as error:
        raise CannotStart(f"a model cannot be used: {error}") from error
