"""F24, the short form: steady load leaves a front and a worker as they were, and nothing waiting.

The half hour is `tests/bench/soak.py`.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from schemas.topics import Topic
from tests.chaos.fleet import UNHURRIED, Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.logs import until_caught_up
from tests.chaos.sizes import commands, seeded
from tests.chaos.verdict import check
from tests.journeys.service import METRICS, SHOW_METRICS, Role

MOST_GROWTH_BYTES = 48 * 1024 * 1024
"""Memory may still settle in so short a run; a request that left its images behind would show."""

MOST_MORE_FILES = 8


@dataclass(frozen=True, slots=True)
class Size:
    """What a process holds."""

    memory: int
    files: int

    @classmethod
    def of(cls, role: Role) -> Self:
        """Measure a process."""
        folder = Path("/proc") / str(role.process.pid)
        pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), len(list((folder / "fd").iterdir())))


async def test_a_steady_load_leaves_the_processes_as_they_were(tmp_path: Path, profile: Profile) -> None:
    seeded("F24")
    count = commands(250)
    given = {**METRICS, **UNHURRIED}
    async with running_fleet(tmp_path, profile, **given) as fleet, open_client() as client:
        front, worker = await asyncio.gather(fleet.front(), fleet.worker())
        loads = [Load(client, front.url, fleet.test_key, count, name=name) for name in ("warm", "load")]
        await loads[0].post_all(at_once=16)
        tasks = await tasks_of(loads[0])
        before = [Size.of(role) for role in (front, worker)]
        await loads[1].post_all(at_once=16)
        await until_caught_up(profile.access, Topic.VERIFICATION_COMMANDS)
        await until_caught_up(profile.access, Topic.AUDIT)
        more_tasks = await tasks_of(loads[1]) - tasks
        after = [Size.of(role) for role in (front, worker)]
        await check(fleet)

    assert [load.outcomes for load in loads] == [{(201, None): count}] * 2
    assert (
        max(late.memory - early.memory for early, late in zip(before, after, strict=True)) < MOST_GROWTH_BYTES
    )
    assert max(late.files - early.files for early, late in zip(before, after, strict=True)) < MOST_MORE_FILES
    assert more_tasks < MOST_MORE_FILES


async def tasks_of(load: Load) -> int:
    """Ask the front how many tasks its event loop has."""
    async with load.client.get(f"{load.url}/metrics", headers=SHOW_METRICS) as answer:
        families = text_string_to_metric_families(await answer.text())
        return int(next(f.samples[0].value for f in families if f.name == "veristream_loop_tasks"))
