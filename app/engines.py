"""Opens the engines a deployment chose, or says what is wrong with its choice."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from app.settings import Settings, refused_settings
from app.startup import CannotStart
from app.vision.engines import EngineChoice, open_engines
from schemas.problems import VeristreamError
from streams.verification.checks import Engines


@asynccontextmanager
async def open_chosen_engines(settings: Settings) -> AsyncIterator[Engines]:
    """Load and warm the engines of the settings.

    Raises:
        CannotStart: A model cannot be used.
        SettingsRefused: A choice is malformed.
    """
    with refused_settings():
        choice = EngineChoice.model_validate(
            {
                "faces": settings.faces,
                "liveness": settings.liveness,
                "workers": settings.vision_workers,
                "waiting": settings.vision_queue,
            }
        )
    async with AsyncExitStack() as stack:
        try:
            engines = await stack.enter_async_context(open_engines(choice))
        except VeristreamError as error:
            raise CannotStart(f"a model cannot be used: {error}") from error
        yield engines
