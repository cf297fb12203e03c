"""Writes to the platform's audit log that a process began to serve, and under which settings (S59)."""

from importlib.metadata import PackageNotFoundError, version

from app.house import new_id, now
from app.settings import PREFIX, Settings
from schemas.audit import Actor, AuditAction
from schemas.enums import ActorType
from schemas.ids import PLATFORM, derive_id
from streams.audit.acts import act, write_row
from streams.audit.committing import Commit


async def write_start(commit: Commit, role: str, settings: Settings) -> None:
    """Write the row; it names the settings that were given, never their values.

    Raises:
        StoreUnavailable: The row was not written; a process that cannot be audited does not serve.
    """
    given = sorted(f"{PREFIX}{name}".upper() for name in settings.model_fields_set)
    row = write_row(
        derive_id("aud", new_id("run")),
        AuditAction.SERVICE_STARTED,
        Actor(actor_type=ActorType.SYSTEM),
        role,
        now(),
        detail=f"A {role} began to serve.",
        changes={"version": _version(), "settings": given},
    )
    await commit(act(PLATFORM, row))


def _version() -> str:
    try:
        return version("veristream")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"
