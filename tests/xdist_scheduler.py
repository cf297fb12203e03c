"""Schedules the tests over the processes of a run: what waits beside what computes, the longest first.

A pytest plugin. Fault tests and tests of whole services wait most of their time, for a timeout or for a
process to start; the others keep a core busy. So a run has more processes than the machine has cores, and
they begin with different groups: one with what keeps a core busy, most with what waits. What needs the run's
Kafka or Cassandra goes to one process first, so that one of each serves the whole run; tests that start
engines of their own run beside it.

`pytest --record-durations` writes how long each scope took, by which later runs are balanced.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from typing_extensions import override
from xdist.scheduler import LoadFileScheduling

EXTRA_PROCESSES: Final = 4
"""Processes beyond the cores, so that both have work while most processes wait."""

ENGINES: Final = "engines"
PROCESSES: Final = "processes"
LIGHT: Final = "light"

PREFERENCES: Final = (
    (ENGINES, PROCESSES, LIGHT),
    (PROCESSES, LIGHT, ENGINES),
    (LIGHT, PROCESSES, ENGINES),
)
"""From which group each process takes its tests, as long as there are any; further ones do as the second."""

ENGINE_FILES: Final = ("tests/contracts/test_cassandra", "tests/chaos/test_f08_f09_f12_")
"""Files whose tests need the run's Kafka or Cassandra; elsewhere a parameter says so."""

NO_ENGINE_FILES: Final = ("tests/architecture/",)
"""Files whose parameters name an engine and whose tests start none."""

BROWSER_FILES: Final = "tests/browser/"
"""Tests that share one browser and one service."""

PROCESS_FILES: Final = ("tests/chaos/", "tests/journeys/", "tests/engines/", BROWSER_FILES)
"""Files whose tests start processes of their own, real engines among them."""

INDEPENDENT: Final = "tests/chaos/"
"""Tests that share nothing: each may run in another process than the rest of its file."""

DURATIONS_FILE: Final = Path(__file__).with_name("durations.json")
"""Seconds by scope, those of at least `LEAST_S`."""

LEAST_S: Final = 2.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records durations."""
    parser.addoption("--record-durations", action="store_true", help=f"write {DURATIONS_FILE.name}")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to record where that was asked for, in the process that hears of every test."""
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationRecorder())


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Say what `-n auto` means; `PYTEST_XDIST_AUTO_NUM_WORKERS` says otherwise."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + EXTRA_PROCESSES


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "GroupScheduling | None":
    """Put groups in the place of `--dist loadfile`; any other way to share the tests stays as it is."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def scope_of(nodeid: str) -> str:
    """Return the name of what runs in one process: a file, its part on real engines, or a fault test."""
    file, _, test = nodeid.partition("::")
    if file.startswith(INDEPENDENT):
        return nodeid
    if file.startswith(NO_ENGINE_FILES):
        return file
    if file.startswith(BROWSER_FILES):
        return BROWSER_FILES
    needing = {"cassandra", "engines"} & set(test.partition("[")[2].removesuffix("]").split("-"))
    return f"{file}[{ENGINES}]" if needing else file


def group_of(scope: str) -> str:
    """Return the group of a scope."""
    if scope.startswith(ENGINE_FILES) or f"[{ENGINES}]" in scope:
        return ENGINES
    return PROCESSES if scope.startswith(PROCESS_FILES) else LIGHT


class GroupScheduling(LoadFileScheduling):
    """Gives each process of a run the next scope of its group, the longest first."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._durations: dict[str, float] = json.loads(DURATIONS_FILE.read_text(encoding="utf-8"))

    @override
    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    @override
    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(self._next_for(node), last=False)
        super()._assign_work_unit(node)

    @override
    def _reschedule(self, node: Any) -> None:
        """Give more as late as can be: what waits in a process is done by no other."""
        if self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) > 1:
            return
        super()._reschedule(node)

    def _next_for(self, node: Any) -> str:
        number = int(node.gateway.id.removeprefix("gw"))
        groups = PREFERENCES[number] if number < len(PREFERENCES) else PREFERENCES[1]
        return min(
            self.workqueue,
            key=lambda scope: (groups.index(group_of(scope)), -self._durations.get(scope, 0.0)),
        )


class DurationRecorder:
    """Adds up how long the tests of each scope take and writes it down at the end."""

    def __init__(self) -> None:
        self._durations: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self._durations[scope_of(report.nodeid)] += report.duration  # type: ignore[assignment]  # a float counts as well

    def pytest_sessionfinish(self) -> None:
        """Replace the file; what did not run this time keeps its duration."""
        known = json.loads(DURATIONS_FILE.read_text(encoding="utf-8")) | {
            scope: round(seconds, 1) for scope, seconds in self._durations.items()
        }
        stored = {scope: seconds for scope, seconds in sorted(known.items()) if seconds >= LEAST_S}
        DURATIONS_FILE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
