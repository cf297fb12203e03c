"""Tables of the store, each designed for its queries, and migrations of older files."""

import sqlite3
from datetime import UTC, datetime
from typing import Final

from app.adapters.shared.columns import from_pairs_text, to_pairs_text
from app.adapters.shared.opening import LISTED_KINDS, UNREADABLE, SchemaRefused, missing_index

APPLICATION_ID: Final = 0x56535452
"""Says in the file's header whose it is ("VSTR")."""

_VERSION_2: Final = """
-- A value by its name. key_check: what the root key derives, to refuse a wrong one at start.
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

-- A record by (tenant, kind, id). first_body is NULL while the body is still the first one. searched: a text
-- of which a fragment finds it; sought_at: its place among all records that have one, the newest last.
CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    version INTEGER NOT NULL, created_at INTEGER NOT NULL, fingerprint TEXT NOT NULL,
    searched TEXT, sought_at INTEGER, indexes TEXT NOT NULL, body BLOB NOT NULL, first_body BLOB,
    UNIQUE (tenant, kind, id)
);
-- What is to be known of a record to see whether a fragment may find it, beside its indexes.
CREATE INDEX records_sought ON records (sought_at, tenant, kind, searched) WHERE sought_at IS NOT NULL;

-- By sought_at, the pieces of each text, each with eight letters for whose and of which mode it is, and the
-- indexes under which it can be sought: which records have all of them, newest first. Numbers alone are kept,
-- no text. The newest records are not in it yet: the last of `gathered` tells up to which place they are, and
-- the few beyond are looked through. The others divide what is older into parts, each with as many records.
CREATE VIRTUAL TABLE record_grams USING fts5(
    tokens, content = '', columnsize = 0, detail = none, prefix = '10 12', tokenize = 'ascii'
);
CREATE TABLE gathered (sought_at INTEGER PRIMARY KEY);
INSERT INTO gathered VALUES (0);

-- Records of one (index name, value), newest first; created_at in microseconds. The value leads: what one
-- subject is listed under lies side by side, and a page of the file is changed once for all of it.
CREATE TABLE record_places (
    tenant TEXT NOT NULL, value TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
    created_at INTEGER NOT NULL, id TEXT NOT NULL,
    PRIMARY KEY (tenant, value, name, kind, created_at, id)
) WITHOUT ROWID;

-- Decision events in commit order, and by id to mark them as emitted. seen_at: when the commit was written,
-- in milliseconds; it never falls.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL, livemode INTEGER NOT NULL, seen_at INTEGER NOT NULL, body BLOB NOT NULL
);
-- A tenant's events of one mode in commit order, from a moment on.
CREATE INDEX events_fed ON events (tenant, livemode, seen_at);

-- Events that are not yet published, oldest first; emptied by publishing, so it stays small.
CREATE TABLE events_waiting (seq INTEGER PRIMARY KEY);
CREATE TRIGGER events_wait AFTER INSERT ON events
    BEGIN INSERT INTO events_waiting VALUES (new.seq); END;

-- Audit rows in commit order; only ever added. created_at in milliseconds.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL, event_id TEXT NOT NULL, action TEXT NOT NULL, actor_type TEXT NOT NULL,
    actor_id TEXT, subject_id TEXT NOT NULL, correlation_id TEXT, decision_id TEXT,
    context TEXT NOT NULL, detail TEXT NOT NULL, created_at INTEGER NOT NULL, livemode INTEGER NOT NULL,
    UNIQUE (tenant, event_id)
);
-- A tenant's rows of one mode, newest first; the next four: of one subject, decision, request, actor, action.
CREATE INDEX audit_by_time ON audit (tenant, livemode, created_at, event_id);
CREATE INDEX audit_by_subject ON audit (tenant, subject_id, created_at, event_id);
CREATE INDEX audit_by_decision ON audit (tenant, decision_id, created_at, event_id)
    WHERE decision_id IS NOT NULL;
CREATE INDEX audit_by_correlation ON audit (tenant, correlation_id, created_at, event_id)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX audit_by_actor ON audit (tenant, actor_id, created_at, event_id) WHERE actor_id IS NOT NULL;
CREATE INDEX audit_by_action ON audit (tenant, action, created_at, event_id);
CREATE TRIGGER audit_is_not_updated BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;

-- The link of a sealed row, by the row; and a tenant's chain by position.
CREATE TABLE audit_chain (
    seq INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL, position INTEGER NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL,
    UNIQUE (tenant, position)
);
CREATE TRIGGER audit_chain_is_not_updated BEFORE UPDATE ON audit_chain
    BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
CREATE TRIGGER audit_chain_is_not_deleted BEFORE DELETE ON audit_chain
    BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;

-- Rows outside their chain, in commit order; emptied by sealing, so it stays small. No trigger fills it:
-- a row that somebody slips into `audit` must not be sealed.
CREATE TABLE audit_waiting (
    tenant TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tenant, seq)
) WITHOUT ROWID;

-- The last link of each chain, with its seal.
CREATE TABLE audit_heads (
    tenant TEXT PRIMARY KEY,
    position INTEGER NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL, seal TEXT NOT NULL
) WITHOUT ROWID;

-- What is known of a piece of evidence, and its content: `sealed` when it is small, else `file` tells its
-- blob from what an interrupted put left behind. Rows lie in the order they came, only ids are scattered.
CREATE TABLE evidence (
    seq INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL, evidence_id TEXT NOT NULL,
    subject_id TEXT NOT NULL, verification_id TEXT NOT NULL, kind TEXT NOT NULL,
    retention_policy TEXT NOT NULL, media_type TEXT NOT NULL, created_at INTEGER NOT NULL,
    file TEXT, sealed BLOB,
    UNIQUE (tenant, evidence_id)
);

-- A subject's wrapped data key, or the tombstone of a destroyed one.
CREATE TABLE subject_keys (
    tenant TEXT NOT NULL, subject_id TEXT NOT NULL, wrapped BLOB NOT NULL,
    PRIMARY KEY (tenant, subject_id)
) WITHOUT ROWID;
"""

