"""Roles whose clocks are wrong, each in its own way, and whose time zones are not this machine's."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.chaos.fleet import Fleet
from tests.journeys.service import START_S, Role, environment, new_log


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


async def start_clocked(fleet: Fleet, clock: Clock, role: str, *arguments: str, **more: str) -> Role:
    """Start a role of the fleet that lives by this clock; `more` goes into its environment."""
    script = Path(__file__).with_name("clocked_role.py")
    command = (str(script), str(clock.file), role, *arguments, "--data-dir", str(fleet.data_dir))
    log = new_log(fleet.data_dir, f"clocked-{role}")
    given = {**environment(fleet.given(**more)), "PYTHONPATH": str(script.parents[2])}
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=sink, env=given
        )
    started = Role(process, log)
    fleet.roles.append(started)
    assert process.stdout is not None
    async with asyncio.timeout(START_S):
        line = await process.stdout.readline()
    assert b"is ready" in line, log.read_text()
    started.said = line.decode()
    return started
