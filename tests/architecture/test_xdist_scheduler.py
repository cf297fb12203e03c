"""The processes of a test run share the tests by files, fault tests one by one, real engines in one place."""

import json

import pytest

from tests.xdist_scheduler import DURATIONS_FILE, ENGINES, LIGHT, PREFERENCES, PROCESSES, group_of, scope_of


@pytest.mark.parametrize(
    ("nodeid", "scope", "group"),
    [
        ("tests/rules/test_td3_text.py::test_a[x]", "tests/rules/test_td3_text.py", LIGHT),
        ("tests/contracts/test_journal.py::test_a[sqlite]", "tests/contracts/test_journal.py", LIGHT),
        (
            "tests/contracts/test_journal.py::test_a[cassandra]",
            "tests/contracts/test_journal.py[engines]",
            ENGINES,
        ),
        (
            "tests/architecture/test_compose.py::test_a[cassandra]",
            "tests/architecture/test_compose.py",
            LIGHT,
        ),
        ("tests/engines/test_maven.py::test_a", "tests/engines/test_maven.py", PROCESSES),
        ("tests/journeys/test_sessions.py::test_a", "tests/journeys/test_sessions.py", PROCESSES),
        (
            "tests/chaos/test_kills.py::test_a[embedded]",
            "tests/chaos/test_kills.py::test_a[embedded]",
            PROCESSES,
        ),
        (
            "tests/chaos/test_kills.py::test_a[engines]",
            "tests/chaos/test_kills.py::test_a[engines]",
            ENGINES,
        ),
    ],
)
def test_a_test_has_its_scope_and_its_group(nodeid: str, scope: str, group: str) -> None:
    assert (scope_of(nodeid), group_of(scope)) == (scope, group)


def test_every_process_takes_what_is_left_in_any_group() -> None:
    assert [sorted(groups) for groups in PREFERENCES] == [sorted((ENGINES, PROCESSES, LIGHT))] * len(
        PREFERENCES
    )


def test_durations_are_recorded_of_files_that_exist() -> None:
    recorded = json.loads(DURATIONS_FILE.read_text(encoding="utf-8"))
    files = {scope.partition("::")[0].partition("[")[0] for scope in recorded}

    assert recorded
    assert [file for file in sorted(files) if not (DURATIONS_FILE.parents[1] / file).exists()] == []