_VERSION_3: Final = """
-- The holders whose keys were destroyed, numbered from 1 for each tenant in the order of the commits.
CREATE TABLE erasures (
    tenant TEXT NOT NULL, number INTEGER NOT NULL, subject_id TEXT NOT NULL,
    PRIMARY KEY (tenant, number)
) WITHOUT ROWID;
"""

_VERSION_4: Final = """
-- A tenant's evidence under one retention policy, oldest first.
CREATE INDEX evidence_by_age ON evidence (tenant, retention_policy, created_at, evidence_id);
"""

_VERSION_5: Final = ""
"""No table changes: `_list_ending` lists the records that earlier versions wrote and that end by age."""

OLDEST: Final = 2
"""What went before was never released, and had members and endpoints in the clear: it is refused."""

MIGRATIONS: Final = (_VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5)
"""The first makes version `OLDEST`, each other one leads to the next; what was released is never edited."""

WITH_ENDING_LISTED: Final = OLDEST + MIGRATIONS.index(_VERSION_5)
"""The version that lists every record that ends by age."""

NEWEST: Final = OLDEST + len(MIGRATIONS) - 1
"""The version this program knows."""

RECORDS_AT_ONCE: Final = 1_000
"""Records looked at in one statement, so that a migration takes little memory."""

_ENDING: Final = f"""
SELECT seq, kind, tenant, created_at, id, indexes, body FROM records
WHERE seq > ? AND kind IN ({", ".join("?" * len(LISTED_KINDS))}) ORDER BY seq LIMIT {RECORDS_AT_ONCE}"""  # noqa: S608 - constants only


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest version; nothing happens when it is there already.

    Raises:
        SchemaRefused: A newer version, one from before the first release, or another program wrote the file.
    """
    if standing_version(connection) == NEWEST:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        standing = standing_version(connection)
        for version, script in enumerate(MIGRATIONS, OLDEST):
            if version <= standing:
                continue
            for statement in _statements(script):
                connection.execute(statement)
            if version == WITH_ENDING_LISTED:
                _list_ending(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {NEWEST}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _list_ending(connection: sqlite3.Connection) -> None:
    """List what ends by age and was written before there was such a list."""
    now, after = datetime.now(UTC), 0
    while rows := connection.execute(_ENDING, (after, *LISTED_KINDS)).fetchall():
        after = rows[-1][0]
        for seq, kind, tenant, created_at, record_id, text, body in rows:
            pairs = from_pairs_text(text)
            pair = missing_index(kind, tenant, pairs, body, now)
            if pair is None:
                continue
            place = (tenant, pair[1], pair[0], kind, created_at, record_id)
            connection.execute("INSERT OR IGNORE INTO record_places VALUES (?, ?, ?, ?, ?, ?)", place)
            connection.execute(
                "UPDATE records SET indexes = ? WHERE seq = ?", (to_pairs_text((*pairs, pair)), seq)
            )


def standing_version(connection: sqlite3.Connection) -> int:
    """Return the version of the file, 0 for an empty one; raises what `migrate` does."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != (APPLICATION_ID if version else 0) or (tables and not version):
        raise SchemaRefused("the database file is not Veristream's")
    if version > NEWEST:
        raise SchemaRefused(f"the store has schema {version}, this version knows {NEWEST}: upgrade")
    if 0 < version < OLDEST:
        raise SchemaRefused(f"the store has schema {version}, {UNREADABLE}")
    return version


def _statements(script: str) -> list[str]:
    """Split a script where SQLite says a statement is complete: a trigger's body has semicolons too."""
    found: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found
