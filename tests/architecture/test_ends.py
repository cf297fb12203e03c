"""The page that says what ends names every kind of record and every table, and says it of those that do."""

import re
import sqlite3
from contextlib import closing

from app.adapters.cassandra.schema import MIGRATIONS, TABLES, settings_table
from app.adapters.sqlite.schema import migrate
from streams.ports.records import RecordKind
from streams.retention.expiry import EXPIRING
from tests.documentation import DOCS

ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+?) \|(?: (.+?) \|)?$", re.MULTILINE)
SWEPT = {"list_entries", "session_slot", "session_watch", "picture", "delivery", "delivery_watch"}
"""Kinds with a removal of their own; tests/handlers shows that each ends."""


def sections() -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The rows of both tables."""
    text = (DOCS / "concepts.md").read_text(encoding="utf-8").partition("## What ends, and when")[2]
    kinds, _, tables = text.partition("| table | in |")
    return ROW.findall(kinds), ROW.findall(tables)


def made_in_sqlite() -> set[str]:
    """The tables of a new file, without those that SQLite makes for a virtual one."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    return {name for name in names if not name.startswith("record_grams_")}


def made_in_cassandra() -> set[str]:
    """The tables that migrations make."""
    statements = [settings_table("any"), *(cql for step in MIGRATIONS for cql in step)]
    return {name for cql in statements for name in re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", cql)}


def test_every_kind_of_record_has_one_row() -> None:
    kinds, _ = sections()

    assert [row[0] for row in kinds] == [kind.value for kind in RecordKind]


def test_every_table_of_each_store_has_one_row() -> None:
    _, tables = sections()

    listed = {row[0]: row[1].split(", ") for row in tables}
    assert len(listed) == len(tables)
    assert {name for name, stores in listed.items() if "SQLite" in stores} == made_in_sqlite()
    assert {name for name, stores in listed.items() if "Cassandra" in stores} == made_in_cassandra()
    assert made_in_cassandra() == set(TABLES)
    assert {store for stores in listed.values() for store in stores} == {"SQLite", "Cassandra"}


def test_what_is_said_to_be_removed_is_what_the_sweeps_remove() -> None:
    kinds, _ = sections()

    said = {kind for kind, _, ends, _ in kinds if "removed" in ends}
    assert said == SWEPT | {one.kind.value for one in EXPIRING}
