"""Roles whose clocks are wrong, each in its own way, and whose time zones are not this machine's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.chaos import clocked_role
from tests.chaos.fleet import Fleet
from tests.journeys.service import Role, start_preloaded


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that is some seconds ahead; negative is behind."""

    file: Path

    @classmethod
    def ahead(cls, folder: Path, name: str, seconds: float) -> Self:
        """Make one."""
        clock = cls(folder / f"{name}.clock")
        clock.set(seconds)
        return clock

    def set(self, seconds: float) -> None:
        """Let it jump."""
        draft = self.file.with_suffix(".draft")
        draft.write_text(str(seconds), encoding="ascii")
        draft.replace(self.file)


async def start_clocked(fleet: Fleet, clock: Clock, *arguments: str, **more: str) -> Role:
    """Start a role of the fleet that lives by this clock; `more` goes into its environment."""
    given = fleet.given(**more)
    role = await start_preloaded(
        fleet.data_dir, str(clock.file), *arguments, given=given, run=clocked_role.run
    )
    assert role.said, role.log.read_text()
    fleet.roles.append(role)
    return role
