"""Writes to the platform's audit log that a process began to serve, and under which settings (S59)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from app.house import new_id, now
from app.settings import PREFIX, Settings
from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import ActorType
from schemas.ids import PLATFORM, derive_id
from streams.audit.acts import act, write_row
from streams.audit.committing import Commit
from streams.runtime.reconciler import beside

AGAIN_AFTER_S: Final = 1.0
"""Between two attempts of a worker to write its row while the store is away."""


async def write_start(commit: Commit, role: str, settings: Settings) -> None:
    """Write the row; it names the settings that were given, never their values.

    Raises:
        StoreUnavailable: The row was not written; a front that cannot be audited does not serve.
    """
    await commit(act(PLATFORM, _row(role, settings)))


@asynccontextmanager
async def writing_start(commit: Commit, role: str, settings: Settings) -> AsyncIterator[None]:
    """Write the row beside the process's work, again and again while the store is away.

    A worker waits for its store instead of ending, for its records wait in the log.
    """
    row = _row(role, settings)

    async def write() -> None:
        await commit(act(PLATFORM, row))
        await asyncio.Event().wait()

    async with beside(write, "start", AGAIN_AFTER_S):
        yield


def _row(role: str, settings: Settings) -> AuditEvent:
    given = sorted(f"{PREFIX}{name}".upper() for name in settings.model_fields_set)
    return write_row(
        derive_id("aud", new_id("run")),
        AuditAction.SERVICE_STARTED,
        Actor(actor_type=ActorType.SYSTEM),
        role,
        now(),
        detail=f"A {role} began to serve.",
        changes={"version": _version(), "settings": given},
    )


def _version() -> str:
    try:
        return version("veristream")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"
