"""Where the log is: the embedded broker of the data folder, or a configured Kafka, and its topics."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from app.broker.errors import BrokerError
from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from app.settings import Settings
from app.startup import READY_S, CannotStart
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.runtime.app import GROUP
from streams.runtime.topics import ensure_topics
from streams.verification import agent as verification_agent

ADDRESS_FILE: Final = "address"
"""Beside the broker's log: where clients on this machine find it (G103)."""


@asynccontextmanager
async def open_broker(settings: Settings) -> AsyncIterator[str]:
    """Run the embedded broker on its remembered port, or give the address of the configured Kafka.

    Raises:
        CannotStart: Another process has the log, or the port is taken.
    """
    if settings.kafka_bootstrap is not None:
        yield settings.kafka_bootstrap
        return
    remembered = settings.broker_dir / ADDRESS_FILE
    port = settings.broker_port or _free_again(remembered)
    wanted = BrokerSettings(
        directory=settings.broker_dir, port=port, fsync=settings.broker_fsync, auto_create_topics=False
    )
    async with AsyncExitStack() as stack:
        try:
            opened = await stack.enter_async_context(Broker(wanted))
        except (OSError, BrokerError) as error:
            raise CannotStart(f"the embedded broker cannot start: {error}") from error
        remembered.write_text(opened.address + "\n", encoding="ascii")
        yield opened.address


def _free_again(remembered: Path) -> int:
    """Return the port used last when it can be had again, else 0."""
    try:
        port = int(remembered.read_text(encoding="ascii").strip().rpartition(":")[2])
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, ValueError):
        return 0
    return port


def bootstrap_of(settings: Settings) -> str:
    """Return where the broker of this deployment is.

    Raises:
        CannotStart: None is configured and none ever ran in the data folder.
    """
    if settings.kafka_bootstrap is not None:
        return settings.kafka_bootstrap
    remembered = settings.broker_dir / ADDRESS_FILE
    try:
        return remembered.read_text(encoding="ascii").strip()
    except OSError as error:
        mend = f"start one with: veristream broker --data-dir {settings.data_dir}"
        raise CannotStart(f"no broker runs in {settings.broker_dir}; {mend}") from error


async def prepare_topics(bootstrap: str, patience_s: float = READY_S) -> None:
    """Create the topics; a broker that is still starting is waited for.

    Raises:
        CannotStart: No broker answers.
    """
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            await ensure_topics(bootstrap, GROUP, {verification_agent.TABLE: Topic.VERIFICATION_COMMANDS})
        except StoreUnavailable as error:
            if asyncio.get_running_loop().time() > deadline:
                raise CannotStart(f"no broker answers at {bootstrap}: {error}") from error
            await asyncio.sleep(0.5)
        else:
            return
