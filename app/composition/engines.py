"""Open the configured engines; errors name the setting."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager

from prometheus_client import Histogram

from app.process.startup import CannotStart
from app.settings import Settings, refused_settings
from app.vision.engines import EngineChoice, open_engines, starting_forker
from app.vision.forker import CannotFork, Forker
from schemas.problems import VeristreamError
from streams.verification.engines import Engines


@contextmanager
def starting_chosen_forker(settings: Settings) -> Iterator[Forker]:
    """Start the process that loads the models of the settings and forks the vision children, and end it.

    Raises:
        CannotStart: This system cannot confine children.
        SettingsRefused: A choice is malformed.
    """
    with ExitStack() as stack:
        with _refused_models():
            forker = stack.enter_context(starting_forker(choice_of(settings)))
        yield forker


async def wait_for_models(forker: Forker) -> None:
    """Return once a forker has loaded and warmed its models.

    Raises:
        CannotStart: A model cannot be used.
    """
    with _refused_models():
        await asyncio.to_thread(forker.wait_until_loaded)


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
