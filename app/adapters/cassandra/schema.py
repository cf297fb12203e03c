"""Tables of the keyspace, each designed for its queries, and their migrations.

Times are whole numbers: microseconds since 1970 where a column says so, else milliseconds. Rows of
`records`, `audit_heads`, `subject_keys`, `erasures` and `settings` are written by lightweight transactions
only; but a subject's new keys are added by plain writes (`keys`), a record past its period is removed by a
plain deletion (`record_removal`), and one that no other change can create is created by a plain write that is
dated back (`change_outbox`). All others are written by plain writes only, each such that writing it again
changes nothing.

What must not come back after it was taken away, and what must not be overwritten by somebody later,
is written `USING TIMESTAMP` with a number of our own instead of the clock's: a rising one where the
last must win (the version of the record, for its places), a falling one (`first_wins`) where the first
must. So a batch may be written again at any time, in any order, by anybody.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid5

HINTS: Final = "gc_grace_seconds = 10800"
"""For tables whose rows only hint at others: one that comes back does no harm. A batch that holds such a row
is not replayed by Cassandra after as long; by then only a replay of the change, from its outbox, ends it."""

_RECORDS: Final = (
    # part 0: a record by (tenant, kind, id), written by lightweight transactions only. searched is the text
    # of which a fragment finds it. first_body is null while the body is still the first one; `attempt` says
    # who wrote this version; `outbox` has the other rows of the change that wrote it, for recovery when
    # they were not written. created_at in microseconds.
    # part 1: `settled`, the last version whose outbox was written; the only column written by plain writes.
    """
    CREATE TABLE IF NOT EXISTS records (
        tenant text, kind text, id text, part tinyint,
        version int, created_at bigint, fingerprint text, searched text, indexes text,
        body blob, first_body blob,
        attempt uuid, outbox blob,
        settled int,
        PRIMARY KEY ((tenant, kind, id), part)
    )""",
    # Records of one (index name, value) created in one month (202611), newest first; created_at in
    # microseconds. A row may be there a moment too long or too late: the record itself has the last word.
    """
    CREATE TABLE IF NOT EXISTS record_places (
        tenant text, kind text, name text, value text, month int,
        created_at bigint, id text, searched text,
        PRIMARY KEY ((tenant, kind, name, value, month), created_at, id)
    ) WITH CLUSTERING ORDER BY (created_at DESC, id DESC)""",
    # Records whose text contains a gram (one to three bytes, hexadecimal) and that were created in one month,
    # newest first; created_at in microseconds. Written once with the record; it says nothing that changes.
    """
    CREATE TABLE IF NOT EXISTS record_grams (
        tenant text, kind text, gram text, month int,
        created_at bigint, id text, searched text,
        PRIMARY KEY ((tenant, kind, gram, month), created_at, id)
    ) WITH CLUSTERING ORDER BY (created_at DESC, id DESC)""",
    # The months in which anything was placed under (index name, value), newest first: no page guesses.
    """
    CREATE TABLE IF NOT EXISTS record_months (
        tenant text, kind text, name text, value text, month int,
        PRIMARY KEY ((tenant, kind, name, value), month)
    ) WITH CLUSTERING ORDER BY (month DESC)""",
)

_EVENTS: Final = (
    # A decision event by its id, the first one written under it. `waits_at` is its place in `waiting`;
    # `emitted`, set once it was published, is the one truth about that. tenant is the event's. `placed_at`
    # is the earliest of its places in `event_feed`.
    """
    CREATE TABLE IF NOT EXISTS events (
        id text PRIMARY KEY, tenant text, body blob, waits_at bigint, emitted boolean, placed_at bigint
    )""",
    # Events of a tenant, a mode and a day counted from 1970-01-01 in the order in which they became visible;
    # at in microseconds, by the store's clock. An event has a row for each time it was given a place.
    """
    CREATE TABLE IF NOT EXISTS event_feed (
        tenant text, livemode boolean, day bigint, at bigint, id text,
        PRIMARY KEY ((tenant, livemode, day), at, id)
    )""",
    # The days on which a tenant has events, oldest first: no page guesses.
    """
    CREATE TABLE IF NOT EXISTS event_days (
        tenant text, livemode boolean, day bigint, PRIMARY KEY ((tenant, livemode), day)
    )""",
    # What waits to be done, oldest first: `queue` "events", or any other. A row is only a hint, what is done
    # is known elsewhere. Each slot of 15 seconds is a partition, so the tombstones of what was done are in
    # partitions that are read no more; at 1,000 a second a slot has 15,000. waits_at in microseconds.
    f"""
    CREATE TABLE IF NOT EXISTS waiting (
        queue text, slot bigint, waits_at bigint, id text,
        PRIMARY KEY ((queue, slot), waits_at, id)
    ) WITH {HINTS}""",
    # The slots of a queue that may hold anything, oldest first; those known to be empty are cut off with
    # one range tombstone, which swallows the one before it.
    f"""
    CREATE TABLE IF NOT EXISTS waiting_slots (
        queue text, slot bigint, PRIMARY KEY (queue, slot)
    ) WITH {HINTS}""",
)

_AUDIT: Final = (
    # A tenant's audit rows of one mode and day, newest first; only ever added. created_at in milliseconds,
    # day counted from 1970-01-01. position: where it was sealed, to find its link, which is in audit_chain.
    """
    CREATE TABLE IF NOT EXISTS audit (
        tenant text, livemode boolean, day bigint, created_at bigint, event_id text,
        action text, actor_type text, actor_id text, subject_id text, correlation_id text, decision_id text,
        context text, detail text, position bigint,
        PRIMARY KEY ((tenant, livemode, day), created_at, event_id)
    ) WITH CLUSTERING ORDER BY (created_at DESC, event_id DESC)""",
    # The days on which a tenant has rows, newest first: no page guesses.
    """
    CREATE TABLE IF NOT EXISTS audit_days (
        tenant text, livemode boolean, day bigint, PRIMARY KEY ((tenant, livemode), day)
    ) WITH CLUSTERING ORDER BY (day DESC)""",
    # Where the rows with one value in one field stand, newest first: of a subject, decision or correlation
    # all at once (day 0), of an actor, action or kind of actor by day.
    """
    CREATE TABLE IF NOT EXISTS audit_places (
        tenant text, livemode boolean, name text, value text, day bigint, created_at bigint, event_id text,
        PRIMARY KEY ((tenant, livemode, name, value, day), created_at, event_id)
    ) WITH CLUSTERING ORDER BY (created_at DESC, event_id DESC)""",
    # Rows outside their chain, in commit order, by slots of a minute of created_at; emptied by sealing.
    f"""
    CREATE TABLE IF NOT EXISTS audit_waiting (
        tenant text, slot bigint, at timeuuid, event_id text, created_at bigint, livemode boolean,
        PRIMARY KEY ((tenant, slot), at)
    ) WITH {HINTS}""",
    # The tenants that may have rows outside their chain, and in which slots; in sixteen shards by tenant.
    f"""
    CREATE TABLE IF NOT EXISTS audit_slots (
        shard int, tenant text, slot bigint, used boolean, PRIMARY KEY (shard, tenant, slot)
    ) WITH {HINTS}""",
    # A tenant's chain by position, ten thousand links to a bucket, with the key of the row each one seals.
    """
    CREATE TABLE IF NOT EXISTS audit_chain (
        tenant text, bucket bigint, position bigint, event_id text, created_at bigint, livemode boolean,
        prev_hash text, hash text,
        PRIMARY KEY ((tenant, bucket), position)
    )""",
    # The last link of each chain with its seal. outbox: the links that moved it there, until they stand in
    # audit_chain; sealer: whose move it was.
    """
    CREATE TABLE IF NOT EXISTS audit_heads (
        tenant text PRIMARY KEY,
        position bigint, prev_hash text, hash text, seal text, outbox text, sealer text
    )""",
)

_EVIDENCE: Final = (
    # A subject's wrapped data key, or the tombstone of a destroyed one.
    """
    CREATE TABLE IF NOT EXISTS subject_keys (
        tenant text, subject_id text, wrapped blob, PRIMARY KEY ((tenant, subject_id))
    )""",
    # What is known of a piece of evidence. What is stored in one call has one home, the verification
    # of its first piece, and so one partition: all of it appears at once. file tells its blob from what
    # an interrupted put left behind. created_at in microseconds.
    """
    CREATE TABLE IF NOT EXISTS evidence (
        tenant text, home text, evidence_id text,
        subject_id text, verification_id text, kind text, retention_policy text, media_type text,
        created_at bigint, file text,
        PRIMARY KEY ((tenant, home), evidence_id)
    )""",
    # Under which home a piece of evidence is to be found, if it is kept.
    """
    CREATE TABLE IF NOT EXISTS evidence_homes (
        tenant text, evidence_id text, home text, PRIMARY KEY ((tenant, evidence_id))
    )""",
)

_ERASURES: Final = (
    # The holders whose keys were destroyed, numbered from 1 for each tenant in the order they were named.
    """
    CREATE TABLE IF NOT EXISTS erasures (
        tenant text, number bigint, subject_id text, PRIMARY KEY ((tenant), number)
    )""",
)

_EVIDENCE_AGES: Final = (
    # A tenant's evidence under one retention policy and created on one day, oldest first; written before the
    # piece, taken away after it, so a row may lead to nothing. created_at in microseconds, day counted from
    # 1970-01-01.
    f"""
    CREATE TABLE IF NOT EXISTS evidence_ages (
        tenant text, policy text, day bigint, created_at bigint, evidence_id text,
        PRIMARY KEY ((tenant, policy, day), created_at, evidence_id)
    ) WITH {HINTS}""",
    # The days on which a tenant has evidence under a policy, oldest first: no sweep guesses.
    f"""
    CREATE TABLE IF NOT EXISTS evidence_days (
        tenant text, policy text, day bigint, PRIMARY KEY ((tenant, policy), day)
    ) WITH {HINTS}""",
)

_ENDING_LISTED: Final[Sequence[str]] = ()
"""No table changes: `list_ending` lists the records that earlier versions wrote and that end by age."""

_ADDED_KEYS: Final = (
    # made: the wrapped keys of a subject, one unless several were made at the same moment; by plain writes.
    # wrapped: the one key of a subject that had one before, or the tombstone of what it had.
    "ALTER TABLE subject_keys ADD IF NOT EXISTS made set<blob>",
)

_TABLES_OF: Final = UUID("5d9f2d60-7a4e-41f0-8c3e-5f6b1d2a9c47")
"""Names of keyspaces are hashed under it."""


def settings_table(keyspace: str) -> str:
    """Return what makes the table of settings: a value by its name, by lightweight transactions only.

    It holds schema_version, store_id, key_check, migrating and touched, which is written to see whether
    anything can be. Its id derives from the keyspace, so
    that two who make it through two nodes at once, with no lock yet, make the same table.
    """
    table_id = uuid5(_TABLES_OF, keyspace)
    return f"CREATE TABLE IF NOT EXISTS settings (name text PRIMARY KEY, value blob) WITH id = {table_id}"


OLDEST: Final = 2
"""What went before was never released, and had members and endpoints in the clear: it is refused."""

MIGRATIONS: Final[Sequence[Sequence[str]]] = (
    (*_RECORDS, *_EVENTS, *_AUDIT, *_EVIDENCE),
    _ERASURES,
    _EVIDENCE_AGES,
    _ENDING_LISTED,
    _ADDED_KEYS,
)
"""The first makes version `OLDEST`, each other one leads to the next; what was released is never edited."""

WITH_AGES: Final = OLDEST + MIGRATIONS.index(_EVIDENCE_AGES)
"""The version that lists evidence by age."""

WITH_ENDING_LISTED: Final = OLDEST + MIGRATIONS.index(_ENDING_LISTED)
"""The version that lists every record that ends by age."""

NEWEST: Final = OLDEST + len(MIGRATIONS) - 1
"""The version this program knows."""

TABLES: Final = (
    "settings",
    "records",
    "record_places",
    "record_grams",
    "record_months",
    "events",
    "event_feed",
    "event_days",
    "waiting",
    "waiting_slots",
    "audit",
    "audit_days",
    "audit_places",
    "audit_waiting",
    "audit_slots",
    "audit_chain",
    "audit_heads",
    "subject_keys",
    "erasures",
    "evidence",
    "evidence_homes",
    "evidence_ages",
    "evidence_days",
)
"""All tables, to empty or count them."""

_LATEST: Final = 1 << 62
"""Microseconds; far beyond every clock."""


def first_wins(micros: int) -> int:
    """Return a write's timestamp such that of two writes the one made earlier, at `micros`, wins.

    It is far ahead of every clock: to take such a row away, delete it with `first_wins(0)`.
    """
    return _LATEST - micros
