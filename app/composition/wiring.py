"""Run broker, agents and front in one process.

Stores are opened by `stores`, which commands that need nothing else import alone.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

from app.composition.engines import starting_chosen_forker, wait_for_models
from app.composition.front import open_front
from app.composition.lists import open_lists
from app.composition.stores import Deployment, open_deployment
from app.composition.worker import open_worker
from app.http.listen import listen
from app.kafka.cluster import open_broker, prepare_topics
from app.process.startup import refuse_taken_ports
from app.settings import Settings
from app.vision.forker import Forker
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Running:
    """A service that is ready."""

    url: str
    access: LogAccess
    deployment: Deployment


@asynccontextmanager
async def running_all(
    settings: Settings, report: Report = lambda _: None, forker: Forker | None = None
) -> AsyncIterator[Running]:
    """Run broker, agents and front in this process; ready when the context is entered.

    `forker` is one that loads the models of the settings already; without it one is started and ended here.

    Raises:
        CannotStart: A part cannot start; the message says how to fix it.
    """
    with ExitStack() as started, listen(settings) as listening:
        refuse_taken_ports(settings, with_broker=True)
        forker = forker or started.enter_context(starting_chosen_forker(settings))
        async with open_deployment(settings) as deployment, open_broker(settings) as access:
            report("creating topics")
            await prepare_topics(access)
            report("loading and warming the models, starting the agents")
            await wait_for_models(forker)
            async with (
                LogWriter(access, deployment.record_keys) as writer,
                open_lists(settings, deployment, writer, access, whole=True) as lists,
                open_worker(settings, deployment, writer, access, forker=forker, lists=lists) as worker,
                open_front(
                    settings, deployment, writer, access, listening, worker, forker=forker, lists=lists
                ) as url,
            ):
                yield Running(url=url, access=access, deployment=deployment)
