"""What opening a store needs of both: errors that say how to fix it, and the index that older records lack.

Until schema 5 such records may be under no index. The pairs are literal, for a migration is not edited once
it was released; `streams` defines the same in `BY_AGE`, `ended_index`, `opened_index` and `seen_index`.
"""

import json
from datetime import datetime
from typing import Final

from schemas.base import rfc3339
from schemas.ids import PLATFORM
from schemas.problems import VeristreamError

UNREADABLE: Final = "of before the first release, which this version does not read: begin with an empty one"
"""Ends the refusal of a store whose tables were never released."""


class SchemaRefused(VeristreamError):
    """The store was written by a newer version, is another program's, or was not brought up to this one."""


class StoreRefused(VeristreamError):
    """The store answers and will not do as configured: credentials, TLS, names, or another store's folder."""


Pair = tuple[str, str]
"""(index name, value)."""

_BY_AGE: Final = ("age", "all")
_ACT, _SIGN_IN, _TOKEN, _WATCH = "act", "reviewer_session", "token", "session_watch"
_MONTHLY: Final = {"session_slot": "opened", "picture": "seen"}
"""Records that may be taken over at any time, and the index of the month in which they last were."""

LISTED_KINDS: Final = (_ACT, _SIGN_IN, _TOKEN, _WATCH, *_MONTHLY)
"""Kinds of records that a sweep finds by an index which earlier versions did not write."""


def missing_index(
    kind: str, tenant: str, indexes: tuple[Pair, ...], body: bytes, now: datetime
) -> Pair | None:
    """Return the index a record of `LISTED_KINDS` lacks, or None.

    When a slot or a picture was last taken over is not known: it is listed under the present month, and so
    stored for a whole period from now on.
    """
    names = {name for name, _ in indexes}
    if kind in _MONTHLY:
        return None if _MONTHLY[kind] in names else (_MONTHLY[kind], rfc3339(now)[:7])
    if kind == _WATCH:
        return None if names else ("ended", str(json.loads(body)["tenant_id"]))
    if "age" in names or (kind == _TOKEN and not _expires(tenant, body)):
        return None
    return _BY_AGE


def _expires(tenant: str, body: bytes) -> bool:
    """Tell a one-time token from the mark of an `Idempotency-Key`, which stays."""
    try:
        return tenant == PLATFORM and "expires_at" in json.loads(body)
    except (ValueError, TypeError):
        return False
