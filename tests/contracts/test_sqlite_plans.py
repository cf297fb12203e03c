"""No question to the store looks through a whole table."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import pytest

from app.adapters.sqlite import (
    audit_appending,
    audit_log,
    audit_rows,
    evidence_ages,
    evidence_rows,
    feed,
    journal,
    keys,
    record_removal,
    search,
)
from app.adapters.sqlite.batching import for_rows
from app.adapters.sqlite.engine import prepare
from schemas.audit import AuditFilter
from schemas.enums import ActorType
from streams.ports.records import Position
from tests.builders import ACME, NOW

SMALL = {"audit_waiting", "audit_heads", "w", "asked", "CONSTANT", "3"}
"""One row a tenant, all of which a checkpoint names. Emptied by sealing or emitting: looking through them is
looking at what waits; or what was asked itself."""

MATCH = ":M"
"""FTS5 says "SCAN" of looking up the rows that match."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An empty store: SQLite plans by the schema alone, as it does without statistics."""
    prepare(tmp_path / "store.sqlite3")
    with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as opened:
        yield opened


def steps(connection: sqlite3.Connection, statement: str) -> list[str]:
    """What SQLite would do."""
    parameters = [None] * statement.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]


def scans(plan: list[str]) -> list[str]:
    """The steps that read or sort more than they answer."""
    searched = [step for step in plan if step.startswith("SCAN") and MATCH not in step]
    return [step for step in searched if step.split()[1] not in SMALL] + [s for s in plan if "TEMP" in s]


STATEMENTS = {
    f"{module.__name__.rpartition('.')[2]}{name}": text
    for module in (
        audit_appending,
        audit_log,
        audit_rows,
        evidence_ages,
        evidence_rows,
        feed,
        journal,
        keys,
        record_removal,
        search,
    )
    for name, text in vars(module).items()
    if isinstance(text, str) and text.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_finds_its_rows_by_an_index(connection: sqlite3.Connection, name: str) -> None:
    assert scans(steps(connection, STATEMENTS[name])) == []


@pytest.mark.parametrize("name", [name for name, text in STATEMENTS.items() if "VALUES (?" in text])
def test_a_statement_for_many_rows_finds_them_by_an_index(connection: sqlite3.Connection, name: str) -> None:
    assert scans(steps(connection, for_rows(STATEMENTS[name], 3))) == []


@pytest.mark.parametrize(
    "name", [name for name, text in STATEMENTS.items() if "FROM record_places\nWHERE" in text]
)
def test_a_place_is_removed_by_its_whole_key(connection: sqlite3.Connection, name: str) -> None:
    """By a part of it, a deletion looks through everything listed under the same value."""
    (step,) = steps(connection, STATEMENTS[name])

    assert step.count("=?") == len(("tenant", "value", "name", "kind", "created_at", "id"))


def test_the_statements_of_every_store_are_tried_above() -> None:
    assert len(STATEMENTS) >= 28


EQUALS = {
    "action": "case.",
    "actor_type": ActorType.SYSTEM,
    "actor_id": "key_1",
    "subject_id": "customer-17",
    "decision_id": "dec_1",
    "correlation_id": "req-1",
    "livemode": True,
}


@pytest.mark.parametrize("count", range(len(EQUALS) + 1))
def test_every_filter_of_the_audit_log_has_its_index(connection: sqlite3.Connection, count: int) -> None:
    day = timedelta(days=1)
    bounds: list[dict[str, object]] = [{}, {"since": NOW}, {"until": NOW}, {"since": NOW - day, "until": NOW}]
    for names, bound in ((n, b) for n in combinations(EQUALS, count) for b in bounds):
        chosen = AuditFilter.model_validate({name: EQUALS[name] for name in names} | bound)
        queries = audit_log.page_queries(ACME, chosen, 50, Position(NOW, "aud_1"))

        plans = [steps(connection, statement) for statement, _ in queries]

        assert queries
        assert [step for plan in plans for step in scans(plan)] == []
        assert [plan for plan in plans if "created_at" not in plan[0]] == []
