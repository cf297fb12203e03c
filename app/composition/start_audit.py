"""Write the start of a process and its settings to the platform's audit log (S59)."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import SecretStr
from pydantic_core import to_jsonable_python

from app.adapters.security.crypto import Purpose, RootKey
from app.composition.stores import new_id, now
from app.process.startup import installed_version
from app.settings import PREFIX, Settings
from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import ActorType
from schemas.ids import PLATFORM, derive_id
from streams.audit.commit import Commit, act
from streams.audit.rows import write_row
from streams.runtime.outbox_relay import beside

AGAIN_AFTER_S: Final = 1.0
"""Between two attempts to write what a start writes while the store is away."""

FRONT: Final = "front"
"""The subject of a front's row."""

MARK_DIGITS: Final = 8
"""Hexadecimal digits of a setting's mark: 32 bits distinguish two values and are too few to guess one by."""


@dataclass(frozen=True, slots=True)
class SettingMarks:
    """Marks values of settings, so that two can be compared where neither may be shown."""

    key: bytes = field(repr=False)

    @classmethod
    def under(cls, root_key: RootKey) -> "SettingMarks":
        """Return the marks of a deployment; without its root key they mean nothing."""
        return cls(root_key.derive(Purpose.SETTING_MARKS))

    def of_value(self, name: str, value: object) -> str:
        """Return the mark of a value of a setting."""
        text = f"{name}={json.dumps(_plain(value), sort_keys=True)}"
        return hmac.new(self.key, text.encode(), "sha256").hexdigest()[:MARK_DIGITS]

    def of_given(self, settings: Settings) -> dict[str, str]:
        """Return the mark of each setting that was given, by the name of its variable."""
        return {variable(name): self.of_value(name, getattr(settings, name)) for name in _given(settings)}


def _plain(value: object) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    plain = to_jsonable_python(value)
    return sorted(plain) if isinstance(value, frozenset) else plain


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{name}".upper()


def _given(settings: Settings) -> list[str]:
    return sorted(settings.model_fields_set)


async def write_front_start(commit: Commit, settings: Settings, marks: SettingMarks, address: str) -> str:
    """Write the row of a front that listens at an address of its machine; returns the id of the row.

    Raises:
        StoreUnavailable: The row was not written; a front that cannot be audited does not serve.
    """
    row = _row(FRONT, settings, {"address": address, "marks": marks.of_given(settings)})
    await commit(act(PLATFORM, row))
    return row.event_id


@asynccontextmanager
async def writing_start(commit: Commit, role: str, settings: Settings) -> AsyncIterator[None]:
    """Write the row in the background, with retries while the store is unavailable.

    A worker waits for its store instead of ending, for its records wait in the log.
    """
    row = _row(role, settings)

    async def write() -> None:
        await commit(act(PLATFORM, row))
        await asyncio.Event().wait()

    async with beside(write, "start", AGAIN_AFTER_S):
        yield


def _row(role: str, settings: Settings, further: Mapping[str, Any] | None = None) -> AuditEvent:
    """Return the row, which names the settings that were given and none of their values."""
    given = [variable(name) for name in _given(settings)]
    return write_row(
        derive_id("aud", new_id("run")),
        AuditAction.SERVICE_STARTED,
        Actor(actor_type=ActorType.SYSTEM),
        role,
        now(),
        detail=f"A {role} began to serve.",
        changes={"version": installed_version(), "settings": given, **(further or {})},
    )
